"""`playbook prove`: what the checks of a project prove about the tree that is there now."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from project import Project

from cli.scripts import GATED, conforms
from playbook_supervisor.sessions import proofs
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system import checkout

COUNTED = """\
import pathlib, sys
runs = pathlib.Path({runs!r})
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print("312 passed in 41 s")
sys.exit(pathlib.Path("broken").exists())
"""


class Checked:
    """A project whose check `test` fails if there is a file `broken`, and counts its runs."""

    def __init__(self, project: Project, beside: Path) -> None:
        self.project, self._runs = project, beside / "runs"
        script = beside / "check.py"
        script.write_text(COUNTED.format(runs=str(self._runs)))
        self.argv = [sys.executable, str(script)]
        project.write(".playbooks/config.yaml", f"checks: {{test: {{run: {self.argv}}}}}\n")
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        project.commit("Check")

    @property
    def runs(self) -> int:
        """How often the check has run."""
        return len(self._runs.read_text()) if self._runs.exists() else 0

    @property
    def kept(self) -> list[str]:
        """The checks that are proved in the only session."""
        store = DiskStore(checkout.find(self.project.root))
        runtime = store.journal(self.project.session.name).runtime
        return [proof.check for proof in proofs.known(runtime)] if runtime else []


@pytest.fixture
def checked(project: Project, tmp_path: Path) -> Checked:
    return Checked(project, tmp_path)


def test_all_checks_run_and_say_what_they_prove(checked: Checked) -> None:
    """Chapter 4: exit status, seconds, the last line that says something, and the tree."""
    asked = checked.project.playbook("prove")
    assert asked.code == 0
    assert "test  passed  check test: exit 0 in " in asked.out
    assert ', "312 passed in 41 s", tree ' in asked.out
    assert "checking test" in asked.err


def test_a_check_that_fails_is_reported_with_its_last_lines(checked: Checked) -> None:
    checked.project.write("broken", "")
    asked = checked.project.playbook("prove", "test")
    assert (asked.code, "failed  check test: exit 1 in " in asked.out) == (2, True)
    assert "  312 passed in 41 s" in asked.err


def test_the_result_is_one_json_object(checked: Checked) -> None:
    shape = conforms("prove", checked.project.playbook("prove", "test", "--json").json)
    (made,) = shape["checks"]
    assert (made["check"], made["held"], made["status"], made["by"]) == ("test", True, 0, "prove")


def test_a_program_of_its_own_can_be_a_check(checked: Checked) -> None:
    asked = checked.project.playbook("prove", f"cli {shlex.join(checked.argv)}")
    assert (asked.code, checked.runs) == (0, 1)


def test_an_unknown_check_is_named_before_any_runs(checked: Checked) -> None:
    asked = checked.project.playbook("prove", "test", "tset")
    assert (asked.code, checked.runs) == (1, 0)
    assert "'tset'; did you mean test?" in asked.err


def test_a_project_without_checks_says_where_to_define_them(project: Project) -> None:
    asked = project.playbook("prove")
    assert (asked.code, "the settings define no checks" in asked.err) == (1, True)


def test_a_check_that_cannot_be_started_proves_nothing(checked: Checked) -> None:
    asked = checked.project.playbook("prove", "cli no-such-program", "test", "--json")
    assert asked.code == 2
    missing, made = conforms("prove", asked.json)["checks"]
    assert (missing["held"], made["held"]) == (False, True)
    assert "cannot start 'no-such-program'" in missing["evidence"]


# ── in a session ────────────────────────────────────────────────────────────────────────────


def test_a_gate_says_what_is_proved_and_what_has_changed_since(checked: Checked) -> None:
    """Chapter 4: a proof holds for its tree."""
    project = checked.project
    assert project.playbook("run", "gated").code == 4
    assert project.playbook("prove").code == 0
    assert "✓ test passed on tree " in project.playbook("status").out
    shown = project.playbook("next", "--json").json["gate"]
    (proved,) = shown["details"]["proved"]
    assert (proved["check"], proved["by"], proved["changed_files"]) == ("test", "prove", 0)
    project.write("one.py", "1\n")
    project.write("two.py", "2\n")
    (line,) = [
        each
        for each in project.playbook("next", "--json").json["gate"]["context"]
        if "test passed" in each
    ]
    assert line.startswith("· test passed on tree ")
    assert line.endswith("; 2 files have changed since")


def test_what_is_proved_for_a_tree_is_not_proved_twice(checked: Checked) -> None:
    project = checked.project
    project.playbook("run", "gated")
    project.playbook("prove")
    again = project.playbook("prove")
    assert (again.code, checked.runs) == (0, 1)
    assert ", proved before, by prove" in again.out
    project.write("made.py", "1\n")
    project.playbook("prove")
    assert checked.runs == 2


def test_what_an_agent_proves_is_not_kept(checked: Checked) -> None:
    """An agent can choose the environment in which its shell runs the check."""
    project = checked.project
    project.playbook("run", "gated")
    asked = project.playbook("prove", env={"CLAUDECODE": "1"})
    assert (asked.code, checked.kept) == (0, [])
    assert "not kept, because a shell of Claude Code runs it" in asked.err


def test_an_agent_can_run_no_program_of_its_choice(checked: Checked) -> None:
    """The client lets a model run `playbook prove` without asking a person."""
    project, inside = checked.project, {"CLAUDECODE": "1"}
    outside = project.playbook("prove", "test", env=inside)
    assert (outside.code, checked.runs) == (3, 0)
    project.playbook("run", "gated")
    project.write(".playbooks/config.yaml", f"checks: {{mine: {{run: {checked.argv}}}}}\n")
    for name in (f"cli {shlex.join(checked.argv)}", "mine"):
        assert project.playbook("prove", name, env=inside).code == 1
    assert checked.runs == 0
