"""A worker moves the git directory away: the conversation stops until a person speaks."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude import playbooks
from claude.conftest import Sit, Start
from claude.model import Reply, Request, call, text
from claude.obedient import Obedient
from claude.recorder import Recorder
from claude.scripts import FREE, Disobedient, Undisturbed, bash, executed


@pytest.fixture
def project(furnished: Project) -> Project:
    playbooks.shelve(furnished)
    return furnished


@pytest.mark.parametrize("place", [".git", ".git/playbook"])
def test_the_conversation_writes_no_file_and_starts_no_agent(
    project: Project, start: Start, place: str
) -> None:
    hidden = place.replace("playbook", "playb' 'ook")  # of which no rule tells
    code = f"import os; os.rename('{hidden}', 'gone')"
    deed = Undisturbed("speckit.plan", bash(f"{sys.executable} -c {shlex.quote(code)}"))
    mine = [
        call("Write", file_path=str(project.root / "mine"), content="x"),
        call("Agent", description="mine", prompt="write a file"),
        bash("touch mine"),
    ]

    def main(request: Request) -> Reply | None:
        deed.main(request)
        return mine if request.called("Agent") and request.notifications else None

    client = start(Disobedient(main, deed.worker))
    done = client.run("/playbook.run straight 013", *FREE)
    assert (project.root / "gone").exists()
    assert not (project.root / "mine").exists()
    assert executed(client) == ["speckit.plan"]
    asked = [request for request in client.model.main if request.notifications]
    assert asked, "the worker's end begins a turn"
    told = [words for request in client.model.requests for words in request.texts]
    assert any("is not in" in words for words in told)
    assert done.code == 0


def test_a_person_is_told_and_works_on_and_releases_the_conversation(
    project: Project, sit: Sit, recorder: Recorder
) -> None:
    note, mine = project.root / "note.txt", project.root / "mine.txt"

    def talk(request: Request) -> Reply | None:
        if request.said.strip().endswith("write a note"):
            return [call("Write", file_path=str(note), content="x")]
        if request.mentions("write a note"):
            return [text("So be it.")]
        if request.notifications:
            return [call("Write", file_path=str(mine), content="x")]
        return None

    moved = Path(project.root / "gone")
    model = Obedient(
        talk=talk, after={"speckit.plan": lambda: (project.root / ".git/playbook").rename(moved)}
    )
    terminal = sit(model)
    terminal.say("/playbook.run straight 013")
    terminal.wait_for(r"Nothing goes on\s+until")
    terminal.wait_for_bell()
    assert not mine.exists()
    terminal.say("write a note")
    recorder.wait_for("Stop", saying="So be it")
    assert note.read_text() == "x"
    terminal.say("/playbook.pause")
    terminal.wait_for("This conversation is released")
    moved.rename(project.root / ".git/playbook")
    assert "straight" in project.playbook("status").out
