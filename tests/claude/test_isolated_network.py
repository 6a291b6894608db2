"""The real client in isolation reaches its model through our proxy, and no other host."""

from __future__ import annotations

import subprocess

from support.bubblewrap import needs_bubblewrap
from support.scratch_project import Project

from claude.client import program
from claude.conftest import FREE, Start
from claude.conversation import Reply, Request, text
from claude.scripts import bash

pytestmark = needs_bubblewrap

SETTINGS = "isolation: {mode: required, network: proxy}\n"
LOOK = bash("curl -sS http://other.example; curl -sS --noproxy '*' $ANTHROPIC_BASE_URL")


def look(request: Request) -> Reply:
    return [text("Done.")] if request.results else [LOOK]


def test_the_model_is_reached_and_nothing_else(start: Start, project: Project) -> None:
    project.write(".playbooks/config.yaml", SETTINGS)
    project.commit("Isolate")
    client = start(look)
    (client.scratch / "bin/claude").symlink_to(str(program()))
    done = subprocess.run(
        [
            *client.model.network.enter,
            client.scratch / "bin/playbook",
            "claude",
            "-p",
            "Look.",
            *FREE,
        ],
        cwd=project.root,
        env=client.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (result,) = client.model.results_of(LOOK)
    assert "Not allowed: other.example. Add it under `isolation: {hosts: [other.example]}`" in (
        result.text
    )
    assert "Failed to connect" in result.text
    assert not client.model.strays
