"""An answer is recorded, and told as recorded, or it is not and the gate is still there."""

from __future__ import annotations

import errno
import json

import pytest
from pytest_mock import MockerFixture
from support.scratch_project import Project
from support.stored_sessions import Failing
from test_journeys import playbook

from playbook_supervisor.commands.driving import driving
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.sessions.store.snapshot import Snapshot

GATED = "publish /feature.pr gate_always stop"
LAST = "check /agreement.check auto gate postconditions=agreement_pass"


def asked(project: Project, *steps: str) -> None:
    """A session that waits for an answer."""
    name = playbook(project, *steps)
    run = project.playbook("run", name, "013", "--agent", project.script("default: {say: done}"))
    assert run.code == 4, run.err


def gates(project: Project) -> list[str]:
    """The gates that `status` shows."""
    (session,) = json.loads(project.playbook("status", "--all", "--json").out)["sessions"]
    return [session["gate"]["id"]] if session.get("gate") else []


def answered(project: Project) -> bool:
    (gate,) = project.journal()[0]["gates"]
    return "resolution" in gate


def tried(project: Project, word: str) -> Snapshot | None:
    try:
        return driving.answer([word], cwd=project.root)
    except PlaybookError:
        return None


@pytest.mark.parametrize(
    ("steps", "word", "reason", "lasting"),
    [
        ((GATED, LAST), "continue", errno.ENOSPC, False),
        ((GATED,), "skip", errno.EIO, True),
        ((LAST,), "accept", errno.EROFS, False),
    ],
    ids=["goes on", "ends", "waives"],
)
def test_an_answer_is_reported_as_recorded_or_its_gate_is_still_shown(
    project: Project,
    mocker: MockerFixture,
    steps: tuple[str, ...],
    word: str,
    reason: int,
    lasting: bool,
) -> None:
    asked(project, *steps)
    (gate,) = gates(project)
    refused = 0
    for turn in range(1, 60):
        failing = Failing(mocker, turn, reason, lasting=lasting)
        told = tried(project, word)
        mocker.stopall()
        assert answered(project) is (told is not None), turn
        assert (gate in gates(project)) is (told is None), turn
        if told is not None:
            assert told.notices or failing.left > 0, "it says what could not be written"
            break
        refused += 1
    assert refused > 1  # git renews its index, which is one more write, only at times
    assert project.playbook("audit").code == 0


def test_an_answer_without_copies_is_reported_as_recorded(project: Project) -> None:
    asked(project, GATED, LAST)
    copy = project.root / ".git/playbook" / project.session.name / "journal.yaml"
    copy.unlink()
    (copy / "in the way").mkdir(parents=True)
    told = project.playbook("answer", "continue")
    assert told.code == 0, told.err
    assert "note: recorded, but the copies in the git directory are older: cannot write" in told.err
    assert answered(project)


def test_a_gate_whose_answer_was_killed_before_the_journal_is_shown(project: Project) -> None:
    """The local state is written first: it knows the answer, which was never given."""
    asked(project, GATED, LAST)
    before = {path: path.read_bytes() for path in project.session.iterdir()}
    open_gates = gates(project)
    assert project.playbook("answer", "abort").code == 0
    for path, content in before.items():
        path.write_bytes(content)
    assert gates(project) == open_gates == ["publish#1?1"]
    assert project.playbook("answer", "continue").code == 0
