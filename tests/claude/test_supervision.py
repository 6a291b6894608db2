"""A playbook inside the real client: each step a subagent, each gate a person's, nothing else."""

from __future__ import annotations

import pytest
from project import Project

from claude.conftest import Start
from claude.scripts import obey


@pytest.fixture
def installed(project: Project) -> Project:
    """A project in which `playbook init` has been run."""
    assert project.playbook("init", "--yes").code == 0
    project.gh("open")
    return project


def test_an_obedient_run_goes_to_the_gate_before_the_pull_request(
    installed: Project, start: Start
) -> None:
    """kai FR17, FR20, NFR5, S-U1, S-B1; cat IP-1: headless the run ends with the gate open."""
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
