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
    (tmp_path / "tests").mkdir()

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


# ── since the last measurement ──────────────────────────────────────────────────────────────

CODE = "A = 1\n\n\ndef run():\n    return A\n"
MORE = "def more():\n    if A:\n        return 1\n    return 2\n"


@pytest.fixture
def package(tmp_path: Path, judge: Judge) -> Path:
    """A package whose figures were kept: 99 of 99 and 100 of 100. One module needs 100 %."""
    (tmp_path / "pyproject.toml").write_text('[tool.coverage.run]\nomit = ["*/generated/*"]\n')
    assert judge(kernel__gates=measured(99, 99), lint=measured(100, 100))[0] == 0
    return tmp_path / "playbook_supervisor"


def uncertain(package: Path) -> list[str]:
    return coverage_gates.uncertain(package.parent)


def test_a_measurement_applies_until_the_code_has_changed(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coverage_gates.main([]) == 0
    assert capsys.readouterr().out == "The last measurement of coverage applies.\n"
    (package / "kernel/gates.py").write_text("line\n" * 9 + "# said\nline\n")
    assert uncertain(package) == [], "a comment changes nothing"
    (package / "kernel/gates.py").write_text("line\n" * 11)
    assert coverage_gates.main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "Coverage has to be measured by `make coverage`:",
        "kernel/gates.py has changed, and needs 100%",
    ]


def test_what_has_been_added_counts_as_not_run(package: Path) -> None:
    (package / "lint.py").write_text(CODE)
    assert uncertain(package) == [], "100 of 102 are more than 90 %"
    (package / "lint.py").write_text(CODE + MORE + MORE)
    assert uncertain(package) == [
        "lint.py: at least 88%, needs 90%",
        "playbook_supervisor: at least 93%",
    ]


def test_a_new_module_was_not_measured(package: Path) -> None:
    (package / "imports.py").write_text("A = 1\n")
    (package / "kernel/__init__.py").write_text('"""Decides."""\n')
    (package / "generated").mkdir()
    (package / "generated/validator.py").write_text(CODE + MORE)
    assert uncertain(package) == [], "a module without functions runs when it is imported"
    (package / "new.py").write_text(CODE)
    assert uncertain(package)[0] == "new.py: at least 0%, needs 90%"


def test_figures_below_a_limit_are_not_kept(package: Path, judge: Judge) -> None:
    file = package.parent / coverage_gates.MEASURED
    before = file.read_bytes()
    assert judge(lint=measured(10, 20, (3,)))[0] == 1
    assert file.read_bytes() == before
    file.unlink()
    (package / "lint.py").write_text(CODE)
    assert uncertain(package)[-1] == "playbook_supervisor: at least 0%"


# ── processes ───────────────────────────────────────────────────────────────────────────────

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
