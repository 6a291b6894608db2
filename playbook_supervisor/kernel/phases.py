"""A phase: one step, or the members of a parallel group, from due to settled.

A phase is checked first, then its gates are asked one at a time, then all its members run at once,
then all that returned are checked and judged together. This module is about the phase as
a whole, and `table.py` about a single step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from playbook_supervisor.kernel import gates, tools
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.model import Step, base_of, cached_query, item_number
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
        case EntryStatus.SKIPPED:
            return Position.SKIPPED
        case EntryStatus.FAILED:
            if another_follows(attempts, step.error_policy):
                return Position.DUE
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
    if not entries:
        return Attempt(step, 1)
    last = entries[-1]
    return Attempt(step, last.attempt + 1 if last.settled else last.attempt)


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
    if any(not tolerated(entry, step(entry.step_id).error_policy) for entry in failed):
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
            error = "another step of its group failed first"
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
        failures=failures(state),
    )


def in_the_past(state: State, attempt_id: str) -> bool:
    """True if it is an attempt of a settled phase."""
    step_id, _, _ = attempt_id.rpartition("#")
    past, base, number = state.past, base_of(step_id), item_number(step_id)
    index = state.playbook.phase_of.get(base, past.phases + 1)
    if number:
        settled = past.looped if index == past.phases else past.items.get(base, 0)
        if index > past.phases or number > settled:
            return False
    elif index >= past.phases or step_id != base:
        return False
    attempts = range(1, past.retried.get(step_id, 1) + 1)
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
    here = positions(state).values()
    return state.past.failures + sum(where is Position.TOLERATED for where in here)


def _aborted(state: State) -> bool:
    return any(entry.resolution is Resolution.ABORT for entry in state.entries)
