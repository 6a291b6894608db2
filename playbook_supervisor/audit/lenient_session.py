"""What a session's files tell, whoever wrote them: each key is heard by itself, with its place.

What cannot be understood is noted, and the rest is heard all the same. Nothing here judges, and
nothing is made up: None and empty are what a file does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from playbook_supervisor.audit.rules import finding
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load
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
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.journal import MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

_LONGEST_NAME = 60


class LooseGate(Record):
    """A gate of an entry. Times in ms since the epoch."""

    document: Document
    path: Path
    id: str = ""
    reason: GateReason | None = None
    place: Place | None = None
    opened_at: int | None = None
    answered_at: int | None = None
    by: str = ""
    text: str = ""
    resolution: Resolution | None = None
    unclear: frozenset[str] = frozenset()

    @property
    def answered(self) -> bool:
        """Whether it says that somebody answered, be it unintelligibly."""
        return self.answered_at is not None or "answered_at" in self.unclear


class LooseEntry(Record):
    """One entry. `number` is its attempt: stated, or counted where the writer knew no such key.

    `unclear` are its keys that cannot be understood: they are not missing.
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
    unclear: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """`implement#2`, as far as it has a name."""
        return f"{self.step_id}#{self.number}"

    @property
    def name(self) -> str:
        """The same for people."""
        step = first_line(self.step_id, _LONGEST_NAME)
        return f"{step}#{self.number}" if step else f"entry {int(self.path[-1]) + 1}"

    @property
    def settled(self) -> bool:
        return self.status in (EntryStatus.DONE, EntryStatus.FAILED, EntryStatus.SKIPPED)

    @property
    def through(self) -> bool:
        """Whether the next phase may begin after it."""
        done = self.status in (EntryStatus.DONE, EntryStatus.SKIPPED)
        return done and self.resolution is not Resolution.ABORT

    @property
    def times(self) -> tuple[tuple[Path, int], ...]:
        """Every time that it states, with its path in the entry."""
        all_times: list[tuple[Path, int | None]] = [((key,), getattr(self, key)) for key in _TIMES]
        for gate in self.gates:
            path = gate.path[len(self.path) :]
            all_times += [((*path, key), getattr(gate, key)) for key in _GATE_TIMES]
        return tuple((path, ms) for path, ms in all_times if ms is not None)


_TIMES = ("started_at", "launched_at", "returned_at", "completed_at")
_GATE_TIMES = ("opened_at", "answered_at")


class LooseJournal(Record, slots=False):
    """A journal. `ours` states a schema: the program itself wrote it, or somebody pretends that."""

    document: Document
    ours: bool
    entries: tuple[LooseEntry, ...]
    unclear: tuple[Problem, ...]

    @cached_property
    def last(self) -> Mapping[str, LooseEntry]:
        """The last attempt at each step."""
        return {entry.step_id: entry for entry in self.entries}


class LooseSession(Record):
    """A session.yaml. Times in ms since the epoch; `gate` is the id of the gate that waits.

    `asked_for` is the feature as the arguments name it, empty where they name none.
    """

    document: Document
    ours: bool
    path: Path = ()
    session_id: str = ""
    playbook: str = ""
    feature: str = ""
    asked_for: str = ""
    branch: str = ""
    status: SessionStatus | None = None
    started_at: int | None = None
    completed_at: int | None = None
    current_step: str = ""
    gate: str = ""
    unclear: tuple[Problem, ...] = ()

    @property
    def ended(self) -> bool:
        return self.status in (
            SessionStatus.COMPLETED,
            SessionStatus.FAILED,
            SessionStatus.ABORTED,
        )


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def journal(data: bytes, source: str) -> LooseJournal:
    """Any journal. CheckError with its place if it is not even a document."""
    document = load(data, source, limit=MAX_BYTES)
    top, ours = document.data, False
    path: Path = ()
    unclear: list[Problem] = []
    items: Sequence[object] = top if isinstance(top, list) else ()
    if isinstance(top, dict):
        path, ours = ("entries",), "schema" in top
        ear = _LooseReader(document, top, ())
        items, unclear = ear.hear(ear.fields.items, "entries") or (), ear.unclear
    if not isinstance(top, dict) or "entries" not in top:
        unclear.append(_unclear(document, (), "a journal has `entries:` at its top level"))
    entries: list[LooseEntry] = []
    attempts: dict[str, int] = {}
    for index, item in enumerate(items):
        entry, more = _entry(document, item, (*path, index), attempts, ours=ours)
        attempts[entry.step_id] = entry.number
        entries.append(entry)
        unclear += more
    return LooseJournal(document, ours, tuple(entries), tuple(unclear))


def session(data: bytes, source: str) -> LooseSession:
    """Any session.yaml. CheckError with its place if it is not even a document."""
    document = load(data, source)
    ear = _LooseReader(document, document.data, ())
    fields = ear.fields
    gate = ear.hear(fields.mapping, "gate") or {}
    asked_for = (ear.hear(fields.mapping, "args") or {}).get("feature")
    return LooseSession(
        document=document,
        ours=isinstance(document.data, dict) and "schema" in document.data,
        session_id=ear.hear(fields.required, "session_id") or "",
        playbook=ear.hear(fields.required, "playbook") or "",
        feature=ear.hear(fields.text, "feature") or "",
        asked_for=str(asked_for) if isinstance(asked_for, str) else "",
        branch=ear.hear(fields.text, "branch") or "",
        status=ear.hear(fields.word, "status", SessionStatus),
        started_at=ear.hear(fields.time, "started_at"),
        completed_at=ear.hear(fields.maybe_time, "completed_at"),
        current_step=ear.hear(fields.text, "current_step") or "",
        gate=ear.hear(Fields(gate).text, "id") or "",
        unclear=tuple(ear.unclear),
    )


def _entry(
    document: Document, item: object, path: Path, attempts: Mapping[str, int], *, ours: bool
) -> tuple[LooseEntry, list[Problem]]:
    ear = _LooseReader(document, item, path)
    fields = ear.fields
    step_id = ear.hear(fields.required, "step_id") or ""
    status = ear.hear(fields.word, "status", EntryStatus)
    error_code = ear.hear(fields.text, "error_code") or ""
    # kai's own tools write none while a step runs, and what is broken off then keeps it so
    undecided = not ours and (status is EntryStatus.IN_PROGRESS or error_code == INTERRUPTED)
    decided = fields.maybe_word if undecided else fields.word
    stated = ear.hear(fields.maybe_integer, "attempt", least=1)
    counted = 1 if ours else attempts.get(step_id, 0) + 1
    gates = tuple(_gates(ear))
    entry = LooseEntry(
        document=document,
        path=path,
        step_id=step_id,
        number=stated or counted,
        status=status,
        decision=ear.hear(decided, "decision", Decision),
        started_at=ear.hear(fields.time, "started_at"),
        launched_at=ear.hear(fields.maybe_time, "launched_at"),
        returned_at=ear.hear(fields.maybe_time, "returned_at"),
        completed_at=ear.hear(fields.maybe_time, "completed_at"),
        seconds=ear.hear(fields.maybe_decimal, "duration_seconds"),
        trigger=ear.hear(fields.maybe_word, "trigger", Trigger),
        human_response=ear.hear(fields.text, "human_response") or "",
        resolution=ear.hear(fields.maybe_word, "resolution", Resolution),
        error=ear.hear(fields.text, "error") or "",
        error_code=error_code,
        failing=ear.hear(fields.texts, "failing") or (),
        waived=ear.hear(fields.texts, "waived") or (),
        evidence=ear.hear(fields.texts, "evidence") or (),
        gates=gates,
        agent=ear.hear(fields.record, "agent") or {},
        unclear=frozenset(ear.keys),
    )
    return entry, ear.unclear


def _gates(of_entry: _LooseReader) -> Iterator[LooseGate]:
    for number, item in enumerate(of_entry.hear(of_entry.fields.items, "gates") or ()):
        ear = _LooseReader(of_entry.document, item, (*of_entry.path, "gates", number))
        if ear.unclear:
            of_entry.keys.append("gates")
        else:
            yield _gate(ear)
        of_entry.unclear += ear.unclear


def _gate(ear: _LooseReader) -> LooseGate:
    fields = ear.fields
    return LooseGate(
        document=ear.document,
        path=ear.path,
        id=ear.hear(fields.required, "id") or "",
        reason=ear.hear(fields.word, "reason", GateReason),
        place=ear.hear(fields.word, "place", Place),
        opened_at=ear.hear(fields.time, "opened_at"),
        answered_at=ear.hear(fields.maybe_time, "answered_at"),
        by=ear.hear(fields.text, "by") or "",
        text=ear.hear(fields.text, "text") or "",
        resolution=ear.hear(fields.maybe_word, "resolution", Resolution),
        unclear=frozenset(ear.keys),
    )


class _LooseReader:
    """Hears one mapping, key by key, and notes what it cannot understand."""

    def __init__(self, document: Document, item: object, path: Path) -> None:
        heard = isinstance(item, Mapping)
        self.fields = Fields(item if isinstance(item, Mapping) else {})
        self.document = document
        self.path = path
        self.keys: list[str] = []
        self.unclear: list[Problem] = []
        if not heard:
            self.unclear.append(_unclear(document, path, "keys with their values are wanted here"))
        self._heard = heard

    def hear(self, read: Callable[P, T], *asked: P.args, **more: P.kwargs) -> T | None:
        """What `read` makes of a key; None, and a note, where that is not possible."""
        try:
            return read(*asked, **more)
        except UnfitError as unfit:
            self.keys.append(unfit.key)
            if self._heard:
                path = (*self.path, unfit.key)
                self.unclear.append(_unclear(self.document, path, str(unfit)))
            return None


def _unclear(document: Document, path: Path, why: str) -> Problem:
    return finding("AUD-FORM", why, document.source, document.position(path))
