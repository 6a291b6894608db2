"""A phase: one step, or the members of a parallel group, from due to settled.

A phase is checked first, then its gates are asked one at a time, then all its members run at once,
then all that returned are checked and judged together. This module is about the phase as
a whole, and `table.py` about a single step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from playbook_supervisor.kernel import gates, tools
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.model import Step, base_of, cached_query, item_id, item_number
from playbook_supervisor.kernel.recovery import another_follows, due_at, tolerated
from playbook_supervisor.kernel.state import (
    NOT_STARTED,
    Change,
    Entry,
    Event,
    Past,
    Position,
    State,
    settle,
)
from playbook_supervisor.kernel.vocabulary import (
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
)
from playbook_supervisor.records import replace

_AT_GATE = {Place.BEFORE: Position.GATED, Place.DURING: Position.ASKING, Place.AFTER: Position.HELD}
_COMPLETE = frozenset({Position.DONE, Position.TOLERATED, Position.SKIPPED})
_STARTS = frozenset({Change.LAUNCHED, Change.RETURNED})


def position(step: Step, attempts: tuple[Entry, ...]) -> Position:
    """The position of a step, read from the keys of its last entry."""
    if not attempts:
        return Position.DUE
    entry = attempts[-1]
    match entry.status:
        case EntryStatus.DONE:
            return Position.DONE
        case EntryStatus.FAILED | EntryStatus.SKIPPED if entry.back_to:
            return Position.SENT_BACK
        case EntryStatus.SKIPPED:
            return Position.SKIPPED
        case EntryStatus.FAILED:
            if another_follows(attempts, step.error_policy):
                return Position.DUE
            if step.undo and entry.ran and not entry.undone and not _was_aborted(entry):
                return Position.UNDOING
            return Position.TOLERATED if tolerated(entry, step.error_policy) else Position.FAILED
        case _:
            if entry.gate is not None:
                return _AT_GATE[entry.gate.place]
            if entry.launched_at is None:
                return Position.CLEARED
            return Position.RUNNING if entry.returned_at is None else Position.RETURNED


@cached_query
def positions(state: State) -> Mapping[str, Position]:
    """Step id → position, for the members of the due phase, in order."""
    where = {step.id: position(step, state.attempts(step.id)) for step in state.phase or ()}
    if state.loop is not None and any(map(gates.skips_loop, state.entries)):
        return {name: Position.SKIPPED if at is Position.DUE else at for name, at in where.items()}
    return where


def attempt(state: State, step: Step) -> Attempt:
    """The open attempt, or the next one."""
    entries = state.attempts(step.id)
    if entries and not entries[-1].settled:
        return Attempt(step, entries[-1].attempt)
    return Attempt(step, state.next_number(step.id))


def not_before(state: State, steps: Sequence[Step]) -> int | None:
    """The time at which the due attempts may begin, in ms: retries run together. None for now."""
    times = (due_at(state.attempts(step.id), step.error_policy) for step in steps)
    return max((time for time in times if time is not None), default=None)


def start_together(state: State, events: Sequence[Event], at: int) -> tuple[Event, ...]:
    """The events of the phase after the check before its run, from those of each member alone.

    If one member fails and is not tolerated, none starts. If one gate opens, none starts yet.
    """
    step = state.playbook.step
    failed = (event.entry for event in events if event.change is Change.FAILED)
    sent_back = Position.SENT_BACK in positions(state).values()
    if sent_back or any(not tolerated(entry, step(entry.step_id).error_policy) for entry in failed):
        return _none_starts(state, events, at)
    if any(event.change is Change.GATE_OPENED for event in events):
        return _without_starts(events)
    return tuple(events)


def _without_starts(events: Sequence[Event]) -> tuple[Event, ...]:
    """The gate of a loop is asked alone, for the first item that is not passed over.

    Of gates about tools only the first opens: its answer may be enough for the others.
    """
    kept: list[Event] = []
    about_tools = False
    for event in (event for event in events if event.change not in _STARTS):
        gate = event.entry.gate
        if gate is not None and gate.reason is GateReason.TOOLS:
            if about_tools:
                continue
            about_tools = True
        kept.append(event)
        if event.change is Change.GATE_OPENED and gates.is_of_loop(event.entry):
            break
    return tuple(kept)


def _none_starts(state: State, events: Sequence[Event], at: int) -> tuple[Event, ...]:
    """Only the failed and skipped settle, and members whose gate was passed: as not started."""
    kept = []
    for event in events:
        attempts = state.attempts(event.entry.step_id)
        if event.entry.settled:
            kept.append(event)
        elif attempts and not attempts[-1].settled:
            first = "was sent back" if any(map(_goes_back, state.entries)) else "failed"
            error = f"another step of its group {first} first"
            entry = replace(attempts[-1], error=error, error_code=NOT_STARTED)
            kept.append(settle(entry, EntryStatus.FAILED, at))
    return tuple(kept)


@cached_query
def status(state: State) -> SessionStatus:
    """The session's status."""
    if state.pristine:
        return SessionStatus.PENDING
    if _aborted(state):
        return SessionStatus.ABORTED
    if state.phase is None:
        return SessionStatus.COMPLETED
    settled = all(entry.settled for entry in state.entries)
    failed = settled and Position.FAILED in positions(state).values()
    return SessionStatus.FAILED if failed else SessionStatus.IN_PROGRESS


def complete(state: State) -> bool:
    """True if every member of the due phase is settled for good, and none was aborted."""
    return all(where in _COMPLETE for where in positions(state).values()) and not _aborted(state)


def sends_back(state: State) -> bool:
    """True if the due phase has ended with an attempt that sends back to an earlier step."""
    if not any(map(_goes_back, state.entries)):
        return False
    over = (entry.settled for entry in state.entries)
    where = positions(state)
    failed = (
        state.last(name).error_code != NOT_STARTED
        for name, at in where.items()
        if at is Position.FAILED
    )
    waits = any(at is Position.UNDOING for at in where.values())
    return all(over) and not waits and not any(failed) and not _aborted(state)


def sent_back(state: State) -> Past:
    """The past in which the playbook goes on from the earliest step that was named."""
    past, playbook = state.past, state.playbook
    senders = tuple(filter(_goes_back, state.entries))
    first = min(playbook.phase_of[entry.back_to] for entry in senders)
    again = [step for phase in playbook.phases[first : past.phases + 1] for step in phase]
    names = {step.id for step in again}
    tried = {**past.retried, **{entry.step_id: entry.attempt for entry in state.entries}}
    for step in again:
        settled = past.looped if step is state.loop else past.items.get(step.id, 0)
        for number in range(settled):
            tried.setdefault(item_id(step.id, number + 1), 1)
        if not settled and playbook.phase_of[step.id] < past.phases:
            tried.setdefault(step.id, 1)
    return replace(
        past,
        phases=first,
        steps=sum(map(len, playbook.phases[:first])),
        looped=0,
        items={name: items for name, items in past.items.items() if name not in names},
        passed=gates.without(past.passed | tools.always_at(state.entries), names)
        | tools.passed_at(playbook.step, state.entries),
        entries=past.entries + len(state.entries),
        waived=state.waived,
        latest=state.latest,
        retried=tried,
        failures={phase: number for phase, number in past.failures.items() if phase < first},
        sent_back=(*past.sent_back, *senders),
    )


def passed(state: State) -> Past:
    """The past in which the due phase, or the items of a loop that ran together, are settled."""
    past, phase, loop = state.past, state.phase or (), state.loop
    settled = past.looped + len(phase) if loop is not None and state.items else 0
    over = settled >= state.items or any(map(gates.skips_loop, state.entries))
    retried = {entry.step_id: entry.attempt for entry in state.entries if entry.attempt > 1}
    return replace(
        past,
        phases=past.phases + over,
        steps=past.steps + (0 if not over else 1 if settled else len(phase)),
        looped=0 if over else settled,
        items={**past.items, loop.id: state.items} if loop and settled else past.items,
        passed=past.passed
        | gates.passed_for_loop(state.entries)
        | tools.passed_at(state.playbook.step, state.entries)
        | tools.always_at(state.entries),
        entries=past.entries + len(state.entries),
        waived=state.waived,
        latest=state.latest,
        retried={**past.retried, **retried},
        failures=_counted(state),
    )


def in_the_past(state: State, attempt_id: str) -> bool:
    """True if it is an attempt of a settled phase."""
    step_id, _, _ = attempt_id.rpartition("#")
    past, base, number = state.past, base_of(step_id), item_number(step_id)
    index = state.playbook.phase_of.get(base, past.phases + 1)
    if number:
        items = past.looped if index == past.phases else past.items.get(base, 0)
        settled = index <= past.phases and number <= items
    else:
        settled = index < past.phases and step_id == base
    attempts = range(1, past.retried.get(step_id, int(settled)) + 1)
    return any(attempt_id == f"{step_id}#{number}" for number in attempts)


def current_step(state: State) -> str:
    """The id of the first step that is not settled for good; empty when all are."""
    return next((name for name, where in positions(state).items() if where not in _COMPLETE), "")


def steps_done(state: State) -> int:
    """The number of steps done, skipped or tolerated, without an aborted one; a loop is one."""
    if state.items:
        return state.past.steps
    aborted = {entry.step_id for entry in state.entries if entry.resolution is Resolution.ABORT}
    here = positions(state).items()
    return state.past.steps + sum(
        where in _COMPLETE and name not in aborted for name, where in here
    )


def failures(state: State) -> int:
    """The number of steps of the playbook that have failed and were tolerated."""
    return sum(_counted(state).values())


def _counted(state: State) -> Mapping[int, int]:
    past = state.past
    here = sum(where is Position.TOLERATED for where in positions(state).values())
    if not here:
        return past.failures
    return {**past.failures, past.phases: past.failures.get(past.phases, 0) + here}


def _aborted(state: State) -> bool:
    return any(map(_was_aborted, state.entries))


def _goes_back(entry: Entry) -> bool:
    return bool(entry.back_to)


def _was_aborted(entry: Entry) -> bool:
    return entry.resolution is Resolution.ABORT
