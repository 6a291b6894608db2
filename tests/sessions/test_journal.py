"""The journal: every reader reads what was written, in old versions too."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from support.hypothesis_strategies import TRICKY, entries, times

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.timestamps import from_time, to_time
from playbook_supervisor.kernel.state import Entry, Gate
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    Trigger,
)
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.journal import (
    EMPTY,
    HEADER,
    ParsedJournal,
    durations,
    emit_entry,
    entry_mapping,
    entry_of,
    parse_journal,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "journals"

DONE = Entry(
    "plan", EntryStatus.DONE, Decision.AUTO, 1_000, completed_at=3_500, evidence=("plan_exists: p",)
)


def parsed(data: bytes) -> ParsedJournal:
    return parse_journal(data, "journal.yaml")


def with_next(data: bytes, entry: Entry) -> bytes:
    """The journal with one more entry, put where the parsed one says."""
    known = parsed(data)
    start, stop = known.hollow
    head = data[:start] + data[stop : known.end]
    head += b"" if head.endswith(b"\n") else b"\n"
    return head + emit_entry(entry, indent=known.indent) + data[known.end :]


# ── what is written ─────────────────────────────────────────────────────────────────────────


@given(st.lists(entries(), max_size=4))
def test_reading_inverts_writing(made: list[Entry]) -> None:
    data = HEADER + b"".join(map(emit_entry, made)) if made else EMPTY
    assert parsed(data).entries == tuple(made)


@given(entries())
def test_yaml_1_1_yaml_1_2_and_our_reader_agree(entry: Entry) -> None:
    data = HEADER + emit_entry(entry)
    old = yaml.safe_load(data)
    new = YAML(typ="safe", pure=True).load(data)
    assert old == new == {"schema": 1, "entries": [entry_mapping(entry)]}


@pytest.mark.parametrize("text", TRICKY)
def test_tricky_text_survives_in_every_place(text: str) -> None:
    gate = Gate(
        "a#1?1",
        GateReason.GATE_ALWAYS,
        Place.BEFORE,
        1,
        2,
        text,
        text=text,
        resolution=Resolution.SKIP,
    )
    entry = replace(DONE, error=text, evidence=(text,), gates=(gate,), agent={"name": text})
    data = HEADER + emit_entry(entry)
    assert parsed(data).entries == (entry,)
    assert yaml.safe_load(data)["entries"][0]["error"] == text


def test_bidirectional_and_hidden_characters_are_escaped() -> None:
    data = emit_entry(replace(DONE, error="a\u202eb\x1b[2Jc\u2028d"))
    assert b'error: "a\\u202eb\\u001b[2Jc\\u2028d"\n' in data


def test_an_entry_looks_as_a_reviewer_expects_it() -> None:
    """kai FR13, FR28, FR37, S-T3, D-J; cat FR-7.2; tyr 2: keys in their order, a line for each
    gate, nothing empty."""
    gate = Gate(
        "implement#2?1",
        GateReason.POSTCONDITION_FAIL,
        Place.AFTER,
        1771496430000,
        1771497151000,
        "Ana <ana@example.org>",
        text="fixed test, continue",
        resolution=Resolution.CONTINUE,
    )
    entry = Entry(
        "implement",
        EntryStatus.DONE,
        Decision.ESCALATED,
        1771496426104,
        completed_at=1771497151871,
        attempt=2,
        trigger=Trigger.POSTCONDITION_FAIL,
        human_response="fixed test, continue",
        resolution=Resolution.CONTINUE,
        evidence=("plan_exists: specs/013/plan.md, 212 lines",),
        gates=(gate,),
        agent={"name": "claude", "cost_usd": 1e-07, "turns": 3},
        recovered=True,
    )
    assert emit_entry(entry).decode() == (
        "  - step_id: implement\n"
        "    status: done\n"
        "    decision: escalated\n"
        '    started_at: "2026-02-19T10:20:26.104Z"\n'
        '    completed_at: "2026-02-19T10:32:31.871Z"\n'
        "    duration_seconds: 725.767\n"
        "    attempt: 2\n"
        "    trigger: postcondition_fail\n"
        '    human_response: "fixed test, continue"\n'
        "    resolution: continue\n"
        "    recovered: true\n"
        '    evidence: ["plan_exists: specs/013/plan.md, 212 lines"]\n'
        "    agent: {name: claude, cost_usd: 1.0e-07, turns: 3}\n"
        "    gates:\n"
        '      - {id: "implement#2?1", reason: postcondition_fail, place: after,'
        ' opened_at: "2026-02-19T10:20:30.000Z", answered_at: "2026-02-19T10:32:31.000Z",'
        ' by: "Ana <ana@example.org>", text: "fixed test, continue", resolution: continue}\n'
    )


@given(times, st.integers(min_value=0, max_value=10**9))
def test_a_duration_is_exactly_its_times_difference(start: int, lasting: int) -> None:
    """Chapter 3, property 9."""
    entry = replace(DONE, started_at=start, completed_at=start + lasting)
    seconds = entry_mapping(entry)["duration_seconds"]
    assert isinstance(seconds, float)
    assert round(seconds * 1000) == lasting
    document = yaml.safe_load(
        HEADER + emit_entry(replace(entry, started_at=0, completed_at=lasting))
    )
    assert document["entries"][0]["duration_seconds"] == lasting / 1000


# ── times ───────────────────────────────────────────────────────────────────────────────────


@given(times)
def test_a_time_reads_back_to_the_millisecond(ms: int) -> None:
    assert from_time(to_time(ms)) == ms


# ── golden histories ────────────────────────────────────────────────────────────────────────


def test_a_journal_of_ours_is_written_again_byte_for_byte() -> None:
    data = (GOLDEN / "ours-first.yaml").read_bytes()
    history = parsed(data)
    assert HEADER + b"".join(map(emit_entry, history.entries)) == data
    assert [entry.id for entry in history.entries] == [
        "plan#1",
        "tasks#1",
        "tasks#2",
        "implement#1",
        "qa-run#1",
        "pr#1",
    ]
    waiting = history.entries[-1].gate
    assert waiting is not None
    assert waiting.id == "pr#1?1"
    assert not history.legacy


def test_a_completed_session_of_kais_own_tools_loads() -> None:
    """kai D-J: no `schema`, empty strings, offsets, attempts without numbers."""
    history = parsed((GOLDEN / "kai-completed.yaml").read_bytes())
    assert history.legacy
    plan, first, second, pr = history.entries
    assert (plan.error, plan.trigger, plan.completed_at) == ("", None, 1771495530000)
    assert (first.id, second.id) == ("implement#1", "implement#2")
    assert second.started_at == first.completed_at
    assert second.human_response == "fixed test, continue"
    assert pr.completed_at is None


def test_an_open_entry_of_kais_own_tools_had_been_launched() -> None:
    """kai data model: an entry is written when its step starts."""
    history = parsed((GOLDEN / "kai-crashed.yaml").read_bytes())
    plan, tasks = history.entries
    assert plan.launched_at is None
    assert tasks.launched_at == tasks.started_at
    assert tasks.decision is Decision.AUTO


def test_an_open_entry_of_ours_says_itself_whether_it_was_launched() -> None:
    waiting = replace(DONE, status=EntryStatus.IN_PROGRESS, completed_at=None)
    assert parsed(HEADER + emit_entry(waiting)).entries[0].launched_at is None


def test_notes_in_a_journal_are_not_part_of_the_entries() -> None:
    history = parsed((GOLDEN / "ours-annotated.yaml").read_bytes())
    plan, implement = history.entries
    assert plan.evidence == ("plan_exists: specs/013/plan.md, 212 lines",)
    assert implement.failing == ("plan_exists",)
    assert implement.error == "plan_exists: specs/013/plan.md is missing\n"
    assert implement.gate is not None
    assert history.indent == 4


# ── where entries stand ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_every_golden_journal_takes_another_entry_and_keeps_every_byte(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    before = parsed(data)
    entry = replace(DONE, step_id="next")
    after = with_next(data, entry)
    assert parsed(after).entries == (*before.entries, entry)
    new = emit_entry(entry, indent=before.indent)
    assert after.replace(new, b"") == data.replace(b" []", b"")


def test_the_first_entry_makes_an_empty_journal_one_of_ours() -> None:
    assert with_next(EMPTY, DONE) == HEADER + emit_entry(DONE)


@pytest.mark.parametrize(
    "text",
    [
        "schema: 1\nentries: []",
        "schema: 1\nentries: [ ]  # none yet\n# end\n",
        "schema: 1\nentries:\n",
        "schema: 1\nentries:",
        "schema: 1\nentries: ~\nlinks: []\n",
        "schema: 1\nentries: null\n...\n",
        "schema: 1\n'entries': []\r\nlinks: []\r\n",
        "\ufeffentries: []\nschema: 1\n",
        "schema: 1\nentries:\n  - {step_id: a, status: done, decision: auto, started_at: "
        '"1970-01-01T00:00:00Z"}',
        "schema: 1\nentries:\n- step_id: a\n  status: done\n  decision: auto\n  started_at: "
        '"1970-01-01T00:00:00Z"\n...\n',
        "schema: 1\nentries:\n-\n\n  # a note\n  step_id: a\n  status: done\n  decision: auto\n"
        '  started_at: "1970-01-01T00:00:00Z"\n  notes: |\n    - not an entry\nlinks:\n- none\n',
    ],
)
def test_the_next_entry_goes_to_the_right_place(text: str) -> None:
    before = parsed(text.encode())
    entry = replace(DONE, step_id="next")
    after = with_next(text.encode(), entry)
    assert parsed(after).entries == (*before.entries, entry)
    again = with_next(after, replace(entry, attempt=2))
    assert [one.id for one in parsed(again).entries[-2:]] == ["next#1", "next#2"]


# ── what cannot be read ─────────────────────────────────────────────────────────────────────

GOOD = 'step_id: a\n    status: done\n    decision: auto\n    started_at: "1970-01-01T00:00:00Z"\n'


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "1:1", "`entries:` at its top level"),
        ("schema: 1\n", "1:1", "`entries:` at its top level"),
        ("schema: one\nentries: []\n", "1:9", "schema: must be a whole number"),
        ("schema: 1\nentries: {}\n", "2:10", "entries: must be a list, not a mapping"),
        ('schema: 1\nentries: ""\n', "2:10", "an empty journal must have `entries: []`"),
        ("schema: 1\nentries:\n  - plan\n", "3:5", "an entry must be a mapping"),
        ("entries:\n  - status: done\n", "2:5", "step_id: is missing"),
        (f"entries:\n  - {GOOD.replace('done', 'over')}", "3:13", "'over' is not one of"),
        (f"entries:\n  - {GOOD.replace('1970-01-01T00:00:00Z', 'now')}", "5:17", "not an ISO 8601"),
        (f"schema: 1\nentries:\n  - {GOOD.replace('auto', '')}", "5:14", "decision: is missing"),
        (f"entries:\n  - {GOOD}    attempt: 0\n", "6:14", "attempt: must be a whole number from 1"),
        (f"entries:\n  - {GOOD}    recovered: yes\n", "6:16", "recovered: must be true or false"),
        (f"entries:\n  - {GOOD}    error: [a]\n", "6:12", "error: must be text, not a list"),
        (f"entries:\n  - {GOOD}    evidence: [[a]]\n", "6:15", "must be a list of text"),
        (f"entries:\n  - {GOOD}    agent: {{name: [a]}}\n", "6:12", "text or a number for name"),
        (f"entries:\n  - {GOOD}    gates: [a]\n", "6:12", "must have a mapping at position 1"),
        (f"entries:\n  - {GOOD}    gates: [{{id: a}}]\n", "6:12", "gates: in the one at place 1"),
        ("schema: 1\nentries: [{step_id: a, status: done, decision: auto, started_at: "
         '"1970-01-01T00:00:00Z"}]\n', "2:11", "begin on a line of its own"),
        ("schema: 1\nentries:\n  [\n   # none\n   {step_id: a, status: done, decision: auto, "
         'started_at: "1970-01-01T00:00:00Z"}]\n', "5:4", "begin on a line of its own"),
        ('{"entries": [{"step_id": "a", "status": "done", "started_at": '
         '"1970-01-01T00:00:00Z"}]}', "1:14", "begin on a line of its own"),
        ("entries: [\n", "2:1", ""),
    ],
)  # fmt: skip
def test_a_journal_that_cannot_be_read_says_where_and_why(text: str, where: str, why: str) -> None:
    with pytest.raises(StateError) as caught:
        parsed(text.encode())
    assert caught.value.code == "PB-STATE-CORRUPT"
    assert caught.value.where == f"journal.yaml:{where}"
    assert why in caught.value.message


@given(st.binary(max_size=60).map(HEADER.__add__) | st.binary(max_size=200))
def test_any_bytes_are_a_journal_or_raise_a_clear_error(data: bytes) -> None:
    where = "journal.yaml"
    try:
        parsed(data)
    except StateError as error:
        where = error.where
    assert where.startswith("journal.yaml")


def test_an_entry_that_does_not_fit_names_its_key() -> None:
    with pytest.raises(UnfitError, match="trigger") as caught:
        entry_of(Fields({**entry_mapping(DONE), "trigger": "mood"}))
    assert caught.value.key == "trigger"


# ── durations, which are derived ────────────────────────────────────────────────────────────


def test_stated_durations_are_read_for_comparison() -> None:
    data = HEADER + emit_entry(DONE) + emit_entry(replace(DONE, attempt=2, completed_at=None))
    assert list(durations(data, "journal.yaml")) == [(0, 2.5)]
    assert list(durations(data.replace(b"2.5", b"2"), "journal.yaml")) == [(0, 2)]


def test_a_duration_that_is_not_a_number_is_reported_with_its_place() -> None:
    data = HEADER + emit_entry(DONE).replace(b"2.5", b"long")
    with pytest.raises(StateError) as caught:
        list(durations(data, "journal.yaml"))
    assert caught.value.where == "journal.yaml:8:23"
