"""What is known: the playbook and the entries, nothing else.

An `Entry` has exactly the keys of the journal. Entries of phases that are settled never change
again and nothing looks at them but the waivers, so a `State` keeps their sum (`Past`) and the
entries of the phase that is due: a session of 10,000 steps costs no more than one of ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property, wraps

from playbook_supervisor.kernel.model import Phase, Playbook
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    Trigger,
)
from playbook_supervisor.records import Record, field, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

INTERRUPTED = "PB-STATE-INTERRUPTED"
NOT_STARTED = "PB-STATE-NOT-STARTED"
ABORTED = "PB-STATE-ABORTED"
PRECONDITION = "PB-COND-PRECONDITION"
POSTCONDITION = "PB-COND-POSTCONDITION"
TRIGGERED = "PB-COND-TRIGGER"

NEVER_RAN = frozenset({NOT_STARTED, PRECONDITION})
"""Codes of entries that failed before anything was launched."""


class Gate(Record):
    """A halt for a human. It waits until `answered_at` is there. Times in ms since the epoch."""

    id: str
    reason: GateReason
    place: Place
    opened_at: int
    answered_at: int | None = None
    by: str = ""
    text: str = ""
    resolution: Resolution | None = None

    @property
    def open(self) -> bool:
        return self.answered_at is None


class Entry(Record):
    """One attempt at one step, with the keys of journal.yaml (kai data model, Journal Entry).

    `launched_at` and `returned_at` of a settled entry are None where they equal its start and
    its completion. `human_response` and `resolution` repeat the last gate's.
    """

    step_id: str
    status: EntryStatus
    decision: Decision
    started_at: int
    completed_at: int | None = None
    attempt: int = 1
    launched_at: int | None = None
    returned_at: int | None = None
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
    gates: tuple[Gate, ...] = ()
    agent: Mapping[str, str | int | float] = field(default_factory=dict)
    output: str = ""

    @property
    def id(self) -> str:
        """The attempt's id, `implement#2`."""
        return f"{self.step_id}#{self.attempt}"

    @property
    def settled(self) -> bool:
        return self.status is not EntryStatus.IN_PROGRESS

    @property
    def gate(self) -> Gate | None:
        """The gate that waits, if one does."""
        if self.status is EntryStatus.IN_PROGRESS and self.gates and self.gates[-1].open:
            return self.gates[-1]
        return None

    @property
    def latest(self) -> int:
        """The latest time that the entry knows."""
        times = [self.started_at, self.completed_at, self.launched_at, self.returned_at]
        for gate in self.gates:
            times += (gate.opened_at, gate.answered_at)
        return max(time for time in times if time is not None)

    @property
    def erred(self) -> bool:
        """Whether the worker itself failed: only the code decides, never the prose."""
        return self.error_code.startswith(("PB-AGENT-", "PB-STEP-"))

    @property
    def came_back(self) -> bool:
        """Whether a return of this attempt's worker has been journaled."""
        if self.status is EntryStatus.FAILED and self.returned_at is None:
            return self.ran and self.error_code not in {INTERRUPTED, ABORTED}
        return self.returned_at is not None or self.status is EntryStatus.DONE

    @property
    def ran(self) -> bool:
        """Whether this attempt was ever launched."""
        over = self.status in (EntryStatus.DONE, EntryStatus.FAILED)
        return self.launched_at is not None or (over and self.error_code not in NEVER_RAN)


class Position(StrEnum):
    """Where a step of the due phase stands, read off the keys of its last entry."""

    DUE = "due"
    """No attempt has begun, or the last one failed and another is to follow."""
    GATED = "gated"
    """A gate before the step waits."""
    CLEARED = "cleared"
    """The gate before is answered; the check is to be asked again."""
    RUNNING = "running"
    """Launched, not returned."""
    RETURNED = "returned"
    """Returned, not judged (or to be judged again after a `continue`)."""
    HELD = "held"
    """A gate after the step waits."""
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class Change(StrEnum):
    """What an event did to its entry."""

    SKIPPED = "skipped"
    GATE_OPENED = "gate_opened"
    LAUNCHED = "launched"
    RETURNED = "returned"
    ANSWERED = "answered"
    DONE = "done"
    FAILED = "failed"
    TAKEN_UP = "taken_up"


class Event(Record):
    """An accepted fact: the entry as it stands from now on, and what happened to it."""

    change: Change
    entry: Entry


def settle(entry: Entry, status: EntryStatus, at: int) -> Event:
    """The entry at its end. Times that repeat start and completion are dropped.

    An aborted one keeps `returned_at`: nothing else says whether its worker came back.
    """
    change = Change(status.value)
    repeats = entry.returned_at == at and entry.error_code != ABORTED
    entry = replace(
        entry,
        status=status,
        completed_at=at,
        launched_at=None if entry.launched_at == entry.started_at else entry.launched_at,
        returned_at=None if repeats else entry.returned_at,
    )
    return Event(change, entry)


def merged(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Both, in order, each once."""
    return tuple(dict.fromkeys((*names, *more)))


class Past(Record):
    """What the settled phases leave behind: their number, their entries' number, their waivers."""

    phases: int = 0
    steps: int = 0
    entries: int = 0
    waived: frozenset[str] = frozenset()
    latest: int = 0
    """The latest time in those entries, ms; times never step back behind it."""


class State(Record, slots=False):
    """The playbook, the sum of the settled phases, and the entries of the one that is due."""

    playbook: Playbook
    past: Past = Past()
    entries: tuple[Entry, ...] = ()

    @property
    def phase(self) -> Phase | None:
        """The phase that is due; None when all are settled."""
        phases = self.playbook.phases
        return phases[self.past.phases] if self.past.phases < len(phases) else None

    @cached_property
    def _by_step(self) -> dict[str, tuple[Entry, ...]]:
        by_step: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_step.setdefault(entry.step_id, []).append(entry)
        return {step_id: tuple(entries) for step_id, entries in by_step.items()}

    def attempts(self, step_id: str) -> tuple[Entry, ...]:
        """The entries of a step of the due phase, oldest first."""
        return self._by_step.get(step_id, ())

    @property
    def latest(self) -> int:
        """The latest time in the journal; time never steps back behind it."""
        return max([self.past.latest, *(entry.latest for entry in self.entries)])

    @property
    def waived(self) -> frozenset[str]:
        """Everything that a human has accepted in this session."""
        return self.past.waived.union(*(entry.waived for entry in self.entries))

    @property
    def pristine(self) -> bool:
        """Nothing has happened yet."""
        return not self.entries and not self.past.entries

    def with_entry(self, entry: Entry) -> State:
        """The same state with this attempt's entry in place of the former one, or appended."""
        for index, former in enumerate(self.entries):
            if former.id == entry.id:
                changed = (*self.entries[:index], entry, *self.entries[index + 1 :])
                return replace(self, entries=changed)
        return replace(self, entries=(*self.entries, entry))


def once(asked: Callable[[State], T]) -> Callable[[State], T]:
    """A question to a state that is worked out once, for it never changes and is asked again.

    The answer is kept where `cached_property` would keep it, and goes when the state goes.
    """
    name = asked.__qualname__

    @wraps(asked)
    def answer(state: State) -> T:
        known = state.__dict__
        if name not in known:
            known[name] = asked(state)
        found: T = known[name]
        return found

    return answer
