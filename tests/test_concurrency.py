"""Twelve processes report, ask and answer at once: each accepted report is journaled once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CROWD = 12


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The replies to many processes, and the journal that they left."""
    argv = [
        sys.executable,
        str(HERE / "support/concurrent_processes.py"),
        str(tmp_path_factory.mktemp("crowd")),
    ]
    unmeasured = {name: said for name, said in os.environ.items() if "COVERAGE" not in name}
    environment = {**unmeasured, "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [*argv, str(CROWD)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    left: dict[str, Any] = json.loads(done.stdout)
    return left


def test_concurrent_commands_raise_no_error(found: dict[str, Any]) -> None:
    errors = [line for wave in found["waves"] for told in wave for line in told if line[0] == "!"]
    assert errors == []
    assert found["status"] == "completed"


def test_each_report_is_accepted_once_and_a_repeated_one_changes_nothing(
    found: dict[str, Any],
) -> None:
    own = [told for wave in found["waves"][:1] for told in wave]
    assert own == [[f"s{number}#1 {number} said it 1"] for number in range(CROWD)]
    outputs = {entry["step_id"]: entry["output"] for entry in found["journal"]}
    assert all(outputs[f"s{number}"] == f"{number} said it 1" for number in range(CROWD))
    assert len(found["journal"]) == CROWD + 1


def test_one_gate_is_passed_by_one_answer(found: dict[str, Any]) -> None:
    (winner,) = [line for told in found["waves"][1] for line in told]
    last = found["journal"][-1]
    assert winner == f"last#1?1 {last['human_response']}"
    assert [gate["text"] for gate in last["gates"]] == [last["human_response"]]


def test_only_the_first_of_many_reports_of_a_step_is_journaled(found: dict[str, Any]) -> None:
    (winner,) = [line for told in found["waves"][2] for line in told]
    assert winner == f"last#1 {found['journal'][-1]['output']}"
