"""The example for GitHub Actions, carried out: fresh clones, one remote, and no terminal."""

from __future__ import annotations

import re
import subprocess

import pytest
from claude.client import program
from support.github_actions import EXAMPLES, Forge, Run, scripts, workflow
from support.scratch_project import FEATURE, Project

EXAMPLE = "playbook.yml"
INPUTS = workflow(EXAMPLE)["on"]["workflow_dispatch"]["inputs"]
GITHUB = {"ref": f"refs/heads/{FEATURE}", "actor": "ada", "actor_id": "1815"}

pytestmark = pytest.mark.unmeasured


@pytest.fixture
def forge(project: Project) -> Forge:
    return Forge(project)


def dispatch(forge: Forge, *, run_attempt: str = "1", **inputs: str) -> Run:
    """Run the workflow on the branch with these inputs."""
    assert inputs.keys() <= INPUTS.keys()
    github = GITHUB | {"run_attempt": run_attempt}
    return forge.run(EXAMPLE, github, inputs, {"ANTHROPIC_API_KEY": "k"})


def test_inputs_never_become_shell_text() -> None:
    """Answers and names are data: they come through the environment, or not at all."""
    assert len(scripts(EXAMPLE)) == 9
    assert not [script for script in scripts(EXAMPLE) if "${{" in script]
    # only who may write can start it, or a workflow of the repository
    assert set(workflow(EXAMPLE)["on"]) == {"workflow_dispatch", "workflow_call"}


def test_a_playbook_runs_to_its_gate_and_continues_after_the_answer(forge: Forge) -> None:
    """tyr 3: on another machine each time, from what git alone has kept."""
    first = dispatch(forge, playbook="auto-feature", feature="013")
    assert (first.ok, first.outputs) == (True, {"code": "4"}), first.said
    assert first.ran == ["Install the agent", "Install", "Drive", "Keep the work", "Tell"]
    assert "    Run /feature.pr (step pr) now: continue, skip it, or abort?" in first.summary
    assert "gate `pr#1?1`\nand one of the answers continue, skip, abort." in first.summary

    answered = dispatch(forge, gate="pr#1?1", answer="continue")
    assert (answered.ok, answered.outputs) == (True, {"code": "0"}), answered.said
    assert answered.ran[1:] == ["Install", "Answer", "Drive", "Keep the work", "Tell"]
    assert re.search(r"^    .*completed", answered.summary, re.MULTILINE)
    assert "status: completed" in forge.session_file("session.yaml")
    assert "ada <1815+ada@users.noreply.github.com>" in forge.session_file("journal.yaml")
    log = forge.git("log", "--format=%s%x20(%an)", f"main..{FEATURE}").splitlines()
    (folder,) = forge.git("ls-tree", "--name-only", FEATURE, ".playbooks/sessions/").split()
    name = folder.rpartition("/")[2]
    assert f"its last commit is pushed to origin/{FEATURE}" in answered.said
    assert log[:3] == [
        f"Record session {name}: completed (ada)",
        f"Record session {name} before pr (ada)",
        "Keep the work of a playbook (ada)",
    ]
    assert forge.comments == []  # the repository has no workflow that would read answers


@pytest.mark.long
def test_a_run_that_is_repeated_does_not_answer_again(forge: Forge) -> None:
    """Its answer would count as that of the person who gave it, who need not know of it."""
    assert dispatch(forge, playbook="auto-feature", feature="013").ok
    repeated = dispatch(forge, run_attempt="2", answer="continue")
    assert (repeated.ok, repeated.outputs) == (True, {"code": "4"}), repeated.said
    assert "Answer" not in repeated.ran


HOSTILE_ANSWERS = (
    {"gate": "pr#1?1", "answer": '"; touch stolen; $(touch stolen) `touch stolen` continue'},
    {"gate": "$(touch stolen)", "answer": "continue"},
    {"answer": "--session=../../stolen"},
)
HOSTILE_NAMES = (
    {"playbook": "--agent=exec:touch stolen", "feature": "013"},
    {"playbook": "auto-feature", "feature": "--from=pr\n$(touch stolen)"},
)


@pytest.mark.long
def test_hostile_answers_and_names_change_nothing(forge: Forge) -> None:
    begins = {"playbook": "auto-feature", "feature": "013"}
    for inputs in (*HOSTILE_NAMES, begins, *HOSTILE_ANSWERS):
        before = forge.git("rev-parse", FEATURE)
        done = dispatch(forge, **inputs)
        assert done.ok == (inputs is begins), done.said
        assert (forge.git("rev-parse", FEATURE) == before) == (inputs is not begins)
    assert not list(forge.folder.rglob("stolen"))


@pytest.mark.long
def test_work_goes_to_another_branch_if_the_push_is_rejected(forge: Forge) -> None:
    """Others may have pushed to it in the hours of a run, or it may be protected."""
    hook = forge.bare / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\n[ "$1" != refs/heads/{FEATURE} ]\n')
    hook.chmod(0o755)
    before = forge.git("rev-parse", FEATURE)
    done = dispatch(forge, playbook="auto-validate", feature="013")
    assert (done.ok, done.ran[-2:]) == (False, ["Keep the work", "Tell"]), done.said
    assert done.summary == "The branch rejected the push. Merge kept-17 into it.\n"
    assert forge.git("rev-parse", FEATURE) == before
    assert "status: completed" in forge.session_file("session.yaml", "kept-17")


def test_the_client_is_the_one_that_the_tests_drive() -> None:
    """npm takes another one silently, where nothing is said."""
    client = program()
    if client is None:
        pytest.skip("the pinned claude-agent-sdk wheel brings no client for this platform")
    asked = subprocess.run([client, "--version"], capture_output=True, text=True, check=True)
    pinned = re.search(r"claude-code@(\S+)", (EXAMPLES / EXAMPLE).read_text("utf-8"))
    assert pinned
    assert pinned[1] == asked.stdout.split()[0]
