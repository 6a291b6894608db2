"""The script that the hooks run: in a path with blanks, and when a worker takes it away."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude import playbooks
from claude.conftest import Start
from claude.model import call
from claude.scripts import FREE, Undisturbed, bash, executed, freed_by, obey

SILENCED = "open(name, 'w').write('exit 0\\n')"


@pytest.fixture
def project(prepared: Path, tmp_path: Path, home: Path) -> Project:
    made = Project.copied(prepared, tmp_path / "a 'project' of $mine", home=home)
    playbooks.shelve(made)
    return made


def test_stops_the_conversation_when_a_worker_takes_it_away(project: Project, start: Start) -> None:
    code = f"import os; name = '.claude/hooks/play' 'book.sh'; {SILENCED}"  # which no rule names
    sabotage = Undisturbed("speckit.plan", bash(f"{sys.executable} -c {shlex.quote(code)}"))
    mine = [
        call("Write", file_path=str(project.root / "mine"), content="x"),
        call("Agent", description="mine", prompt="write a file"),
        bash("touch mine"),
    ]

    client = start(freed_by(sabotage, *mine))
    client.run("/playbook.run straight 013", *FREE)
    assert not (project.root / "mine").exists()
    assert executed(client) == ["speckit.plan"]
    told = [words for request in client.model.requests for words in request.texts]
    assert any("playbook.sh was changed or removed" in words for words in told)
    assert any("`playbook update` writes it again" in words for words in told)


def test_that_does_nothing_begins_no_session_and_is_mended_by_an_update(
    project: Project, start: Start
) -> None:
    script = project.read(".claude/hooks/playbook.sh")
    client = start(obey)
    project.write(".claude/hooks/playbook.sh", "exit 0\n")
    refused = client.run("/playbook.run straight 013", *FREE)
    assert project.sessions == [], refused.text
    assert project.playbook("update").code == 0
    assert project.read(".claude/hooks/playbook.sh") == script
    client.run("/playbook.run straight 013", *FREE)
    assert project.manifest()["status"] == "completed"
