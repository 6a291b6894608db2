"""A playbook inside the real client: each step a subagent, each gate a person's, nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from project import FEATURE, Project

from claude.conftest import Open, Start
from claude.model import Reply, Request, call, text

PASS = "---\nverdict: PASS\n---\n"
FILES = {
    "speckit.plan": (f"specs/{FEATURE}/plan.md", "the plan\n"),
    "speckit.tasks": (f"specs/{FEATURE}/tasks.md", "- [ ] T1\n"),
    "agreement.create": (f".agreements/{FEATURE}/agreement.yaml", "a: 1\n"),
    "agreement.check": (f".agreements/{FEATURE}/check-report.md", PASS),
    "qa.plan": (f".qa/{FEATURE}/test-plan.md", "tests\n"),
    "qa.run": (f".qa/{FEATURE}/verdict.md", PASS),
}
"""What each command writes."""


def work(request: Request) -> Reply:
    """A worker as it should be: it runs the command it was given, and does what it says."""
    found = re.search(r"Skill `([^`]+)`(?: with args `([^`]*)`)?", request.prompt)
    assert found, request.prompt
    skill, args = found[1], found[2]
    if not request.called("Skill"):
        return [call("Skill", skill=skill, **({"args": args} if args else {}))]
    if skill in FILES and not request.called("Write"):
        path, content = FILES[skill]
        return [call("Write", file_path=path, content=content)]
    return [text(f"{skill} is done")]


def obey(request: Request) -> Reply:
    """A supervising model as it should be: it dispatches what is due, and else says nothing."""
    if request.agent:
        return work(request)
    due: dict[str, Any] = request.directive() or {}
    ids = [step["id"] for step in due.get("steps", []) if due.get("directive") == "run"]
    sent = [made.input.get("prompt") for made in request.calls if made.name == "Agent"]
    if missing := [id_ for id_ in ids if id_ not in sent]:
        return [call("Agent", description=id_, prompt=id_) for id_ in missing]
    return [text("I wait.")]


@pytest.fixture
def installed(project: Project) -> Project:
    """A project in which `playbook init` has been run."""
    assert project.playbook("init", "--yes").code == 0
    project.gh("open")
    return project


def test_an_obedient_run_goes_to_the_gate_before_the_pull_request(
    installed: Project, start: Start
) -> None:
    """kai FR17, FR20, S-U1, S-B1: headless the run ends with the gate open."""
    client = start(obey)
    client.run("/playbook.run auto-feature 013", "--permission-mode", "acceptEdits")
    steps = [(entry["step_id"], entry["status"]) for entry in installed.journal()]
    assert steps == [
        ("plan", "done"),
        ("tasks", "done"),
        ("agreement", "done"),
        ("implement", "done"),
        ("agreement-check", "done"),
        ("qa-plan", "done"),
        ("qa-run", "done"),
        ("pr", "in_progress"),
    ]
    assert installed.manifest()["gate"]["id"] == "pr#1?1"
