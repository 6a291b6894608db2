"""An edit that a worker of the real client hides from git is seen by the proof of its step."""

from __future__ import annotations

import pytest
from support.scratch_project import Project

from claude.client import Client
from claude.conftest import Start
from claude.conversation import Reply, Request
from claude.scripts import FREE, Disobedient, bash

WITHIN = """\
name: within
description: Plan, and change nothing else
version: "1.2"
args: []
steps:
  - id: plan
    command: /speckit.plan
    autonomy: auto
    postconditions: [plan_exists, {changes_within: ["specs/**"]}]
    error_policy: stop
"""
HIDDEN = bash("echo evil >README.md && git update-index --assume-unchanged README.md && git status")
OUTSIDE = "changes_within=specs/**: 1 file changed outside specs/**: README.md"


@pytest.fixture
def project(furnished: Project) -> Project:
    furnished.write(".playbooks/config.yaml", 'agents: {claude: {allowed_tools: ["Bash"]}}\n')
    furnished.write(".playbooks/playbooks/within.yaml", WITHIN)
    furnished.commit("Plan within")
    return furnished


def caught(project: Project, client: Client) -> None:
    """The worker was not hindered, git shows nothing, and the step has failed."""
    (result,) = client.model.results_of(HIDDEN)
    assert not result.is_error
    assert "README.md" not in result.text
    (entry,) = project.journal()
    assert (entry["status"], entry["error_code"]) == ("failed", "PB-COND-POSTCONDITION")
    assert OUTSIDE in entry["error"]


def test_by_a_subagent_of_the_conversation(project: Project, start: Start) -> None:
    def worker(request: Request) -> Reply | None:
        written = request.called("Write") and HIDDEN not in request.calls
        return [HIDDEN] if written else None

    client = start(Disobedient(worker=worker))
    client.run("/playbook.run within", *FREE)
    caught(project, client)
