"""Detecting changed files: what counts as data, and what is restored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from support.stored_sessions import BEGAN

from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry, Past, State
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, SessionStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import integrity
from playbook_supervisor.sessions.files.journal import HEADER, emit_entry, parse_journal
from playbook_supervisor.sessions.files.local_state import chain
from playbook_supervisor.sessions.files.manifest import Manifest

DONE = Entry("a", EntryStatus.DONE, Decision.AUTO, 1000, completed_at=3500)
MADE = [replace(DONE, step_id=name) for name in "abcd"]
NOTHING = Playbook("p", "", "1.0", (), ())


@dataclass(frozen=True)
class Recorded:
    """What is known of a journal of these entries, of which the last `due` are not yet past."""

    made: list[Entry]
    due: int

    def differs(self, found: list[Entry], copy: Path = Path("/nonexistent")) -> str:
        past = len(self.made) - self.due
        state = State(NOTHING, Past(entries=past), tuple(self.made[past:]))
        chained = chain("", self.made[:past])
        return integrity.journal_difference(state, chained, found, copy)


@pytest.mark.parametrize("due", range(5))
def test_a_changed_entry_at_any_position_is_a_difference(due: int) -> None:
    recorded = Recorded(MADE, due)
    assert recorded.differs(list(MADE)) == ""
    for index, entry in enumerate(MADE):
        before, behind = MADE[:index], MADE[index + 1 :]
        assert recorded.differs([*before, replace(entry, output="forged"), *behind])
        assert recorded.differs([*before, *behind])


def test_a_chain_can_be_continued() -> None:
    assert chain(chain("", MADE[:2]), MADE[2:]) == chain("", MADE)


@pytest.mark.parametrize("due", [0, 2])
def test_the_copy_identifies_the_settled_entry_that_differs(tmp_path: Path, due: int) -> None:
    copy = tmp_path / "journal.yaml"
    copy.write_bytes(HEADER + b"".join(map(emit_entry, MADE)))
    changed = [MADE[0], replace(MADE[1], output="forged"), *MADE[2:]]
    told = Recorded(MADE, due).differs(changed, copy)
    assert told == "the entry b#1 was changed: output was empty and is 'forged'"
    assert "b#1 was removed or moved" in Recorded(MADE, due).differs([MADE[0], *MADE[2:]], copy)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        (b"duration_seconds: 2.5", ""),
        (b"duration_seconds: 2.50  # measured", ""),
        (b"duration_seconds: 2.4", "the duration of a#1 was changed"),
        (b"duration_seconds: 0", "the duration of a#1 was changed"),
        (b"", ""),
    ],
)
def test_a_duration_is_the_difference_of_its_times(stated: bytes, told: str) -> None:
    data = (HEADER + emit_entry(DONE)).replace(b"duration_seconds: 2.5", stated)
    found = parse_journal(data, "journal.yaml").entries
    assert integrity.wrong_duration(data, found, "journal.yaml") == told


def test_an_entry_that_has_not_ended_has_no_duration() -> None:
    running = Entry("a", EntryStatus.IN_PROGRESS, Decision.AUTO, 1000, launched_at=1000)
    data = HEADER + emit_entry(running) + b"    duration_seconds: 2.5\n"
    found = parse_journal(data, "journal.yaml").entries
    assert "a#1" in integrity.wrong_duration(data, found, "journal.yaml")


def test_manifests_differ_if_their_data_differ() -> None:
    known = Manifest("20260219-a7k", "p", "013-x", {}, SessionStatus.FAILED, BEGAN)
    assert integrity.manifest_difference(known, replace(known)) == ""
    told = integrity.manifest_difference(known, replace(known, status=SessionStatus.COMPLETED))
    assert told == "it was changed by something else: status was 'failed' and is 'completed'"


def test_only_missing_files_with_a_copy_are_restored(tmp_path: Path) -> None:
    folder, private = tmp_path / "folder", tmp_path / "private"
    folder.mkdir()
    private.mkdir()
    (folder / "session.yaml").write_bytes(b"newer")
    (private / "session.yaml").write_bytes(b"older")
    (private / "playbook.yaml").write_bytes(b"kept")
    assert integrity.restore_missing(folder, private) == ["playbook.yaml"]
    assert (folder / "session.yaml").read_bytes() == b"newer"
    assert (folder / "playbook.yaml").read_bytes() == b"kept"
    assert not (folder / "journal.yaml").exists()
    assert integrity.restore_missing(folder, private) == []
