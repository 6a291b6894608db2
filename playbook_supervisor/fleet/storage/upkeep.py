"""Rows as a whole: listing them, writing them again from git, removing old ones, and sweeps.

A sweep gives jobs back to sessions that have lost theirs. What it finds is decided again in a
transaction of its own for each session, so that only one of several sweeps acts. Should that one
end before the job is back, a later sweep finds the session again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.storage.rows import ENDED, OPEN, Job, Row, State, Swept
from playbook_supervisor.fleet.storage.tables import now_ms
from playbook_supervisor.fleet.storage.transactions import Transaction, clock, words
from playbook_supervisor.records import as_mapping

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.dbos_queue import DbosQueue


def stamp(tx: Transaction) -> tuple[int, ...]:
    """Numbers that differ after every change of the rows but the renewal of a lease."""
    columns, sums = tx.session.c, ("epoch", "job", "failures", "due_at")
    at_work = columns.state == State.RUNNING
    query = sa.select(
        sa.func.count(),
        sa.func.sum(sa.case((at_work, 1), else_=0)),
        sa.func.sum(sa.func.length(columns.cancel)),
        sa.func.max(sa.case((at_work, 0), else_=columns.changed_at)),
        *(sa.func.sum(columns[name]) for name in sums),
    )
    return tuple(int(each or 0) for each in tx.connection.execute(query).one())


def restore(tx: Transaction, row: Row) -> bool:
    """Write what git says of a session, if the database does not know it or knows a lower epoch."""
    try:
        known = tx.find(row.id)
    except FleetError:  # a damaged row
        tx.connection.execute(sa.delete(tx.session).where(tx.session.c.id == row.id))
        known = None
    told = {"state": row.state, "gate": row.gate, "choices": words(row.choices), "epoch": row.epoch}
    if known is None:
        values = as_mapping(row) | told | {"job": 0, "lease_until": 0, "due_at": 0, "worker": ""}
        values = {name: each for name, each in values.items() if name in tx.session.c}
        values["retry"] = int(row.retry)
        values["created_at"] = row.created_at or now_ms()
        tx.connection.execute(sa.insert(tx.session).values(values | {"changed_at": now_ms()}))
        written = tx.get(row.id)
    elif known.epoch < row.epoch and not _held(tx, known):
        written = tx.let_go(known, **told)
    else:
        return False
    if row.state in (State.QUEUED, State.RUNNING) or (
        row.state is State.WAITING and tx.unjournaled(row.id, row.gate)
    ):
        tx.queue(written)
    return True


def old(tx: Transaction, before: int) -> list[Row]:
    """The ended sessions that have not changed since then and that no open one comes after."""
    columns = tx.session.c
    waiting = sa.select(columns.after).where(columns.state.in_(OPEN), columns.after != "")
    found, _ = tx.select(
        columns.state.in_(ENDED), columns.changed_at < before, columns.id.not_in(waiting)
    )
    return found


def remove(tx: Transaction, ids: Iterable[str]) -> list[str]:
    """Remove rows and answers of ended sessions; the ids that were there."""
    ended = sa.and_(tx.session.c.id.in_(list(ids)), tx.session.c.state.in_(ENDED))
    query = sa.delete(tx.session).where(ended).returning(tx.session.c.id)
    removed = sorted(str(found) for found in tx.connection.execute(query).scalars())
    tx.connection.execute(sa.delete(tx.answer).where(tx.answer.c.session.in_(removed)))
    return removed


def _held(tx: Transaction, row: Row) -> bool:
    return row.state is State.RUNNING and row.lease_until >= clock(tx)


# ── sweeps ────────────────────────────────────────────────────────────────────────────────────

_SETTLED = 10_000  # ms: a session that changed within them may be between two transactions
_MOST = 500  # sessions in one sweep
Run = Callable[[Callable[[Transaction], Any]], Any]
"""Carries out a transaction and returns what it returned."""


@dataclass(frozen=True, slots=True)
class _Found:
    lapsed: list[Row]
    due: list[Row]
    queued: list[Row]
    now: int


def sweep(run: Run, queue: DbosQueue, seconds: float, *, thorough: bool) -> Swept:
    """Give jobs back; `thorough` looks for lost ones, too."""
    lease = round(seconds * 1000)
    began = run(clock) if thorough else 0
    jobs = queue.running(at_work=not thorough)
    found: _Found = run(partial(_look, thorough=thorough))
    put_back = [row.id for row in found.lapsed if _put_back_lapsed(run, queue, row)]
    due = [row.id for row in found.due if run(partial(_put_due, row=row))]
    at_work = [job for job in jobs if job.at_work]
    known: dict[str, Row] = run(partial(_rows, ids=[job.session for job in at_work]))
    stale = []
    for job in at_work:
        row = known.get(job.session)
        if _stale(job, row, found.now):
            stale.append((job.session, job.number))
        elif (
            row is not None
            and _left(job, row, found.now, lease)
            and run(partial(_look_after, row=row, lease=lease))
        ):
            queue.put_back(row.id, row.job, row.pool)
            put_back.append(row.id)
    queue.cancel(stale)
    lost = []
    if thorough:
        living = {(job.session, job.number) for job in jobs}
        without = [
            row
            for row in found.queued
            if row.changed_at < began - _SETTLED and (row.id, row.job) not in living
        ]
        lost = [row.id for row in without if run(partial(_replace, row=row))]
    return Swept(tuple(put_back), tuple(due), tuple(lost), len(stale))


def _look(tx: Transaction, *, thorough: bool) -> _Found:
    columns = tx.session.c
    lapsed = sa.and_(columns.state == State.RUNNING, columns.lease_until < now_ms())
    queued = columns.state == State.QUEUED
    due = sa.and_(queued, columns.due_at > 0, columns.due_at <= now_ms())
    missing = sa.and_(queued, columns.due_at == 0, columns.job > 0)
    rows, _ = tx.select(sa.or_(lapsed, due, missing) if thorough else sa.or_(lapsed, due))
    return _Found(
        [row for row in rows if row.state is State.RUNNING][:_MOST],
        [row for row in rows if row.due_at and row.state is State.QUEUED][:_MOST],
        [row for row in rows if not row.due_at and row.state is State.QUEUED],
        clock(tx),
    )


def _rows(tx: Transaction, ids: list[str]) -> dict[str, Row]:
    if not ids:
        return {}
    rows, _ = tx.select(tx.session.c.id.in_(ids))
    return {row.id: row for row in rows}


def _stale(job: Job, row: Row | None, now: int) -> bool:
    """True if no worker may take the session with this job any more."""
    if row is None:
        return True
    if row.job != job.number:
        return row.job > job.number
    return row.state not in (State.QUEUED, State.RUNNING) and row.changed_at < now - _SETTLED


def _left(job: Job, row: Row, now: int, lease: int) -> bool:
    """True if a worker took the job long ago, and not the lease."""
    return (
        row.state is State.QUEUED
        and row.job == job.number
        and not row.due_at
        and max(job.since, row.changed_at) < now - lease
    )


def _put_back_lapsed(run: Run, queue: DbosQueue, row: Row) -> bool:
    queued: bool = run(partial(_release, row=row))
    if queued and not queue.put_back(row.id, row.job, row.pool):
        run(partial(_replace, row=row))
    return queued


def _release(tx: Transaction, row: Row) -> bool:
    columns = tx.session.c
    return (
        tx.update(
            row.id,
            columns.epoch == row.epoch,
            columns.state == State.RUNNING,
            columns.lease_until < now_ms(),
            state=State.QUEUED,
            worker="",
            lease_until=0,
            looked_at=now_ms(),
        )
        is not None
    )


def _look_after(tx: Transaction, row: Row, lease: int) -> bool:
    """True if this sweep is the one that puts the job back."""
    columns = tx.session.c
    return (
        tx.update(
            row.id,
            columns.epoch == row.epoch,
            columns.job == row.job,
            columns.state == State.QUEUED,
            columns.looked_at < now_ms() - lease,
            looked_at=now_ms(),
        )
        is not None
    )


def _put_due(tx: Transaction, row: Row) -> bool:
    columns = tx.session.c
    changed = tx.update(
        row.id,
        columns.state == State.QUEUED,
        columns.job == row.job,
        columns.due_at > 0,
        columns.due_at <= now_ms(),
        due_at=0,
    )
    if changed is not None:
        tx.put(changed)
    return changed is not None


def _replace(tx: Transaction, row: Row) -> bool:
    """Put a new job for one that is gone, unless something has changed."""
    locked = tx.find(row.id)
    if (
        locked is None
        or locked.state is not State.QUEUED
        or (locked.job, locked.epoch, locked.due_at) != (row.job, row.epoch, 0)
    ):
        return False
    tx.queue(locked)
    return True
