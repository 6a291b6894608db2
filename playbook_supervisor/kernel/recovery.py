"""What follows when work is lost, interrupted, aborted or taken up again.

No settled step ever runs again, and nothing that a human said is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from playbook_supervisor.kernel.directives import Attempt, Probed
from playbook_supervisor.kernel.state import ABORTED, INTERRUPTED, Change, Entry, Event, settle
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, ErrorPolicy, Resolution
from playbook_supervisor.records import replace

_INTERRUPTED_TEXT = "interrupted before it returned"
_ABORTED_TEXT = "aborted while it ran"
_UNJUDGED_TEXT = "aborted before it was judged"


def finished(conditions: Iterable[tuple[Probed, bool]]) -> bool:
    """Whether a lost attempt had finished, from its postconditions and "changed since launch".

    It has some, all hold, and at least one artifact changed: what the interrupted attempt did not
    touch is no evidence that it finished (kai FR32, stricter).
    """
    conditions = tuple(conditions)
    return (
        bool(conditions)
        and all(probed.held for probed, _ in conditions)
        and any(changed for _, changed in conditions)
    )


def recovered(entry: Entry, at: int) -> Event:
    """A lost attempt that had finished counts as returned."""
    return Event(Change.RETURNED, replace(entry, returned_at=at, recovered=True))


def broken_off(entry: Entry, at: int) -> Event:
    """A lost or interrupted attempt; the next one follows and no retry is used up."""
    broken = replace(entry, error=_INTERRUPTED_TEXT, error_code=INTERRUPTED)
    return settle(broken, EntryStatus.FAILED, at)


def aborted(entry: Entry, text: str, at: int) -> Event:
    """An open entry of an aborted session: failed where something ran, else skipped."""
    entry = replace(entry, resolution=Resolution.ABORT, human_response=text, failing=())
    if entry.launched_at is None:
        return settle(entry, EntryStatus.SKIPPED, at)
    if not entry.error_code:
        error = _ABORTED_TEXT if entry.returned_at is None else _UNJUDGED_TEXT
        entry = replace(entry, error=error, error_code=ABORTED)
    return settle(entry, EntryStatus.FAILED, at)


def aborted_before(attempt: Attempt, text: str, at: int) -> Event:
    """The entry that says where a session was aborted while nothing ran."""
    entry = Entry(
        step_id=attempt.step.id,
        status=EntryStatus.SKIPPED,
        decision=Decision.GATE,
        started_at=at,
        completed_at=at,
        attempt=attempt.number,
        human_response=text,
        resolution=Resolution.ABORT,
    )
    return Event(Change.SKIPPED, entry)


def taken_up(entry: Entry) -> Event:
    """A failed entry after `resume --retry`: another attempt is to follow."""
    return Event(Change.TAKEN_UP, replace(entry, resolution=Resolution.RETRY))


def due_again(attempts: tuple[Entry, ...], policy: ErrorPolicy) -> bool:
    """Whether another attempt follows the last, failed one.

    After a human's `retry` and after an interruption always; by itself only under `retry_once`,
    once in the session, however many attempts humans and crashes have added (kai FR30), and not
    where the worker says that its error lasts.
    """
    last = attempts[-1]
    if last.resolution is Resolution.RETRY or last.error_code == INTERRUPTED:
        return True
    if policy is not ErrorPolicy.RETRY_ONCE or last.error_lasts or not _failed_by_itself(last):
        return False
    return not any(_failed_by_itself(entry) for entry in attempts[:-1])


def _failed_by_itself(entry: Entry) -> bool:
    """Ran and failed, and no human said so. A gate passed before the work changes nothing here."""
    return (
        entry.ran
        and entry.status is EntryStatus.FAILED
        and entry.resolution not in (Resolution.RETRY, Resolution.ABORT)
        and entry.error_code != INTERRUPTED
    )
