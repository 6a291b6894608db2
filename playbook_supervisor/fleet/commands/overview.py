"""`fleet status`: all sessions of the fleet, those that wait for a person first.

Everything comes from the database, which keeps nothing of what agents or git have said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from playbook_supervisor.errors import StateError, guidance
from playbook_supervisor.fleet.storage.rows import ENDED, SUSPECT, Row, State
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.store.selection import full_id

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.database import FleetDatabase

RECENT = 24 * 3_600_000
"""Milliseconds after its end for which a session counts as recent."""

_ORDER = (State.WAITING, State.STUCK, State.RUNNING, State.QUEUED, *ENDED)


class WaitKind(StrEnum):
    """What a session waits for."""

    GATE = "gate"
    ANSWER = "answer"  # it is given, and no worker has taken it up yet
    TURN = "turn"
    LIMIT = "limit"
    SESSION = "session"
    PAUSE = "pause"
    VERSION = "version"
    REPAIR = "repair"
    WORKER = "worker"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a session waits for, and `since` when; `until` is 0 if that is not known.

    `what` is the gate, pool, session, version, worker or code of an error that it is about.
    """

    kind: WaitKind
    since: int
    what: str
    until: int = 0


@dataclass(frozen=True, slots=True)
class FleetSession:
    """A session of the fleet. `before` counts the queued ones that its repository lets go first.

    `after` is the state of the session that has to be completed before it, None if there is none.
    `full`: its pool has as many at work as it may have, in all or of the repository.
    """

    row: Row
    before: int = 0
    after: State | None = None
    full: bool = False

    @property
    def cure(self) -> str:
        """The way to correct what has gone wrong; empty if nothing has."""
        if self.row.state is not State.STUCK:
            return ""
        return guidance(self.row.error, self.row.id) or guidance("PB-FLEET-STUCK", self.row.id)

    @property
    def since(self) -> int:
        """When it began to wait for what it waits for, to run, or when it ended."""
        return self.row.since or self.row.changed_at

    @property
    def held(self) -> bool:
        """True if another session has to be completed first."""
        return bool(self.row.after) and self.after is not State.COMPLETED

    @property
    def alone(self) -> bool:
        """True if a worker takes it up only when it has no other."""
        return self.row.state is State.QUEUED and self.row.deaths >= SUSPECT

    def waits_for(self, now: int) -> Wait | None:
        """What it waits for at `now`; None if it runs or has ended.

        A session that is to be cancelled still waits for what it waited for before.
        """
        row = self.row
        match row.state:
            case State.WAITING:
                return Wait(WaitKind.GATE, self.since, row.gate)
            case State.STUCK:
                return Wait(WaitKind.REPAIR, self.since, row.error)
            case State.RUNNING if row.lease_until < now:
                return Wait(WaitKind.WORKER, row.lease_until, row.worker)
            case State.RUNNING if row.cancel:
                return Wait(WaitKind.CANCEL, row.changed_at, row.worker)
            case State.QUEUED:
                return self._queued()
            case _:
                return None

    def _queued(self) -> Wait:
        row = self.row
        if self.held:
            return Wait(WaitKind.SESSION, self.since, row.after)
        if row.needs:
            return Wait(WaitKind.VERSION, self.since, row.needs, row.due_at)
        if row.due_at:
            return Wait(WaitKind.PAUSE, self.since, row.error, row.due_at)
        if row.gate:
            kind = WaitKind.GATE if row.cancel else WaitKind.ANSWER
            return Wait(kind, self.since, row.gate)
        if row.cancel and row.error:
            kind = WaitKind.PAUSE if row.failures else WaitKind.REPAIR
            return Wait(kind, self.since, row.error)
        if row.cancel:
            return Wait(WaitKind.CANCEL, row.changed_at, row.pool)
        if self.alone:
            return Wait(WaitKind.WORKER, self.since, row.worker or row.pool)
        return Wait(WaitKind.LIMIT if self.full else WaitKind.TURN, self.since, row.pool)


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
        return sum(each.row.state is state for each in self.sessions)


def fleet(database: FleetDatabase, session: str = "", *, with_ended: bool = False) -> FleetOverview:
    """The fleet now. `session` names one, also by the beginning or end of its id."""
    chosen = find(database, session).id if session else ""
    rows, now, notices = database.rows(), database.now(), database.notices
    states = {row.id: row.state for row in rows}
    known = [FleetSession(row, after=states.get(row.after)) for row in rows]
    before, ordered = _queues(known), sorted(known, key=_precedence)
    full = _full_pools(database, rows, now)
    shown = [
        replace(each, before=before.get(each.row.id, 0), full=_pool(each.row) in full)
        for each in ordered
        if (each.row.id == chosen if chosen else with_ended or each.row.state not in ENDED)
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


def _precedence(each: FleetSession) -> tuple[int, bool, int, int, str]:
    row = each.row
    ended, queued = row.state in ENDED, row.state is State.QUEUED
    rank = _ORDER.index(ENDED[0] if ended else row.state)
    urgency = row.priority if queued else 0
    since = -each.since if ended else each.since
    return rank, queued and not _is_due(each), -urgency, since, row.id


def _is_due(each: FleetSession) -> bool:
    return not each.row.due_at and (bool(each.row.cancel) or not each.held)


def _queues(known: Sequence[FleetSession]) -> dict[str, int]:
    """Session → how many of its pool and repository go first; only of those that are due."""
    before: dict[tuple[str, str], int] = {}
    found = {}
    for each in sorted(known, key=_precedence):
        row = each.row
        if row.state is State.QUEUED and _is_due(each):
            queue = _pool(row)
            found[row.id] = before.get(queue, 0)
            before[queue] = found[row.id] + 1
    return found


def _full_pools(
    database: FleetDatabase, rows: Sequence[Row], now: int
) -> frozenset[tuple[str, str]]:
    """The pools with repositories of which no further session may start now."""
    queued = {_pool(row) for row in rows if row.state is State.QUEUED}
    running = (row for row in rows if row.state is State.RUNNING and row.lease_until >= now)
    at_work = Counter(map(_pool, running))
    limits = {pool: database.limits(pool) for pool, _ in queued}

    def is_full(pool: str, repository: str) -> bool:
        most, number = limits[pool], at_work[pool, repository]
        in_all = sum(count for (name, _), count in at_work.items() if name == pool)
        return (most.in_all is not None and in_all >= most.in_all) or (
            most.per_repository is not None and number >= most.per_repository
        )

    return frozenset(each for each in queued if is_full(*each))


def _pool(row: Row) -> tuple[str, str]:
    return row.pool, row.repository
