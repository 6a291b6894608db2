"""The checks of a project inside the real client: `next --wait` makes them, and no hook does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.checked_project import PROVED, Checked
from support.controlled_time import eventually
from support.scratch_project import Project

from claude.conftest import FREE, Sit, Start
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


QUICK = "checks: {{test: {{run: {test}}}, quick: {{run: {quick}}}}}\n"
COUNTS = "import sys; open(sys.argv[1], 'a').write('x')"


def test_a_killed_client_loses_no_proof_and_makes_again_the_check_that_was_running(
    checked: Checked, start: Start, tmp_path: Path
) -> None:
    """kai NFR1; chapter 4: SIGKILL after one proof, during the next, before the step's end."""
    project, runs = checked.project, tmp_path / "quick"
    quick = [sys.executable, "-c", COUNTS, str(runs)]
    project.write(".playbooks/config.yaml", QUICK.format(test=checked.argv, quick=quick))
    both = RETRIED.replace("[{command_succeeds", "[{command_succeeds: quick}, {command_succeeds", 1)
    project.write(".playbooks/playbooks/proved.yaml", both)
    project.commit("Prove twice")
    checked.hold()
    running = start(Obedient()).spawn("/playbook.run proved", *FREE)
    assert eventually(lambda: bool(checked.processes))
    running.process.kill()
    running.process.wait()
    assert eventually(lambda: checked.gone)
    (implement,) = project.journal()
    assert (implement["status"], "returned_at" in implement) == ("in_progress", True)
    assert [proof.check for proof in checked.kept] == ["quick"]
    checked.release()
    other = start(Obedient())
    other.run("/playbook.resume", *FREE)
    assert other.model.subagents == []
    assert (runs.read_text(), checked.runs) == ("x", 2)
    assert project.manifest()["gate"]["id"] == "pr#1?1"
    first, _ = project.journal()[0]["evidence"]
    assert first.endswith(", proved before, by implement#1")


def test_a_wrong_check_command_is_corrected_and_taken_over_by_typing(
    checked: Checked, sit: Sit, recorder: Recorder
) -> None:
    """The check is made again, and no worker runs again."""
    project, right = checked.project, f"checks: {{test: {{run: {checked.argv}}}}}\n"
    project.write(".playbooks/config.yaml", 'checks: {test: {run: ["false"]}}\n')
    project.write(".playbooks/playbooks/proved.yaml", PROVED)
    project.commit("Check otherwise")
    terminal = sit(Obedient())
    terminal.say("/playbook.run proved")
    terminal.wait_for("command_succeeds=test: check test: exit 1 in ")
    terminal.interrupt()
    project.write(".playbooks/config.yaml", right)
    terminal.say("take settings")
    told = terminal.wait_for(r"Answer `take settings ([0-9a-f]{12})`")[1]
    assert checked.runs == 0
    terminal.say(f"take settings {told}, continue")
    terminal.wait_for(r"Run /feature\.pr \(step pr\) now", timeout=120)
    implement, _ = project.journal()
    assert (implement["status"], checked.runs) == ("done", 1)
    assert (project.session / "config.yaml").read_text() == right
    assert implement["gates"][0]["text"] == f"take settings {told}, continue"
