"""`playbook prove`: what the checks of a project prove about the tree that is there now."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.checked_project import Checked
from support.scratch_project import Project

from cli.scripts import GATED, conforms
from cli.terminal import Terminal


@pytest.fixture
def checked(project: Project, tmp_path: Path) -> Checked:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    return Checked(project, tmp_path)


def test_all_checks_run_and_say_what_they_prove(checked: Checked) -> None:
    asked = checked.project.playbook("prove")
    assert asked.code == 0
    assert "test  passed  check test: exit 0 in " in asked.out
    assert ', "312 passed", tree ' in asked.out
    assert "checking test" in asked.err


def test_a_check_that_fails_is_reported_with_its_last_lines(checked: Checked) -> None:
    checked.project.write("broken", "1\n")
    asked = checked.project.playbook("prove", "test")
    assert (asked.code, "failed  check test: exit 1 in " in asked.out) == (2, True)
    assert "  1 failed, 311 passed" in asked.err


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
    assert line.endswith("; 2 files have changed since: one.py, two.py")
    for name in ("four", "three"):
        project.write(f"{name}.py", "3\n")
    (line,) = (each for each in project.playbook("status").out.splitlines() if "passed on" in each)
    assert line.endswith("; 4 files have changed since: four.py, one.py, three.py and 1 more")


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
    assert (asked.code, checked.kept) == (0, ())
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


def test_an_agent_cannot_change_what_a_check_runs(checked: Checked) -> None:
    project = checked.project
    project.playbook("run", "gated")
    pinned = project.session / "config.yaml"
    pinned.write_text(pinned.read_text().replace("check.py", "check.py --mine"))
    refused = project.playbook("prove", "test", env={"CLAUDECODE": "1"})
    assert (refused.code, "PB-STATE-TAMPERED" in refused.err, checked.runs) == (3, True, 0)


def test_a_runner_at_its_prompt_learns_what_is_proved_elsewhere(checked: Checked) -> None:
    """A runner believes only what it wrote itself, so the proof is handed to it."""
    project = checked.project
    with Terminal(project, "run", "gated", "--agent", project.script("steps: {}")) as terminal:
        terminal.until("abort > ")
        assert project.process("prove").code == 0
        terminal.until("note: check test: exit 0 in ")
        terminal.until("abort > ")
        terminal.type("continue\n")
        assert terminal.end() == 0
    assert [proof.by for proof in checked.kept] == ["prove"]
    assert checked.runs == 1
