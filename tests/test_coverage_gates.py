"""The coverage gates, and that coverage measures processes as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coverage_gates
import pytest


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


Judge = Callable[..., tuple[int, str]]


@pytest.fixture
def judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Judge:
    """Run the gates over a report of these modules, `__` standing for `/`."""
    monkeypatch.chdir(tmp_path)

    def judge(*, branches: bool = True, **files: dict[str, Any]) -> tuple[int, str]:
        report: dict[str, Any] = {"meta": {"branch_coverage": branches}, "files": {}}
        for name, file in files.items():
            path = f"playbook_supervisor/{name.replace('__', '/')}.py"
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text("line\n" * 10)
            report["files"][path] = file
        Path("report.json").write_text(json.dumps(report))
        code = coverage_gates.main(["report.json"])
        return code, capsys.readouterr().out

    return judge


def test_coverage_is_sufficient_when_every_limit_is_met(judge: Judge) -> None:
    code, said = judge(
        wire=measured(100, 100), lint=measured(90, 100, (3,)), api=measured(100, 100)
    )
    assert code == 0
    assert "Coverage is sufficient." in said


def test_a_module_that_others_depend_on_needs_all_of_it(judge: Judge) -> None:
    """cat NFR-5.4."""
    code, said = judge(kernel__gates=measured(999, 1000, (12,)))
    assert code == 1
    assert (
        "playbook_supervisor/kernel/gates.py: 99.90%, below 100%; not run: 12, 4->7, 4->-1" in said
    )


def test_a_long_list_of_missing_lines_is_cut(judge: Judge) -> None:
    code, said = judge(lint=measured(0, 1000, tuple(range(1, 1001))))
    assert code == 1
    assert "19, 20, …" in said
    assert "21" not in said


def test_what_must_be_covered_completely_exists() -> None:
    """cat NFR-5.4."""
    package = Path(__file__).parent.parent / "playbook_supervisor"
    assert [name for name in coverage_gates.COMPLETE if not (package / name).exists()] == []


def test_every_module_has_a_limit_of_its_own(judge: Judge) -> None:
    code, said = judge(wire=measured(10_000, 10_000), lint=measured(89, 100, (3,)))
    assert code == 1
    assert "lint.py: 89.00%, below 90%" in said


def test_the_whole_package_needs_more_than_each_module(judge: Judge) -> None:
    """cat NFR-5.3."""
    code, said = judge(lint=measured(91, 100, (3,)), api=measured(92, 100, (3,)))
    assert code == 1
    assert "playbook_supervisor: 91.50%, below 95%" in said


def test_lines_and_coverage_of_each_package_are_printed(judge: Judge) -> None:
    _, said = judge(
        __init__=measured(0, 0),
        kernel__gates=measured(10, 10),
        kernel__table=measured(10, 10),
        wire=measured(10, 10),
    )
    assert [line.split() for line in said.splitlines()[:4]] == [
        ["package", "modules", "lines", "covered"],
        ["kernel", "2", "20", "100.00%"],
        ["wire", "1", "10", "100.00%"],
        ["all", "3", "30", "100.00%"],
    ]


def test_a_measurement_without_branches_is_refused(judge: Judge) -> None:
    with pytest.raises(SystemExit, match="branches were not measured"):
        judge(branches=False, wire=measured(10, 10))


RETURNS = """
def run():
    return

run()
"""
DIES = """
import signal

def run():
    signal.raise_signal(signal.SIGKILL)

run()
"""
STARTER = """
import subprocess, sys
from pathlib import Path

def start(cwd):
    for name in ("returns.py", "dies.py"):
        subprocess.run([sys.executable, Path(__file__).with_name(name)], cwd=cwd)
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


def test_a_process_that_a_test_starts_is_measured_unless_it_is_killed(tmp_path: Path) -> None:
    """A killed one leaves nothing behind, and does not harm the measurement of the others."""
    for name, text in {
        "returns.py": RETURNS,
        "dies.py": DIES,
        "starter.py": STARTER,
        "test_it.py": TEST,
        "pyproject.toml": SETTINGS,
    }.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--cov", "--cov-report=json:report.json"),
            f"--basetemp={tmp_path / 'base'}",  # else it tidies up after all former runs
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("COV")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = json.loads((tmp_path / "report.json").read_text())["files"]
    assert files["starter.py"]["summary"]["percent_covered"] == 100
    assert files["returns.py"]["summary"]["percent_covered"] == 100
    assert not files["dies.py"]["executed_lines"]
