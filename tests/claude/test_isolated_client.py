"""The real client in isolation: `playbook claude`, and what an agent inside cannot do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude.client import Client, program
from claude.conftest import Start
from claude.model import Script
from claude.scripts import FREE, Disobedient, at_work, bash, furnished, honest, steps

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is missing")

RUN = "/playbook.run short"
Isolated = Callable[[Script], Client]


class IsolatedClient(Client):
    """Started by `playbook claude`."""

    def argv(self, *args: str) -> list[str]:
        found = self.scratch / "bin/claude"
        if not found.exists():
            found.symlink_to(str(program()))
        settings = ["--settings", str(self.settings)] if self.settings else []
        playbook = str(self.scratch / "bin/playbook")
        return [*self.model.network.enter, playbook, "claude", *settings, *args]


@pytest.fixture(scope="module")
def template(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return furnished(pristine, tmp_path_factory.mktemp("furnished"))


@pytest.fixture
def project(template: Path, tmp_path: Path, home: Path) -> Project:
    return Project.copied(template, tmp_path / "project", home=home)


@pytest.fixture
def isolated(start: Start) -> Isolated:
    def make(script: Script) -> Client:
        client = start(script)
        client.__class__ = IsolatedClient
        return client

    return make


def test_a_playbook_runs_to_its_gate(project: Project, isolated: Isolated) -> None:
    look = bash(
        "env | grep -E 'CLAUDE|PLAYBOOK|TMP' ; ls -l /proc/$PPID/fd | head -60; ls -l /proc/self/fd; playbook status; playbook list; playbook show"
    )
    client = isolated(Disobedient(worker=at_work("speckit.plan", look)))
    done = client.run(RUN, *FREE)
    print(done.code, done.err[-2000:])
    for result in client.model.results_of(look):
        print(result.text)
    print(done.text)
    print(steps(project), project.manifest())
    assert honest(project, client) == "waiting"
