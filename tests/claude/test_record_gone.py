"""A worker moves the git directory away: the conversation stops until a person speaks."""

from __future__ import annotations

import shlex
import sys

import pytest
from support.scratch_project import Project

from claude import playbooks
from claude.conftest import Start
from claude.model import call
from claude.scripts import FREE, Undisturbed, bash, executed, freed_by


@pytest.fixture
def project(furnished: Project) -> Project:
    playbooks.shelve(furnished)
    return furnished


def test_the_conversation_writes_no_file_and_starts_no_agent(
    project: Project, start: Start
) -> None:
    code = "import os; os.rename('.git', 'gone')"
    deed = Undisturbed("speckit.plan", bash(f"{sys.executable} -c {shlex.quote(code)}"))
    mine = [
        call("Write", file_path=str(project.root / "mine"), content="x"),
        call("Agent", description="mine", prompt="write a file"),
        bash("touch mine"),
    ]

    client = start(freed_by(deed, *mine))
    done = client.run("/playbook.run straight 013", *FREE)
    assert (project.root / "gone").exists()
    assert not (project.root / "mine").exists()
    assert executed(client) == ["speckit.plan"]
    asked = [request for request in client.model.main if request.notifications]
    assert asked, "the worker's end begins a turn"
    told = [words for request in client.model.requests for words in request.texts]
    assert any("is not in" in words for words in told)
    assert done.code == 0
