"""Sessions of kai's own tools, without a copy of their playbook: every command takes them up."""

from __future__ import annotations

import pytest
from cli.terminal import Terminal
from support.hook_calls import Hooked
from support.kai_workspace import PLAYBOOK, SESSION, workspace
from support.scratch_project import Project

PINNED = f".playbooks/sessions/{SESSION}/playbook.yaml"


@pytest.fixture
def kai(project: Project) -> Project:
    return workspace(project)


def typed(project: Project, *args: str) -> tuple[int, str]:
    """The exit code and the screen of a command that a person types."""
    with Terminal(project, *args) as terminal:
        return terminal.end(), terminal.shown


def gated(project: Project) -> None:
    """Let the session wait at the gate before its last step."""
    project.write(
        f".playbooks/sessions/{SESSION}/journal.yaml",
        project.read(f".playbooks/sessions/{SESSION}/journal.yaml").replace(
            'status: "in_progress"', 'status: "done"'
        ),
    )


def test_abort_ends_one(kai: Project) -> None:
    code, shown = typed(kai, "abort", SESSION)
    assert code == 0, shown
    assert kai.manifest()["status"] == "aborted"
    assert kai.read(PINNED) == PLAYBOOK


def test_answer_answers_its_gate(kai: Project) -> None:
    gated(kai)
    code, shown = typed(kai, "next", "--session", SESSION)
    assert "pr#1?1" in shown, shown
    code, shown = typed(kai, "answer", SESSION, "skip")
    assert code == 0, shown
    assert kai.journal()[-1]["resolution"] == "skip"


def test_resume_inside_claude_code_continues_with_one(kai: Project) -> None:
    """What was running when kai stopped is judged by its evidence, and runs again."""
    assert kai.playbook("init", "--yes", "--replace").code == 0
    reply = Hooked(kai).types(f"/playbook.resume {SESSION}")
    assert reply.decision != "block", reply.reason
    assert "agreement-check" in str(reply.snapshot and reply.snapshot.directive)
    assert kai.read(PINNED) == PLAYBOOK


def test_graph_draws_one_and_writes_nothing(kai: Project) -> None:
    drawn = kai.playbook("graph", "--session", SESSION)
    assert drawn.code == 0, drawn.err
    assert "agreement-check" in drawn.out
    assert kai.git("status", "--porcelain") == ""


def test_repair_takes_one_as_it_is(kai: Project) -> None:
    code, shown = typed(kai, "repair", SESSION, "--take")
    assert code == 0, shown
    assert kai.read(PINNED) == PLAYBOOK


@pytest.mark.parametrize("command", ["abort", "graph --session"])
def test_without_the_playbook_the_guidance_is_to_put_it_there(kai: Project, command: str) -> None:
    (kai.root / ".playbooks/playbooks/auto-feature.yaml").unlink()
    code, shown = typed(kai, *command.split(), SESSION)
    assert code == 3
    assert "PB-STATE-NO-PLAYBOOK" in shown
    assert "Put the playbook that it ran beside session.yaml" in " ".join(shown.split())
