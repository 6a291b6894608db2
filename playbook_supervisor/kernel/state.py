"""The state of a session: its playbook and its journal entries, nothing else.

An `Entry` has exactly the keys of the journal. The entries of a settled phase never change, and the
rules need only their waivers. A `State` therefore holds a summary of them (`Past`) and the entries
of the phase that is due: a session of 10,000 steps costs no more than one of ten. Code that needs a
settled entry reads the journal (`last_entries`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property

from playbook_supervisor.kernel.model import Phase, Playbook, Step, item_id, item_number
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    Trigger,
)
from playbook_supervisor.records import Record, field, replace

INTERRUPTED = "PB-STATE-INTERRUPTED"
NOT_STARTED = "PB-STATE-NOT-STARTED"
ABORTED = "PB-STATE-ABORTED"
PRECONDITION = "PB-COND-PRECONDITION"
POSTCONDITION = "PB-COND-POSTCONDITION"
TRIGGERED = "PB-COND-TRIGGER"
OUTPUT = "PB-COND-OUTPUT"
SENT_BACK = "PB-COND-SENT-BACK"
UNTIL = "PB-COND-UNTIL"
WITNESSES = "PB-COND-WITNESSES"
DATA = "PB-STEP-DATA"
CHILD = "PB-STEP-CHILD"
ITEMS = "PB-STEP-ITEMS"
UNDO = "PB-STEP-UNDO"

NEVER_RAN = frozenset({NOT_STARTED, PRECONDITION, DATA, ITEMS})
"""Codes of entries that failed before their launch."""


class Gate(Record):
    """A halt for a human decision, open until `answered_at` is set. Times: ms since the epoch.

    `via` and `role` are as in `Answered`; `request` is the call or the questions of an agent.
    """

    id: str
    reason: GateReason
    place: Place
    opened_at: int
    answered_at: int | None = None
    by: str = ""
    via: str = ""
    role: str = ""
    text: str = ""
    resolution: Resolution | None = None
    request: Mapping[str, object] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        return self.answered_at is None


class Entry(Record):
    """One attempt at one step, with the keys of journal.yaml in their order.

    `session` is the child session that does the work of a step with a playbook of its own.
    In a settled entry, `launched_at` is None if it equals `started_at`, and `returned_at` is None
    if it equals `completed_at`. `human_response` and `resolution` repeat those of the last gate.
    The attempt at an item of a loop says how many `items` there are, and which `item` this is.
    After an attempt with `back_to` the playbook goes on from that earlier step. `undone` says what
    was undone of a failed attempt. `isolation` is what isolated its programs: `none` if
    nothing did although it was asked for, empty if it was not.
    """

    step_id: str
    status: EntryStatus
    decision: Decision
    started_at: int
    launched_at: int | None = None
    returned_at: int | None = None
    completed_at: int | None = None
    attempt: int = 1
    items: int = 0
    item: str = ""
    trigger: Trigger | None = None
    human_response: str = ""
    resolution: Resolution | None = None
    error: str = ""
    error_code: str = ""
    error_guidance: str = ""
    error_cause: str = ""
    error_lasts: bool = False
    failing: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    recovered: bool = False
    evidence: tuple[str, ...] = ()
    output: str = ""
    cached_from: str = ""
    session: str = ""
    back_to: str = ""
    undone: str = ""
    isolation: str = ""
    agent: Mapping[str, str | int | float] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.step_id}#{self.attempt}"

    @property
    def settled(self) -> bool:
        return self.status is not EntryStatus.IN_PROGRESS

    @property
    def gate(self) -> Gate | None:
        if self.status is EntryStatus.IN_PROGRESS and self.gates and self.gates[-1].open:
            return self.gates[-1]
        return None

    @property
    def latest(self) -> int:
        times = [self.started_at, self.completed_at, self.launched_at, self.returned_at]
        for gate in self.gates:
            times += (gate.opened_at, gate.answered_at)
        return max(time for time in times if time is not None)

    @property
    def erred(self) -> bool:
        """True if the worker itself failed. The error code decides, never the message."""
        return self.error_code.startswith(
            ("PB-AGENT-", "PB-STEP-", "PB-POLICY-DENIED", "PB-POLICY-ISOLATION")
        )

    @property
    def error_codes(self) -> tuple[str, ...]:
        """The codes by which an error policy can name the error; that of a failed child first."""
        if self.error_code == CHILD and self.error_cause:
            return (self.error_cause, CHILD)
        return (self.error_code,)

    @property
    def has_returned(self) -> bool:
        if self.status is EntryStatus.FAILED and self.returned_at is None:
            return self.ran and self.error_code not in {INTERRUPTED, ABORTED}
        return self.returned_at is not None or self.status is EntryStatus.DONE

    @property
    def ran(self) -> bool:
        over = self.status in (EntryStatus.DONE, EntryStatus.FAILED)
        return self.launched_at is not None or (over and self.error_code not in NEVER_RAN)


class Position(StrEnum):
    """The position of a step of the due phase, read from the keys of its last entry."""

    DUE = "due"  # no attempt has begun, or the last one failed and another follows
    GATED = "gated"  # a gate before the step is open
    CLEARED = "cleared"  # the gate before the step is answered; its check is due again
    RUNNING = "running"  # launched and not returned
    ASKING = "asking"  # as `RUNNING`; its agent waits at a gate for the answer of a person
    RETURNED = "returned"  # returned and not judged, or to be judged again after a `continue`
    HELD = "held"  # a gate after the step is open
    DONE = "done"
    FAILED = "failed"
    TOLERATED = "tolerated"  # failed, and by its error policy the run goes on
    UNDOING = "undoing"  # failed for good, and what it has changed is to be undone
    SENT_BACK = "sent back"  # failed or not run, and an earlier step is to run again
    SKIPPED = "skipped"


class Change(StrEnum):
    SKIPPED = "skipped"
    GATE_OPENED = "gate_opened"
    LAUNCHED = "launched"
    RETURNED = "returned"
    ANSWERED = "answered"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"
    TAKEN_UP = "taken_up"


class Event(Record):
    """The new version of an entry, and what changed it; `within` is as in `Attempt`."""

    change: Change
    entry: Entry
    within: str = ""

    @property
    def id(self) -> str:
        """The attempt's id as drivers see it: `release#1/plan#1` in a child session."""
        return f"{self.within}/{self.entry.id}" if self.within else self.entry.id


def settle(entry: Entry, status: EntryStatus, at: int) -> Event:
    """Settle the entry. Times that repeat its start and its completion are dropped.

    An aborted entry keeps `returned_at`: nothing else records whether its worker returned.
    """
    repeats = entry.returned_at == at and entry.error_code != ABORTED
    entry = replace(
        entry,
        status=status,
        completed_at=at,
        launched_at=None if entry.launched_at == entry.started_at else entry.launched_at,
        returned_at=None if repeats else entry.returned_at,
    )
    return Event(Change(status.value), entry)


def merged(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """All names, each once."""
    return tuple(dict.fromkeys((*names, *more)))


class Past(Record):
    """A summary of the settled phases. A loop is one phase of the playbook, and one step."""

    phases: int = 0
    steps: int = 0
    entries: int = 0
    waived: frozenset[str] = frozenset()
    latest: int = 0  # the latest time in their entries, ms; no later entry has an earlier time
    retried: Mapping[str, int] = field(default_factory=dict)
    """Step → its last attempt, for steps with more than one, and all that are to run again."""
    failures: Mapping[int, int] = field(default_factory=dict)
    """Phase → the number of its steps that failed and were tolerated, if there are any."""
    looped: int = 0  # the number of settled items of the loop that is due
    items: Mapping[str, int] = field(default_factory=dict)
    """Loop → how many items it has, if it has begun."""
    passed: frozenset[str] = frozenset()
    """All that was passed for longer than an attempt: `gate_always:build`, `tools:Write`, and
    `permission:Bash(npm test *)`."""
    sent_back: tuple[Entry, ...] = ()
    """The attempts after which an earlier step ran again."""


class State(Record, slots=False):
    """The playbook, a summary of the settled phases, and the entries of the due phase."""

    playbook: Playbook
    past: Past = Past()
    entries: tuple[Entry, ...] = ()

    @cached_property
    def phase(self) -> Phase | None:
        """The due phase; None when all are settled. Of a loop, the items that run together."""
        phases, loop = self.playbook.phases, self.loop
        if loop is None or loop.for_each is None or not self.items:
            return phases[self.past.phases] if self.past.phases < len(phases) else None
        first = self.past.looped + 1
        behind = min(self.items + 1, first + loop.for_each.at_once)
        return tuple(self.playbook.step(item_id(loop.id, n)) for n in range(first, behind))

    @property
    def loop(self) -> Step | None:
        """The loop that is due; None if something else is, or nothing."""
        phases = self.playbook.phases
        step = phases[self.past.phases][0] if self.past.phases < len(phases) else None
        return step if step is not None and step.for_each else None

    @cached_property
    def items(self) -> int:
        """The number of items of the due loop; 0 if that is not known, or no loop is due."""
        if (loop := self.loop) is None:
            return 0
        known = (entry.items for entry in self.entries if entry.items)
        return next(known, self.past.items.get(loop.id, 0))

    def expanded(self, items: int) -> State:
        """The state in which the loop that is due is known to have this number of items."""
        assert self.loop is not None  # noqa: S101 - callers have looked
        known = {**self.past.items, self.loop.id: items}
        return replace(self, past=replace(self.past, items=known))

    @cached_property
    def _by_step(self) -> dict[str, tuple[Entry, ...]]:
        by_step: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_step.setdefault(entry.step_id, []).append(entry)
        return {step_id: tuple(entries) for step_id, entries in by_step.items()}

    def attempts(self, step_id: str) -> tuple[Entry, ...]:
        """The entries of a step of the due phase, oldest first."""
        return self._by_step.get(step_id, ())

    def last(self, step_id: str) -> Entry:
        """The last entry of a step of the due phase; KeyError if it has none."""
        return self._by_step[step_id][-1]

    def last_attempt(self, step_id: str) -> str:
        """The id of the last attempt at a step that has one, also of a settled phase: `plan#2`."""
        attempts = self.attempts(step_id)
        number = attempts[-1].attempt if attempts else self.past.retried.get(step_id, 1)
        return f"{step_id}#{number}"

    @property
    def latest(self) -> int:
        """The latest time in the journal; no new time may be earlier."""
        return max([self.past.latest, *(entry.latest for entry in self.entries)])

    @property
    def waived(self) -> frozenset[str]:
        return self.past.waived.union(*(entry.waived for entry in self.entries))

    @property
    def pristine(self) -> bool:
        return not self.entries and not self.past.entries

    def next_number(self, step_id: str) -> int:
        """The number of the next attempt at a step of the due phase."""
        attempts = self.attempts(step_id)
        return 1 + (attempts[-1].attempt if attempts else self.past.retried.get(step_id, 0))

    def next_entry(self, step_id: str, at: int) -> Entry:
        number = self.next_number(step_id)
        entry = Entry(step_id, EntryStatus.IN_PROGRESS, Decision.AUTO, at, attempt=number)
        return replace(entry, items=self.items) if item_number(step_id) else entry

    def with_entry(self, entry: Entry) -> State:
        """The state with this entry in place of the attempt's previous one, or appended."""
        for index, previous in enumerate(self.entries):
            if previous.id == entry.id:
                changed = (*self.entries[:index], entry, *self.entries[index + 1 :])
                return replace(self, entries=changed)
        return replace(self, entries=(*self.entries, entry))


def last_entries(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Step id → its last entry, from a whole journal: a `State` forgets those of settled phases."""
    return {entry.step_id: entry for entry in entries}
