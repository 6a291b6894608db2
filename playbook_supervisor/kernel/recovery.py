"""The rules for lost, interrupted and aborted work, and for a failed session that is resumed.

A settled step never runs again, and the journal keeps every answer of a human.
"""

from __future__ import annotations

from collections.abc import Iterable

from playbook_supervisor.kernel.directives import (
    Answered,
    Cancelled,
    Lost,
    Observation,
    Probed,
    TakenUp,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy, Reaction
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.state import (
    ABORTED,
    INTERRUPTED,
    NOT_STARTED,
    OUTPUT,
    UNDO,
    UNTIL,
    Change,
    Entry,
    Event,
    State,
    settle,
)
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, Resolution
from playbook_supervisor.records import replace


def count_as_returned(state: State, step: Step, _: Lost, at: int) -> Event:
    """A lost attempt that had finished counts as returned."""
    entry = state.last(step.id)
    return Event(Change.RETURNED, replace(entry, returned_at=at, recovered=True))


def break_off(state: State, step: Step, _: Observation, at: int) -> Event:
    """A lost or interrupted attempt fails. Another one follows and uses up no retry."""
    error = "interrupted before it returned"
    broken_off = replace(state.last(step.id), error=error, error_code=INTERRUPTED)
    return settle(broken_off, EntryStatus.FAILED, at)


def abort(state: State, step: Step, said: Answered | Cancelled, at: int) -> Event:
    """Settle an open entry of an aborted session: as failed if its step ran, else as skipped."""
    return _aborted(state.last(step.id), said.text, at)


def abort_before(state: State, step: Step, said: Answered | Cancelled, at: int) -> Event:
    """Record the due step at which a session was aborted while nothing ran."""
    entry = replace(state.next_entry(step.id, at), decision=Decision.GATE)
    return _aborted(entry, said.text, at)


def abort_failed(state: State, step: Step, said: Answered | Cancelled, _: int) -> Event:
    """Record that a session was aborted after an attempt failed: nothing is undone."""
    entry = replace(state.last(step.id), resolution=Resolution.ABORT, human_response=said.text)
    return Event(Change.FAILED, entry)


def take_up(state: State, step: Step, _: TakenUp, __: int) -> Event:
    """Mark a failed entry as retried by `resume --retry`: another attempt follows."""
    entry = state.last(step.id)
    return Event(Change.TAKEN_UP, replace(entry, resolution=Resolution.RETRY))


def _aborted(entry: Entry, text: str, at: int) -> Event:
    entry = replace(entry, resolution=Resolution.ABORT, human_response=text, failing=())
    if entry.launched_at is None:
        return settle(entry, EntryStatus.SKIPPED, at)
    if not entry.error_code:
        ran = "while it ran" if entry.returned_at is None else "before it was judged"
        entry = replace(entry, error=f"aborted {ran}", error_code=ABORTED)
    return settle(entry, EntryStatus.FAILED, at)


def finished(conditions: Iterable[tuple[Probed, bool]]) -> bool:
    """True if a lost attempt had finished; each postcondition comes with "changed since launch".

    An artifact that the attempt did not touch is no evidence that it finished.
    """
    conditions = tuple(conditions)
    all_hold = all(probed.held for probed, _ in conditions)
    return all_hold and any(changed for _, changed in conditions)


def another_follows(attempts: tuple[Entry, ...], policy: ErrorPolicy) -> bool:
    """True if another attempt follows the last, failed one.

    It does after a human's `retry`, after an interruption, and where the step is repeated until
    something holds. Otherwise it does if the policy retries the error, as often in a session as it
    says, however many attempts humans and crashes have added, and never after a lasting error.
    """
    last = attempts[-1]
    if last.resolution is Resolution.RETRY or last.error_code in (INTERRUPTED, UNTIL):
        return True
    handling = policy.handling(*last.error_codes)
    if handling.reaction is not Reaction.RETRY or last.error_lasts or not _failed_in_its_run(last):
        return False
    return sum(map(_failed_in_its_run, attempts[:-1])) < handling.retries


def due_at(attempts: tuple[Entry, ...], policy: ErrorPolicy) -> int | None:
    """The time at which a retry is due, in ms, from the journal alone; None for no wait."""
    if not attempts or not _failed_in_its_run(attempts[-1]):
        return None
    handling = policy.handling(*attempts[-1].error_codes)
    wait = handling.wait(sum(map(_failed_in_its_run, attempts)))
    return (attempts[-1].completed_at or 0) + wait if wait else None


def untried(attempts: tuple[Entry, ...]) -> bool:
    """True if the step waits at no gate and has not run, or lacked only its playbook's outputs."""
    return all(
        entry.settled and (not entry.ran or entry.error_code == OUTPUT) for entry in attempts
    )


def tolerated(entry: Entry, policy: ErrorPolicy) -> bool:
    """True if the run goes on after this failed attempt, which no other follows."""
    if entry.resolution is Resolution.ABORT or entry.error_code in (NOT_STARTED, OUTPUT, UNDO):
        return False
    return policy.handling(*entry.error_codes).reaction in (Reaction.CONTINUE, Reaction.IGNORE)


def _failed_in_its_run(entry: Entry) -> bool:
    """A gate that was passed before the run makes no difference."""
    decided = entry.resolution in (Resolution.RETRY, Resolution.ABORT)
    counts = not decided and entry.error_code not in (INTERRUPTED, OUTPUT, UNTIL)
    return entry.ran and entry.status is EntryStatus.FAILED and counts
