"""What the action does that the examples do not show: checks, refusals, and killed runs."""

from __future__ import annotations

import pytest
from support.github_actions import Forge
from support.scratch_project import FEATURE, Project

BROKEN = 'name: broken\ndescription: A step too few\nversion: "1.0"\nargs: []\nsteps: []\n'
FILE = ".playbooks/playbooks/broken.yaml"

pytestmark = pytest.mark.unmeasured


@pytest.fixture
def forge(project: Project) -> Forge:
    return Forge(project)


def test_a_project_without_mistakes_passes_its_check(forge: Forge) -> None:
    done = forge.act(command="check")
    assert (done.ok, done.ran) == (True, ["Install", "Check"]), done.said
    assert done.summary.startswith("## Playbooks\n\n    ")
    assert ": fine" in done.summary


def test_a_mistake_is_annotated_and_fails_the_check(forge: Forge, project: Project) -> None:
    project.write(FILE, BROKEN)
    project.commit("Break a playbook")
    project.git("push", "-q", str(forge.bare), FEATURE)
    done = forge.act(command="check")
    assert not done.ok
    assert f"::error file={FILE},line=5" in done.said
    assert f"    {FILE}:5" in done.summary
    assert forge.act(command="check", playbook="auto-feature").ok


@pytest.mark.parametrize("name", ["$(touch stolen)", "../x\n"])
def test_a_hostile_name_is_a_name(forge: Forge, name: str) -> None:
    done = forge.act(command="check", playbook=name)
    assert (done.ok, done.ran) == (False, ["Install", "Check"])
    assert not list(forge.folder.rglob("stolen"))


def test_another_command_is_refused(forge: Forge) -> None:
    done = forge.act(command="publish")
    assert (done.ok, done.ran[-1]) == (False, "Refuse")
    assert "`command` is none of check, run and read-comment" in done.said


def test_a_run_that_is_killed_is_kept_and_reported(forge: Forge) -> None:
    (forge.tools / "playbook").write_text("#!/bin/sh\necho half >half.txt\nkill -9 $PPID\n")
    done = forge.act(command="run", playbook="auto-feature", args="013")
    assert (done.ok, done.ran) == (False, ["Install", "Drive", "Keep the work", "Tell"])
    assert forge.git("show", f"{FEATURE}:half.txt") == "half"
    log = "https://forge.example/us/project/actions/runs/17"
    assert done.summary == f"The run failed. Its log says why: {log}\n"


@pytest.mark.long
def test_a_comment_that_cannot_be_written_fails_a_run_that_waits_and_hides_no_status(
    forge: Forge,
) -> None:
    (forge.tools / "gh").write_text("#!/bin/sh\nexit 9\n")
    broken = forge.act(command="run", playbook="no-such", **{"pull-request": "7"})
    assert (broken.ok, broken.outputs) == (False, {"code": "1"})
    waiting = forge.act(command="run", playbook="auto-feature", args="013", **{"pull-request": "7"})
    assert (waiting.ok, waiting.outputs, waiting.ran[-1]) == (False, {"code": "4"}, "Tell")
    assert "## A playbook waits for you" in waiting.summary
