"""The checks of a project inside the real client: `next --wait` makes them, and no hook does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.checked_project import PROVED, Checked
from support.scratch_project import Project

from claude.conftest import Sit
from claude.obedient import Obedient
from claude.recorder import Recorder

RETRIED = PROVED.replace(
    "error_policy: gate\n    escalation_triggers: [postcondition_fail]", "error_policy: retry_once"
)


@pytest.fixture
def project(furnished: Project) -> Project:
    return furnished


@pytest.fixture
def checked(project: Project, tmp_path: Path) -> Checked:
    checked = Checked(project, tmp_path)
    project.write(".playbooks/playbooks/proved.yaml", RETRIED)
    project.commit("Retry")
    return checked


def test_a_step_that_breaks_the_tests_is_caught_and_done_once_they_pass(
    checked: Checked, sit: Sit, recorder: Recorder
) -> None:
    """Chapter 4; chapter 6: the agent claims success both times."""
    project = checked.project
    states = iter(("1\n", ""))
    model = Obedient(after={"speckit.implement": lambda: project.write("broken", next(states))})
    terminal = sit(model)
    terminal.say("/playbook.run proved")
    terminal.wait_for(r"Run /feature\.pr \(step pr\) now", timeout=120)
    terminal.wait_for(re.escape("✓ test passed on tree "))
    red, green, _ = project.journal()
    assert (red["status"], green["status"], green["attempt"]) == ("failed", "done", 2)
    assert '"1 failed, 311 passed"' in red["error"]
    assert "exit 0 in " in green["evidence"][0]
    ran = [seen["tool_input"]["command"] for seen in recorder.of("PreToolUse", tool="Bash")]
    assert ran == ["playbook next --wait"] * 2
    terminal.choose("continue")
    terminal.wait_for("proved: completed")
    assert checked.runs == 2
