"""The bars for coverage, and that the measure sees processes as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parent.parent


def measured(covered: int, of: int, missing: tuple[int, ...] = ()) -> dict[str, Any]:
    return {
        "summary": {
            "num_statements": of,
            "covered_lines": covered,
            "num_branches": 0,
            "covered_branches": 0,
        },
        "missing_lines": list(missing),
        "missing_branches": [[4, 7], [4, -1]] if missing else [],
    }


def judge(folder: Path, *, branches: bool = True, **files: dict[str, Any]) -> tuple[int, str]:
    """Run the gates over a report of these modules, `__` standing for `/`."""
    report: dict[str, Any] = {"meta": {"branch_coverage": branches}, "files": {}}
    for name, file in files.items():
        path = f"playbook_supervisor/{name.replace('__', '/')}.py"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("line\n" * 10)
        report["files"][path] = file
    (folder / "report.json").write_text(json.dumps(report))
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools/coverage_gates.py", "report.json"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_house_passes_when_every_bar_is_met(tmp_path: Path) -> None:
    code, said = judge(
        tmp_path, wire=measured(100, 100), lint=measured(90, 100, (3,)), api=measured(100, 100)
    )
    assert code == 0
    assert "Every bar is met." in said


def test_a_room_on_which_others_rest_owes_everything(tmp_path: Path) -> None:
    code, said = judge(tmp_path, kernel__gates=measured(999, 1000, (12,)))
    assert code == 1
    assert (
        "playbook_supervisor/kernel/gates.py: 99.90% of the 100% it owes;"
        " never ran: 12, 4->7, 4->-1" in said
    )


def test_a_module_that_never_ran_does_not_flood_the_report(tmp_path: Path) -> None:
    code, said = judge(tmp_path, lint=measured(0, 1000, tuple(range(1, 1001))))
    assert code == 1
    assert "19, 20, …" in said
    assert "21" not in said


def test_no_module_may_hide_behind_the_others(tmp_path: Path) -> None:
    code, said = judge(tmp_path, wire=measured(10_000, 10_000), lint=measured(89, 100, (3,)))
    assert code == 1
    assert "lint.py: 89.00% of the 90% it owes" in said


def test_all_together_owe_more_than_each(tmp_path: Path) -> None:
    code, said = judge(tmp_path, lint=measured(91, 100, (3,)), api=measured(92, 100, (3,)))
    assert code == 1
    assert "playbook_supervisor: 91.50% of the 95% it owes" in said


def test_lines_and_coverage_of_each_room_are_printed(tmp_path: Path) -> None:
    _, said = judge(
        tmp_path,
        __init__=measured(0, 0),
        kernel__gates=measured(10, 10),
        kernel__table=measured(10, 10),
        wire=measured(10, 10),
    )
    assert [line.split() for line in said.splitlines()[:4]] == [
        ["room", "modules", "lines", "covered"],
        ["kernel", "2", "20", "100.00%"],
        ["wire", "1", "10", "100.00%"],
        ["all", "3", "30", "100.00%"],
    ]


def test_a_measurement_without_branches_is_refused(tmp_path: Path) -> None:
    code, said = judge(tmp_path, branches=False, wire=measured(10, 10))
    assert code == 1
    assert "branches were not measured" in said


SUBJECT = """
import signal

def run():
    {end}

run()
"""
STARTER = """
import subprocess, sys
from pathlib import Path

def start(cwd):
    subprocess.run([sys.executable, Path(__file__).with_name("subject.py")], cwd=cwd)
"""
TEST = """
import starter

def test_it(tmp_path):
    starter.start(tmp_path)
"""
SETTINGS = """
[tool.coverage.run]
branch = true
source = ["."]
parallel = true
patch = ["subprocess"]
"""


@pytest.mark.parametrize("end", ["return", "signal.raise_signal(signal.SIGKILL)"])
def test_a_process_that_a_test_starts_is_measured_unless_it_is_killed(
    tmp_path: Path, end: str
) -> None:
    """A killed one leaves nothing behind, and does no harm to the measurement of the others."""
    (tmp_path / "subject.py").write_text(SUBJECT.format(end=end))
    (tmp_path / "starter.py").write_text(STARTER)
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n2", "--cov", "--cov-report=json:report.json"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("COV")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = json.loads((tmp_path / "report.json").read_text())["files"]
    assert files["starter.py"]["summary"]["percent_covered"] == 100
    assert bool(files["subject.py"]["executed_lines"]) == (end == "return")
