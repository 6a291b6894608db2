"""Edits of what a person has touched: the change is made, the person's layout stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.hypothesis_strategies import entries, gates, times

from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.formats.yaml_edit import edit_entry, edit_mapping
from playbook_supervisor.formats.yaml_writer import Block
from playbook_supervisor.kernel.state import Entry, Gate
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
)
from playbook_supervisor.records import fields, replace
from playbook_supervisor.sessions.files.journal import (
    HEADER,
    ParsedJournal,
    emit_entry,
    entry_mapping,
    parse_journal,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "journals"


def parsed(data: bytes) -> ParsedJournal:
    return parse_journal(data, "journal.yaml")


# ── what a person inserts ───────────────────────────────────────────────────────────────────

NOTES = [
    "",
    "# a note",
    "      # a note, further right",
    '    # a note: with [brackets], {braces} and "quotes"',
    "   ",
    "    x-note: mine",
    "    x-text: |\n      kept\n\n      as it is\n",
    "    x-keep: |+\n      kept\n\n",
    "    x-list:\n    - a   # b\n    - c",
    "    x-more: {a: 1,\n      b: 2}",
    "    x-empty:",
]
REMARKS = ["", "", "  # a remark", "\t# a remark: [", "   "]


@st.composite
def touched(draw: st.DrawFn, entry: Entry) -> tuple[str, list[str]]:
    """The entry's text with notes between its lines and remarks behind them, and the insertions."""
    pieces: list[str] = []
    inserted: list[str] = []
    notes = set(NOTES)
    for line in emit_entry(entry).decode().splitlines():
        remark = draw(st.sampled_from(REMARKS))
        pieces.append(f"{line}{remark}\n")
        inserted.append(remark)
        allowed = sorted(n for n in notes if _may_follow(line, n))
        note = draw(st.sampled_from([None, None, *allowed]))
        if note is not None:
            pieces.append(f"{note}\n")
            inserted.append(note)
            if "x-" in note:
                notes.discard(note)  # a key stands once
    return "".join(pieces), inserted


def _may_follow(line: str, note: str) -> bool:
    """Keys do not stand between the gates."""
    return "x-" not in note or not (line.startswith("      -") or line == "    gates:")


@st.composite
def continuations(draw: st.DrawFn, entry: Entry) -> Entry:
    """The entry as it might stand later: other values, gates answered and opened."""
    other = draw(entries())
    taken = draw(st.sets(st.sampled_from(fields(Entry))))
    later = replace(
        entry, **{name: getattr(other, name) for name in taken - {"step_id", "gates", "agent"}}
    )
    put = entry.gates
    if put:
        last = replace(put[-1], answered_at=draw(times), text="go", resolution=Resolution.CONTINUE)
        put = (*put[:-1], last)
    agent = entry.agent or other.agent
    return replace(later, gates=(*put, *draw(st.lists(gates(), max_size=2))), agent=agent)


@st.composite
def edits(draw: st.DrawFn) -> tuple[Entry, Entry, str, list[str]]:
    before = draw(entries())
    text, inserted = draw(touched(before))
    return before, draw(continuations(before)), text, inserted


def edited(text: str, before: Entry, after: Entry) -> str:
    return edit_entry(text.encode(), entry_mapping(before), entry_mapping(after)).decode()


def notes_of(text: str) -> dict[str, Any]:
    entry: Any = load(HEADER + text.encode(), "journal.yaml").data["entries"][0]  # type: ignore[index,call-overload]
    return {key: value for key, value in entry.items() if key.startswith("x-")}


@given(edits())
def test_the_change_is_made_and_every_note_stays(edit: tuple[Entry, Entry, str, list[str]]) -> None:
    before, after, text, inserted = edit
    result = edited(text, before, after)
    assert parsed(HEADER + result.encode()).entries == (after,)
    assert notes_of(result) == notes_of(text)
    at = 0
    for note in inserted:
        at = result.index(note.strip(), at) + len(note.strip())


@given(edits())
def test_unchanged_values_stay_byte_for_byte(edit: tuple[Entry, Entry, str, list[str]]) -> None:
    before, after, text, _ = edit
    result = edited(text, before, after)
    same = [
        key
        for key, value in entry_mapping(before).items()
        if entry_mapping(after).get(key) == value and key != "gates"
    ]
    lines = result.splitlines()
    for line in text.splitlines():
        if line.lstrip(" -").split(":")[0] in same:
            assert line in lines


@given(entries())
def test_an_empty_edit_changes_no_byte(entry: Entry) -> None:
    text = emit_entry(entry).decode()
    assert edited(text, entry, entry) == text


@given(st.data())
def test_an_edit_of_our_own_text_gives_our_own_text(data: st.DataObject) -> None:
    before = data.draw(entries())
    after = data.draw(continuations(before))
    assert edited(emit_entry(before).decode(), before, after) == emit_entry(after).decode()


@given(entries(), entries())
def test_any_entry_can_become_any_other(before: Entry, after: Entry) -> None:
    result = edited(emit_entry(before).decode(), before, after)
    assert parsed(HEADER + result.encode()).entries == (after,)


# ── a journal that a team has worked on ─────────────────────────────────────────────────────


def test_an_entry_of_kais_own_tools_is_settled_in_place() -> None:
    """Its empty strings are filled in; keys that it lacks come at their place."""
    data = (GOLDEN / "kai-crashed.yaml").read_bytes()
    journal = parsed(data)
    before = journal.entries[-1]
    start, stop = journal.spans[-1]
    after = replace(
        before,
        status=EntryStatus.DONE,
        launched_at=None,
        completed_at=before.started_at + 1500,
        recovered=True,
    )
    changed = edit_entry(data[start:stop], entry_mapping(before), entry_mapping(after))
    assert changed.decode() == (
        "- step_id: tasks\n"
        "  status: done\n"
        '  decision: ""\n'
        "  started_at: 2026-02-19T09:04:00Z\n"
        '  completed_at: "2026-02-19T09:04:01.500Z"\n'
        "  duration_seconds: 1.5\n"
        "  recovered: true\n"
        '  trigger: ""\n'
    )
    assert parsed(data[:start] + changed).entries == (journal.entries[0], after)


def test_a_gate_after_the_step_keeps_it_launched_in_a_session_of_kais_own_tools() -> None:
    data = (GOLDEN / "kai-crashed.yaml").read_bytes()
    journal = parsed(data)
    before = journal.entries[-1]
    start, stop = journal.spans[-1]
    gate = Gate("tasks#1?1", GateReason.POSTCONDITION_FAIL, Place.AFTER, before.started_at)
    after = replace(before, decision=Decision.ESCALATED, gates=(gate,))
    changed = edit_entry(data[start:stop], entry_mapping(before), entry_mapping(after))
    assert parsed(data[:start] + changed).entries == (journal.entries[0], after)


# ── layouts, one by one ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "before", "after", "result"),
    [
        ("a: 1  # n\nb: 2\n", {"a": "1"}, {"a": "x"}, "a: x  # n\nb: 2\n"),

        ("b: 2\nz: 1", {"b": "2"}, {"a": "x", "b": "2"}, "b: 2\nz: 1\na: x"),
        ("a: 1  # n\nb: 2\n", {"a": "1", "b": "2"}, {"b": "2"}, "# n\nb: 2\n"),

        ("a: 1\nb: 2\n", {"a": "1", "b": "2"}, {"a": "1"}, "a: 1\n"),

        ("a: 1\r\nb: 2\r\n", {"a": "1", "b": "2"}, {"b": "2", "c": "3"}, 'b: 2\r\nc: "3"\r\n'),
        ("a:   # n\nb: 2\n", {}, {"a": "x"}, "a: x   # n\nb: 2\n"),

        ("a:\tv\t # n\n", {"a": "v"}, {"a": "x", "c": "v"}, "a:\tx\t # n\nc: v\n"),
        ("b:\n- x\n-  # - n\n-  # n\n", {}, {"c": "v"}, "b:\n- x\n-  # - n\n-  # n\nc: v\n"),
        ("a: |\n  x\nb: 2\n  # n\n", {"b": "2"}, {}, "a: |\n  x\n#\n  # n\n"),
        ("a:\n- |+\n  x\nb: 2\n\nc: 3\n", {"b": "2"}, {}, "a:\n- |+\n  x\n#\n\nc: 3\n"),

        ("a: |\n  x\n\nb: 2\n", {"a": "x\n", "b": "2"}, {"b": "2"}, "\nb: 2\n"),

        ("a: |+\n  x\n\nb: 2\n", {"b": "2"}, {"b": "2", "c": "v"}, "a: |+\n  x\n\nb: 2\nc: v\n"),
        ("b: 2\na: |+\n  x\n\n", {}, {"c": "v"}, "b: 2\na: |+\n  x\n\nc: v\n"),
        ("a: |+\r\n  x\r\n\r\n", {}, {"c": "v"}, "a: |+\r\n  x\r\n\r\nc: v\r\n"),

        ("a: 'x\n  v'  # n\n", {"a": "x v"}, {"a": "v"}, "a: v  # n\n"),
        ("a:\n- x  # n\n- v\n", {"a": ["x", "v"]}, {"a": ["x", "z", "w"]},
         "a:\n- x  # n\n- z\n- w\n"),
        ("a:\n- x\n- v  # n\nb: 2\n", {"a": ["x", "v"]}, {"a": ["x"]}, "a:\n  [x]  # n\nb: 2\n"),

        ("a: [x , # n\n ]\n", {"a": ["x"]}, {"a": ["x", "v"]}, "a: [x, v , # n\n ]\n"),
        ("a: {}\n", {"a": {}}, {"a": {"x": "v"}}, "a: {x: v}\n"),
        ("a: {x: 1, }\n", {"a": {"x": "1"}}, {"a": {"x": "1", "b": "c"}}, "a: {x: 1, b: c, }\n"),

        ("a: {x: 1, v: 2}\n", {"a": {"x": "1", "v": "2"}}, {"a": {"v": "2"}}, "a: {v: 2}\n"),
        ("a: {x: 1, v: 2}\n", {"a": {"x": "1", "v": "2"}}, {"a": {"x": "1"}}, "a: {x: 1, }\n"),
        ("a: {x: 1 # n\n , v: 2}\n", {"a": {"x": "1", "v": "2"}}, {"a": {"v": "2"}},
         "a: { # n\n v: 2}\n"),

        ("a:\n  x: 1\n  # n\n", {"a": {"x": "1"}}, {"a": Block(x="2", v="z")},
         'a:\n  x: "2"\n  v: z\n  # n\n'),

        ("\ufeffa: 1\n", {"a": "1"}, {"a": "x"}, "\ufeffa: x\n"),
        ("a: é\nb: '日本'\n", {"b": "日本"}, {"b": "é"}, 'a: é\nb: "é"\n'),
    ],
)  # fmt: skip
def test_a_layout_is_kept(
    text: str, before: dict[str, object], after: dict[str, object], result: str
) -> None:
    assert edit_mapping(text.encode(), before, after).decode() == result


def test_the_first_key_after_the_dash_can_be_removed() -> None:
    text = '  - launched_at: "1970-01-01T00:00:00.001Z"\n    step_id: a\n'
    result = edit_entry(
        text.encode(), {"launched_at": "x", "step_id": "a"}, {"step_id": "a", "status": "done"}
    )
    assert result == b"  - \n    step_id: a\n    status: done\n"
    assert yaml.safe_load(result) == [{"step_id": "a", "status": "done"}]
