"""The format of journal.yaml: an entry ↔ its mapping ↔ its text. `session.py` writes the file.

Every journal stays readable: `schema` numbers the versions, and a journal without it is one of
kai's own. Settled entries never change, so a write is the old bytes plus one emitted entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.strict_yaml import load_of_session
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.formats.versions import NEWEST, current
from playbook_supervisor.formats.yaml_writer import pair
from playbook_supervisor.kernel.state import Entry, Gate
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    Trigger,
)
from playbook_supervisor.records import Record, as_mapping, replace, valued

SCHEMA = NEWEST["journal.yaml"]
HEADER = b"schema: 1\nentries:\n"
EMPTY = b"schema: 1\nentries: []\n"


# ── entry → text ──────────────────────────────────────────────────────────────────────────


def entry_mapping(entry: Entry, *, time: Callable[[int], str | int] = to_time) -> dict[str, object]:
    """The entry with the keys of the journal, in order, without empty values (kai FR37)."""
    mapping = _plain(entry, time)
    if entry.attempt == 1:
        del mapping["attempt"]
    return mapping


def _plain(record: Any, time: Callable[[int], str | int]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for key, value in as_mapping(record).items():
        if key.endswith("_at"):
            mapping |= {} if value is None else {key: time(value)}
        elif key == "gates":
            mapping |= valued(gates=[_plain(gate, time) for gate in value])
        elif value:
            mapping[key] = list(value) if isinstance(value, tuple) else value
        if key == "completed_at" and value is not None:
            mapping["duration_seconds"] = (value - record.started_at) / 1000
    return mapping


def emit_entry(entry: Entry, *, indent: int = 2) -> bytes:
    """The entry's text under `entries:`; `indent` is the column of its dash."""
    text = "".join(pair(key, value, indent + 2) for key, value in entry_mapping(entry).items())
    return f"{' ' * indent}- {text[indent + 2 :]}".encode()


# ── text → entry ──────────────────────────────────────────────────────────────────────────


ENTRY: Mapping[str, tuple[Any, ...]] = {
    "step_id": ("required",),
    "status": ("word", EntryStatus),
    "decision": ("word", Decision),
    "started_at": ("time",),
    **dict.fromkeys(("launched_at", "returned_at", "completed_at"), ("maybe_time",)),
    "trigger": ("maybe_word", Trigger),
    "resolution": ("maybe_word", Resolution),
    **dict.fromkeys(("error_lasts", "recovered"), ("flag",)),
    **dict.fromkeys(("failing", "waived", "evidence"), ("texts",)),
    **dict.fromkeys(("item", "human_response", "output", "cached_from", "session"), ("text",)),
    **dict.fromkeys(("error", "error_code", "error_guidance", "error_cause"), ("text",)),
    **dict.fromkeys(("back_to", "undone", "isolation"), ("text",)),
    "agent": ("record",),
}
"""Key → the method of `Fields` that reads it, and its further arguments."""
GATE: Mapping[str, tuple[Any, ...]] = {
    "id": ("required",),
    "reason": ("word", GateReason),
    "place": ("word", Place),
    "opened_at": ("time",),
    "answered_at": ("maybe_time",),
    "resolution": ("maybe_word", Resolution),
    **dict.fromkeys(("by", "via", "role", "text"), ("text",)),
}


def _values(fields: Fields, keys: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {key: getattr(fields, how)(key, *more) for key, (how, *more) in keys.items()}


def entry_of(fields: Fields, *, legacy: bool = False) -> Entry:
    """The inverse of `entry_mapping`; raises `UnfitError` (a ValueError) that names the key.
    Unknown keys are a person's notes. In a `legacy` entry (kai's own) empty strings are absent
    values, an open entry without a gate before its step counts as launched, and `decision` may be
    missing."""
    if legacy:
        decision = fields.maybe_word("decision", Decision) or Decision.AUTO
        values = {**_values(fields, _LEGACY), "decision": decision}
    else:
        values = _values(fields, ENTRY)
    gates = tuple(_gate_of(gate, n) for n, gate in enumerate(fields.each("gates"), 1))
    running = values["status"] is EntryStatus.IN_PROGRESS and values["launched_at"] is None
    if legacy and running and all(gate.place is not Place.BEFORE for gate in gates):
        values["launched_at"] = values["started_at"]
    attempt = fields.maybe_integer("attempt", least=1) or 1
    items = fields.maybe_integer("items", least=1) or 0
    return Entry(**values, attempt=attempt, items=items, gates=gates)


_LEGACY = {key: how for key, how in ENTRY.items() if key != "decision"}


def _gate_of(fields: Fields, number: int) -> Gate:
    try:
        return Gate(**_values(fields, GATE), request=request_of(fields))
    except UnfitError as unfit:
        raise UnfitError("gates", f"in the one at place {number}, {unfit}") from None


# ── the whole journal ─────────────────────────────────────────────────────────────────────


class ParsedJournal(Record):
    """A journal's entries and where each is in its bytes. `spans` are byte offsets: an entry's text
    goes from the line of its dash, in column `indent`, to that of the next dash, with the comments
    between, so that every byte from the first entry to `end`, where the next one goes, belongs to
    exactly one. `hollow` is the value of an empty journal (`[]`), which is removed before the first
    entry is added."""

    entries: tuple[Entry, ...]
    spans: tuple[tuple[int, int], ...]
    legacy: bool
    end: int
    indent: int = 2
    hollow: tuple[int, int] = (0, 0)


MAX_BYTES = 16 * 1024 * 1024  # about 40,000 entries

_BREAK = rb"\r\n?|\n"
_ENTRIES = (
    rb"""(?m)^(?:\xef\xbb\xbf)?(["']?)entries\1[ \t]*:(?P<value>[ \t]*(?:\[[ \t]*\]|~|null)?)"""
    rb"""(?=[ \t]*(?:[ \t]#.*)?\r?$)"""
)
_DASH = rb"(?m)^( *)-(?=[ \t\r\n])"
_NO_TEXT = rb"[ \t]*(?:#|\r?\n|\Z)"
_DOCUMENT_END = rb"(?m)^\.\.\.(?=\s|\Z)"


def parse_journal(data: bytes, source: str) -> ParsedJournal:
    """The entries of a journal.yaml (kai D-J), read by the strict rules of all our files.
    StateError `PB-STATE-CORRUPT` or `PB-STATE-NEWER`, with its place. In a legacy journal, repeated
    entries of a step are numbered as its attempts, and a failed one counts as retried."""
    lines = [0, *(match.end() for match in re.finditer(_BREAK, data)), len(data)]
    document = load_of_session(data, source, limit=MAX_BYTES)
    top, items = _entries(document)
    legacy = "schema" not in top
    entries = [_entry(document, index, item, legacy=legacy) for index, item in enumerate(items)]
    if legacy:
        stated = [isinstance(item, dict) and "attempt" in item for item in items]
        entries = _counted(entries, stated)
    dashes = [_dash(data, lines, document, index) for index in range(len(items))]
    begin = document.key_position(("entries",))[0]
    behind = (document.key_position((key,))[0] for key in top)
    end = min((lines[line - 1] for line in behind if line > begin), default=len(data))
    if closing := re.compile(_DOCUMENT_END).search(data, dashes[-1][0] if dashes else 0):
        end = min(end, closing.start())
    if not entries:
        return _empty(data, document, lines[begin - 1], end, legacy=legacy)
    offsets = [offset for offset, _ in dashes]
    spans = tuple(zip(offsets, [*offsets[1:], end], strict=True))
    return ParsedJournal(tuple(entries), spans, legacy, end, dashes[-1][1])


def _counted(entries: Sequence[Entry], stated: Sequence[bool]) -> list[Entry]:
    """Number the entries of each step as attempts; a failed one before another was retried. Entries
    that state their attempt were added later by this program, with their resolution."""
    last: dict[str, int] = {}
    counted: list[Entry] = []
    for entry, is_stated in zip(entries, stated, strict=True):
        earlier = last.get(entry.step_id)
        last[entry.step_id] = len(counted)
        if earlier is None or is_stated:
            counted.append(entry)
            continue
        former = counted[earlier]
        if former.status is EntryStatus.FAILED and former.resolution is None:
            counted[earlier] = replace(former, resolution=Resolution.RETRY)
        counted.append(replace(entry, attempt=former.attempt + 1))
    return counted


def durations(data: bytes, source: str) -> Iterator[tuple[int, float]]:
    """(index, seconds) of every entry that states its duration, which may contradict its times.
    None for a legacy journal, where durations are estimates. Errors as for `parse_journal`."""
    document = load_of_session(data, source, limit=MAX_BYTES)
    top, items = _entries(document)
    for index, item in enumerate(items if "schema" in top else ()):
        try:
            seconds = Fields(item).maybe_decimal("duration_seconds")
        except UnfitError as unfit:
            raise document.corrupt(("entries", index, unfit.key), str(unfit)) from None
        if seconds is not None:
            yield index, seconds


def _entries(document: Document) -> tuple[Mapping[str, object], list[Any]]:
    top = document.data
    if not isinstance(top, dict) or "entries" not in top:
        raise document.corrupt((), "a journal needs `entries:` at its top level")
    fields = Fields(top)
    try:
        number = fields.maybe_integer("schema", least=1) or 1
        data = current("journal.yaml", number, top, document.source, document)
        return data, Fields(data).items("entries")
    except UnfitError as unfit:
        raise document.corrupt((unfit.key,), str(unfit)) from None


def _entry(document: Document, index: int, item: object, *, legacy: bool) -> Entry:
    path: tuple[str | int, ...] = ("entries", index)
    if not isinstance(item, Mapping):
        said = "an entry must be a mapping with `step_id`, `status` and so on"
        raise document.corrupt(path, said)
    try:
        return entry_of(Fields(item), legacy=legacy)
    except UnfitError as unfit:
        raise document.corrupt((*path, unfit.key), str(unfit)) from None


def _dash(data: bytes, lines: Sequence[int], document: Document, index: int) -> tuple[int, int]:
    path = ("entries", index)
    first = line = document.position(path)[0]
    while line > 1:
        start = lines[line - 1]
        if dash := re.compile(_DASH).match(data, start):
            return start, len(dash[1])
        if line < first and not re.compile(_NO_TEXT).match(data, start):
            break
        line -= 1
    raise document.corrupt(path, "each entry must begin on a line of its own, with a dash")


def _empty(data: bytes, document: Document, line: int, end: int, *, legacy: bool) -> ParsedJournal:
    if not (top := re.compile(_ENTRIES).match(data, line)):
        raise document.corrupt(("entries",), "an empty journal must have `entries: []` on one line")
    line_end = data.find(b"\n", top.end()) + 1 or end
    return ParsedJournal((), (), legacy, line_end, hollow=top.span("value"))


# ── what an agent asks for ────────────────────────────────────────────────────────────────────────

_TEXTS = (
    "who",
    "tool",
    "subject",
    "input",
    "description",
    "path",
    "rule",
    "agent",
    "conversation",
    "digest",
)


def request_of(fields: Fields) -> dict[str, object]:
    """The request of a gate, empty if it has none; keys that are not ours are left out."""
    request = Fields(fields.mapping("request"))
    try:
        texts = {key: text for key in _TEXTS if (text := request.text(key))}
        asked = [_question(each) for each in request.each("questions")]
    except UnfitError as unfit:
        raise UnfitError("request", f"in it, {unfit}") from None
    return texts | valued(questions=asked)


def _question(fields: Fields) -> Mapping[str, object]:
    header, multiple = fields.text("header"), fields.flag("multiple")
    options = [
        {"label": each.required("label")} | valued(description=each.text("description"))
        for each in fields.each("options")
    ]
    asked = {"question": fields.required("question")}
    return asked | valued(header=header, options=options, multiple=multiple or None)


# ── the bytes of journal.yaml ─────────────────────────────────────────────────────────────────────


class JournalText(Record):
    """`due` is the text of each entry of the due phase; `past` is all before, `rest` all after.
    `indent` and `hollow` are those of a `ParsedJournal`."""

    past: bytes = EMPTY
    due: tuple[bytes, ...] = ()
    rest: bytes = b""
    indent: int = 2
    hollow: tuple[int, int] = (len(EMPTY) - 4, len(EMPTY) - 1)

    @property
    def data(self) -> bytes:
        return b"".join((self.past, *self.due, self.rest))

    @classmethod
    def parsed(cls, data: bytes, parsed: ParsedJournal, due: int) -> JournalText:
        """The text of a journal just parsed, whose last `due` entries may still change."""
        spans = parsed.spans[len(parsed.spans) - due :]
        begin = spans[0][0] if spans else parsed.end
        pieces = tuple(data[start:stop] for start, stop in spans)
        return cls(data[:begin], pieces, data[parsed.end :], parsed.indent, parsed.hollow)

    def with_entry(self, index: int, before: Entry, after: Entry) -> JournalText:
        """Change the entry at `index` of the due phase; a person's notes in it are kept."""
        text = self.due[index]
        untouched = emit_entry(before, indent=self.indent)
        if text.startswith(untouched):
            changed = emit_entry(after, indent=self.indent) + text[len(untouched) :]
        else:
            from playbook_supervisor.formats.yaml_edit import edit_entry

            changed = edit_entry(text, entry_mapping(before), entry_mapping(after))
        return replace(self, due=(*self.due[:index], changed, *self.due[index + 1 :]))

    def with_new(self, entry: Entry) -> JournalText:
        """Add an entry at the end; all earlier bytes are kept."""
        new = emit_entry(entry, indent=self.indent)
        if self.due:
            *earlier, last = self.due
            return replace(self, due=(*earlier, _ended(last), new))
        start, stop = self.hollow
        past = self.past[:start] + self.past[stop:] if stop else self.past
        return replace(self, past=_ended(past), due=(new,), hollow=(0, 0))

    def settled(self) -> JournalText:
        return replace(self, past=b"".join((self.past, *self.due)), due=())

    def places(self) -> dict[str, Any]:
        lengths = {"past": len(self.past), "due": [len(text) for text in self.due]}
        return {**lengths, "indent": self.indent, "hollow": self.hollow}

    @classmethod
    def placed(cls, data: bytes, places: Mapping[str, Any]) -> JournalText:
        at: int = places["past"]
        past, due = data[:at], []
        for length in places["due"]:
            due.append(data[at : at + length])
            at += length
        start, stop = places["hollow"]
        return cls(past, tuple(due), data[at:], places["indent"], (start, stop))


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"
