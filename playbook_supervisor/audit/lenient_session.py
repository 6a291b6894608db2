"""Read a session's files, which any tool may have written, key by key and with positions.

A key that cannot be understood is reported, and the rest is read. Nothing is judged or guessed:
what a file does not say is None or empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

from playbook_supervisor.audit.rules import finding
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.kernel.model import base_of
from playbook_supervisor.kernel.state import INTERRUPTED
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.sessions.files.journal import ENTRY, GATE, MAX_BYTES, request_of

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class LooseGate:
    """A gate of an entry. Times are in ms since the epoch."""

    document: Document
    path: Path
    id: str = ""
    reason: GateReason | None = None
    place: Place | None = None
    opened_at: int | None = None
    answered_at: int | None = None
    by: str = ""
    via: str = ""
    role: str = ""
    text: str = ""
    resolution: Resolution | None = None
    request: Mapping[str, object] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()

    @property
    def answered(self) -> bool:
        """True if it has an answer, even one that cannot be understood."""
        return self.answered_at is not None or "answered_at" in self.unclear


@dataclass(frozen=True, slots=True)
class LooseEntry:
    """One entry. `number` is its attempt, counted if the entry does not state it.

    `unclear` are the keys that cannot be understood; they do not count as missing.
    """

    document: Document
    path: Path
    step_id: str = ""
    number: int = 1
    status: EntryStatus | None = None
    decision: Decision | None = None
    started_at: int | None = None
    launched_at: int | None = None
    returned_at: int | None = None
    completed_at: int | None = None
    seconds: float | None = None
    trigger: Trigger | None = None
    human_response: str = ""
    resolution: Resolution | None = None
    error: str = ""
    error_code: str = ""
    failing: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    gates: tuple[LooseGate, ...] = ()
    agent: Mapping[str, str | int | float] = field(default_factory=dict)
    session: str = ""
    items: int = 0
    item: str = ""
    back_to: str = ""
    cached_from: str = ""
    unclear: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        return f"{self.step_id}#{self.number}"

    @property
    def step(self) -> str:
        """The step of the playbook: `build` also for its item `build[2]`."""
        return base_of(self.step_id)

    @property
    def name(self) -> str:
        """The id for messages; the entry's position if it has no step."""
        step = first_line(self.step_id, _LONGEST_NAME)
        return f"{step}#{self.number}" if step else f"entry {int(self.path[-1]) + 1}"

    @property
    def settled(self) -> bool:
        return self.status in (EntryStatus.DONE, EntryStatus.FAILED, EntryStatus.SKIPPED)

    @property
    def passed(self) -> bool:
        """True if it lets the next phase begin."""
        done = self.status in (EntryStatus.DONE, EntryStatus.SKIPPED)
        return done and self.resolution is not Resolution.ABORT

    @property
    def times(self) -> tuple[tuple[Path, int], ...]:
        all_times: list[tuple[Path, int | None]] = [((key,), getattr(self, key)) for key in _TIMES]
        for gate in self.gates:
            path = gate.path[len(self.path) :]
            all_times += [((*path, key), getattr(gate, key)) for key in _GATE_TIMES]
        return tuple((path, ms) for path, ms in all_times if ms is not None)


_TIMES = ("started_at", "launched_at", "returned_at", "completed_at")
_GATE_TIMES = ("opened_at", "answered_at")


@dataclass(frozen=True)
class LooseJournal:
    """A journal. `ours`: it states a schema, as only this program does."""

    document: Document
    ours: bool
    entries: tuple[LooseEntry, ...]
    unclear: tuple[Problem, ...]

    @cached_property
    def last(self) -> Mapping[str, LooseEntry]:
        return {entry.step_id: entry for entry in self.entries}


@dataclass(frozen=True, slots=True)
class LooseSession:
    """A session.yaml. Times are in ms since the epoch; `gate` is the id of the waiting gate.

    `args` are the arguments that are text. `parent` is the attempt that a child session does the
    work of: `20260219-a7k/release#1`.
    """

    document: Document
    ours: bool
    path: Path = ()
    session_id: str = ""
    playbook: str = ""
    feature: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    branch: str = ""
    status: SessionStatus | None = None
    started_at: int | None = None
    completed_at: int | None = None
    current_step: str = ""
    gate: str = ""
    failures: int = 0
    waived: tuple[str, ...] = ()
    parent: str = ""
    unclear: tuple[Problem, ...] = ()

    @property
    def asked_for(self) -> str:
        """The feature in the arguments, or empty."""
        return self.args.get("feature", "")

    @property
    def ended(self) -> bool:
        return self.status in (SessionStatus.COMPLETED, SessionStatus.FAILED, SessionStatus.ABORTED)


# ── reading ─────────────────────────────────────────────────────────────────────────────────

_KNOWN = LooseEntry.__dataclass_fields__.keys() - {"decision"}
_ENTRY = {key: how for key, how in ENTRY.items() if key in _KNOWN}
_SESSION = {
    **dict.fromkeys(("session_id", "playbook"), ("required",)),
    **dict.fromkeys(("feature", "branch", "current_step", "parent"), ("text",)),
    "status": ("word", SessionStatus),
    "started_at": ("time",),
    "completed_at": ("maybe_time",),
    "failures": ("maybe_integer",),
    "waived": ("texts",),
}


def journal(data: bytes, source: str) -> LooseJournal:
    """Read any journal. CheckError if it is not a YAML document."""
    document = load(data, source, limit=MAX_BYTES)
    top, ours = document.data, False
    path: Path = ()
    unclear: list[Problem] = []
    items: Sequence[object] = top if isinstance(top, list) else ()
    if isinstance(top, dict):
        path, ours = ("entries",), "schema" in top
        reader = _LooseReader(document, top, ())
        items, unclear = reader.get(reader.fields.items, "entries") or (), reader.unclear
    if not isinstance(top, dict) or "entries" not in top:
        unclear.append(_unclear(document, (), "a journal needs `entries:` at its top level"))
    entries: list[LooseEntry] = []
    attempts: dict[str, int] = {}
    for index, item in enumerate(items):
        entry, more = _entry(document, item, (*path, index), attempts, ours=ours)
        attempts[entry.step_id] = entry.number
        entries.append(entry)
        unclear += more
    return LooseJournal(document, ours, tuple(entries), tuple(unclear))


def session(data: bytes, source: str) -> LooseSession:
    """Read any session.yaml. CheckError if it is not a YAML document."""
    document = load(data, source)
    reader = _LooseReader(document, document.data, ())
    fields = reader.fields
    gate = reader.get(fields.mapping, "gate") or {}
    args = reader.get(fields.mapping, "args") or {}
    return LooseSession(
        document=document,
        ours=isinstance(document.data, dict) and "schema" in document.data,
        args={name: str(value) for name, value in args.items() if isinstance(value, str)},
        gate=reader.get(Fields(gate).text, "id") or "",
        **reader.values(_SESSION),
        unclear=tuple(reader.unclear),
    )


def _entry(
    document: Document, item: object, path: Path, attempts: Mapping[str, int], *, ours: bool
) -> tuple[LooseEntry, list[Problem]]:
    reader = _LooseReader(document, item, path)
    fields = reader.fields
    values = reader.values(_ENTRY)
    status, step_id = values.get("status"), values.get("step_id", "")
    # kai's own tools write no decision while a step runs, nor into an entry interrupted then
    interrupted = values.get("error_code") == INTERRUPTED
    undecided = not ours and (status is EntryStatus.IN_PROGRESS or interrupted)
    decided = fields.maybe_word if undecided else fields.word
    stated = reader.get(fields.maybe_integer, "attempt", least=1)
    items = reader.get(fields.maybe_integer, "items", least=1)
    entry = LooseEntry(
        document=document,
        path=path,
        number=stated or (1 if ours else attempts.get(step_id, 0) + 1),
        decision=reader.get(decided, "decision", Decision),
        seconds=reader.get(fields.maybe_decimal, "duration_seconds"),
        items=items or 0,
        gates=tuple(_gates(reader)),
        **values,
        unclear=frozenset(reader.keys),
    )
    return entry, reader.unclear


def _gates(of_entry: _LooseReader) -> Iterator[LooseGate]:
    for number, item in enumerate(of_entry.get(of_entry.fields.items, "gates") or ()):
        reader = _LooseReader(of_entry.document, item, (*of_entry.path, "gates", number))
        if reader.unclear:
            of_entry.keys.append("gates")
        else:
            yield _gate(reader)
        of_entry.unclear += reader.unclear


def _gate(reader: _LooseReader) -> LooseGate:
    values = reader.values(GATE) | {"request": reader.get(request_of, reader.fields) or {}}
    return LooseGate(reader.document, reader.path, **values, unclear=frozenset(reader.keys))


class _LooseReader:
    def __init__(self, document: Document, item: object, path: Path) -> None:
        self._is_mapping = isinstance(item, Mapping)
        self.fields = Fields(item if isinstance(item, Mapping) else {})
        self.document = document
        self.path = path
        self.keys: list[str] = []
        self.unclear: list[Problem] = []
        if not self._is_mapping:
            self.unclear.append(_unclear(document, path, "a mapping of keys to values is expected"))

    def values(self, keys: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """The values that fit, by their keys; see `journal.ENTRY`."""
        read = {
            k: self.get(getattr(self.fields, how), k, *more) for k, (how, *more) in keys.items()
        }
        return {key: value for key, value in read.items() if value is not None}

    def get(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of `read`; None, and a problem, if the value does not fit."""
        try:
            return read(*args, **kwargs)
        except UnfitError as unfit:
            self.keys.append(unfit.key)
            if self._is_mapping:
                path = (*self.path, unfit.key)
                self.unclear.append(_unclear(self.document, path, str(unfit)))
            return None


def _unclear(document: Document, path: Path, why: str) -> Problem:
    return finding("AUD-FORM", why, document.source, document.position(path))
