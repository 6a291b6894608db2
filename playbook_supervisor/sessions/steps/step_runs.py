"""The events at the steps of a session, as people read them.

A loop is one step, however many items it has; and the rounds of an `until` are one, however many
attempts they took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from playbook_supervisor.kernel.model import base_of, item_number
from playbook_supervisor.kernel.state import UNTIL, Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus, Resolution
from playbook_supervisor.records import Record

_DONE = (EntryStatus.DONE, EntryStatus.SKIPPED)


class StepRun(Record):
    """Attempts that belong together, oldest first: at the items of a loop, or a step's rounds."""

    entries: tuple[Entry, ...]

    @property
    def last(self) -> Entry:
        return self.entries[-1]

    @property
    def loop(self) -> str:
        """The loop whose items were tried; empty for any other step."""
        return base_of(self.last.step_id) if item_number(self.last.step_id) else ""

    @property
    def total(self) -> int:
        return self.last.items

    @property
    def items(self) -> Mapping[str, Entry]:
        """The last attempt at each item that was tried."""
        counting = (each for each in self.entries if item_number(each.step_id) <= self.total)
        return {entry.step_id: entry for entry in counting}

    @property
    def done(self) -> int:
        return sum(entry.status in _DONE for entry in self.items.values())

    @property
    def ended(self) -> bool:
        """True if each item of the loop had its turn, or a person skipped the rest."""
        skipped = any(entry.resolution is Resolution.SKIP for entry in self.entries)
        return skipped or len(self.items) >= self.total

    @property
    def failed(self) -> tuple[Entry, ...]:
        return tuple(e for e in self.items.values() if e.status is EntryStatus.FAILED)

    @property
    def current(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.items.values() if not entry.settled)

    @property
    def rounds(self) -> tuple[Entry, ...]:
        """The attempts that another followed, since their `until` did not hold."""
        return tuple(entry for entry in self.entries if is_round(entry))

    @property
    def lasted(self) -> int:
        """From the first start to the last end, in ms."""
        return max(entry.latest for entry in self.entries) - self.entries[0].started_at


def is_round(entry: Entry) -> bool:
    """True if it is a round of an `until` that another follows: no failure."""
    return entry.error_code == UNTIL


def step_runs(entries: Iterable[Entry]) -> Iterator[StepRun]:
    """The entries of a journal in groups, each where its first entry stands."""
    groups: dict[str, list[Entry]] = {}
    rounds: dict[str, str] = {}
    for entry in entries:
        key = base_of(entry.step_id) if item_number(entry.step_id) else entry.id
        key = rounds.pop(entry.step_id, key)
        groups.setdefault(key, []).append(entry)
        if is_round(entry):
            rounds[entry.step_id] = key
    return (StepRun(tuple(group)) for group in groups.values())


def steps_settled(entries: Iterable[Entry]) -> int:
    """The number of steps that are done or skipped; a loop counts once all its items are."""
    last = {entry.step_id: entry for entry in entries}
    done: dict[str, int] = {}
    items: dict[str, int] = {}
    for entry in last.values():
        step = base_of(entry.step_id)
        items[step] = max(entry.items, 1)
        done[step] = done.get(step, 0) + (entry.status in _DONE)
    return sum(number >= items[step] for step, number in done.items())


def waited_ms(entries: Sequence[Entry], now: int | None = None) -> int:
    """The time that gates waited for a human, in ms; with `now` an open gate counts until then.

    Time in which several were open counts once.
    """
    spans = sorted(
        (gate.opened_at, closed)
        for entry in entries
        for gate in entry.gates
        if gate.by != "autonomous"
        and (closed := gate.answered_at if entry.settled or gate.answered_at else now) is not None
    )
    waited, until = 0, 0
    for opened, closed in spans:
        waited += max(closed - max(opened, until), 0)
        until = max(until, closed)
    return waited
