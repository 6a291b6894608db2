"""The bytes of a journal: old bytes are kept, new entries are added."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hypothesis_strategies import entries

from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.journal import (
    EMPTY,
    HEADER,
    JournalText,
    emit_entry,
    parse_journal,
)

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "journals").glob("*.yaml"))
OPEN = Entry("b", EntryStatus.IN_PROGRESS, Decision.AUTO, 1000, launched_at=1000)
DONE = replace(OPEN, status=EntryStatus.DONE, completed_at=2000, launched_at=None)


def read(data: bytes, due: int) -> JournalText:
    return JournalText.parsed(data, parse_journal(data, "journal.yaml"), due)


@given(st.lists(entries(), min_size=1, max_size=2), entries(), st.data())
def test_adding_entries_and_changing_an_unedited_one_changes_no_other_byte(
    made: list[Entry], after: Entry, data: st.DataObject
) -> None:
    text = JournalText()
    for entry in made:
        text = text.with_new(entry)
    assert text.data == text.settled().data == HEADER + b"".join(map(emit_entry, made))
    index = data.draw(st.integers(0, len(made) - 1))
    made[index], before = after, made[index]
    changed = text.with_entry(index, before, after)
    assert changed.data == HEADER + b"".join(map(emit_entry, made))


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_splitting_a_journal_keeps_its_bytes(file: Path) -> None:
    data = file.read_bytes()
    count = len(parse_journal(data, file.name).entries)
    for due in range(count + 1):
        text = read(data, due)
        assert len(text.due) == due
        assert text.data == data
        assert JournalText.placed(data, json.loads(json.dumps(text.places()))) == text
        assert text.settled().data == data


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_new_entry_keeps_every_byte_of_any_journal(file: Path) -> None:
    data = file.read_bytes()
    parsed = parse_journal(data, file.name)
    written = read(data, 0).with_new(DONE).data
    start, stop = parsed.hollow
    assert written.startswith(data[:start] if stop else data[: parsed.end])
    assert len(parse_journal(written, file.name).entries) == len(parsed.entries) + 1


def test_changing_an_edited_entry_keeps_the_persons_notes() -> None:
    noted = HEADER + emit_entry(OPEN).replace(b"decision", b"ticket: A-1  # Ana\n    decision")
    changed = read(noted, 1).with_entry(0, OPEN, DONE).data
    assert b"    ticket: A-1  # Ana\n    decision: auto\n" in changed
    assert parse_journal(changed, "journal.yaml").entries == (DONE,)


def test_a_comment_behind_the_last_entry_stays_where_it_was() -> None:
    noted = HEADER + emit_entry(OPEN) + b"\n  # so far\n"
    text = read(noted, 1).with_entry(0, OPEN, DONE).with_new(replace(OPEN, attempt=2))
    assert emit_entry(DONE) + b"\n  # so far\n" + emit_entry(replace(OPEN, attempt=2)) in text.data


def test_keys_behind_the_entries_stay_behind_them() -> None:
    data = HEADER + emit_entry(DONE) + b"notes: by Ana\n"
    text = read(data, 0).with_new(replace(OPEN, step_id="c"))
    assert text.data.endswith(emit_entry(replace(OPEN, step_id="c")) + b"notes: by Ana\n")
    assert text.with_new(replace(OPEN, step_id="d")).data.endswith(b"notes: by Ana\n")


@pytest.mark.parametrize("due", [0, 1])
def test_a_missing_last_line_end_is_put_before_the_next_entry(due: int) -> None:
    data = (HEADER + emit_entry(DONE)).removesuffix(b"\n")
    assert read(data, due).data == data
    assert read(data, due).with_new(OPEN).data == data + b"\n" + emit_entry(OPEN)


def test_the_default_text_is_an_empty_journal() -> None:
    assert JournalText().data == EMPTY
    assert read(EMPTY, 0) == JournalText()
