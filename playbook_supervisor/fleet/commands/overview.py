"""`fleet status`: all sessions of the fleet, those that wait for a person first.

Everything comes from the database, which keeps nothing of what agents or git have said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbook_supervisor.errors import StateError, guidance
from playbook_supervisor.fleet.storage.rows import ENDED, Row, State
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.store.selection import full_id

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.database import FleetDatabase

RECENT = 24 * 3_600_000
"""Milliseconds after its end for which a session counts as recent."""

_ORDER = (State.WAITING, State.STUCK, State.RUNNING, State.QUEUED, *ENDED)


@dataclass(frozen=True, slots=True)
class FleetSession:
    """A session of the fleet. `before` counts the queued ones that its repository lets go first.

    `after` is the state of the session that has to be completed before it, None if there is none.
    """

    row: Row
    before: int = 0
    after: State | None = None

    @property
    def cure(self) -> str:
        """The way to correct what has gone wrong; empty if nothing has."""
        if self.row.state is not State.STUCK:
            return ""
        return guidance(self.row.error, self.row.id) or guidance("PB-FLEET-STUCK", self.row.id)


@dataclass(frozen=True, slots=True)
class FleetOverview:
    """The fleet at `now`, ms since the epoch by the database's clock.

    `sessions` are those that wait, the longest first, the stuck ones, those that run, those that
    are queued, in their order, and those that have ended, as far as they were asked for. `ended`
    are the recent ends, the latest first. `notices` tell of rows that cannot be read.
    """

    place: str
    now: int
    sessions: tuple[FleetSession, ...]
    ended: tuple[Row, ...] = ()
    notices: tuple[str, ...] = ()

    def count(self, state: State) -> int:
        """The number of sessions with that state."""
        return sum(each.row.state is state for each in self.sessions)


def fleet(database: FleetDatabase, session: str = "", *, with_ended: bool = False) -> FleetOverview:
    """The fleet now. `session` names one, also by the beginning or end of its id."""
    chosen = find(database, session).id if session else ""
    rows, now, notices = database.rows(), database.now(), database.notices
    states = {row.id: row.state for row in rows}
    before = _queues(rows)
    shown = [
        FleetSession(row, before.get(row.id, 0), states.get(row.after) if row.after else None)
        for row in sorted(rows, key=_precedence)
        if (row.id == chosen if chosen else with_ended or row.state not in ENDED)
    ]
    recent = (row for row in rows if row.state in ENDED and now - row.changed_at < RECENT)
    ended = sorted(recent, key=lambda row: -row.changed_at)
    place = database.address.shown
    return FleetOverview(place, now, tuple(shown), tuple(ended), notices)


def find(database: FleetDatabase, named: str) -> Row:
    """The session with that id, or the beginning or end of it."""
    if SESSION_ID.match(named):
        row = database.row(named)
    else:
        known = {row.id: row for row in database.rows()}
        row = known.get(full_id(known, named))
    if row is None:
        raise StateError(
            "PB-STATE-NO-SESSION",
            f"the fleet has no session {first_line(named, 40)}",
            guidance="`playbook fleet status --all` lists all; `playbook fleet submit` begins one.",
        )
    return row


def _precedence(row: Row) -> tuple[int, bool, int, int, str]:
    ended, queued = row.state in ENDED, row.state is State.QUEUED
    rank = _ORDER.index(ENDED[0] if ended else row.state)
    urgency = row.priority if queued else 0
    since = -row.changed_at if ended else row.changed_at
    return rank, queued and not _has_job(row), -urgency, since, row.id


def _has_job(row: Row) -> bool:
    """True if a queued session is in the queue now, and not only later."""
    return not row.due_at


def _queues(rows: Sequence[Row]) -> dict[str, int]:
    """Session → how many of its pool and repository go first; only of those with a job now."""
    before: dict[tuple[str, str], int] = {}
    found = {}
    for row in sorted(rows, key=_precedence):
        if row.state is State.QUEUED and _has_job(row):
            queue = (row.pool, row.repository)
            found[row.id] = before.get(queue, 0)
            before[queue] = found[row.id] + 1
    return found
