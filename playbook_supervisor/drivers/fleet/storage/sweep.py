"""Giving jobs back to sessions that have lost theirs. Several workers may do so at once.

What a sweep finds is decided again in a transaction of its own for each session, so that only one
sweep acts. Should that one end before the job is back, a later sweep finds the session again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

import sqlalchemy as sa

from playbook_supervisor.drivers.fleet.queue import Job, Queue
from playbook_supervisor.drivers.fleet.storage.rows import Row, State, Swept
from playbook_supervisor.drivers.fleet.storage.tables import now_ms
from playbook_supervisor.drivers.fleet.storage.transactions import Transaction, clock
from playbook_supervisor.records import Record

_SETTLED = 10_000  # ms: a session that changed within them may be between two transactions
_MOST = 500  # sessions in one sweep

Result = TypeVar("Result")


class Run(Protocol):
    """Carries out a transaction and returns what it returned."""

    def __call__(self, work: Callable[[Transaction], Result], /) -> Result: ...


class _Found(Record):
    lapsed: list[Row]
    due: list[Row]
    queued: list[Row]
    now: int


def sweep(run: Run, queue: Queue, seconds: float, *, thorough: bool) -> Swept:
    """Give jobs back; `thorough` looks for lost ones, too."""
    lease = round(seconds * 1000)
    began = run(clock) if thorough else 0
    jobs = queue.running(at_work=not thorough)
    found = run(partial(_look, thorough=thorough))
    put_back = [row.id for row in found.lapsed if _put_back_lapsed(run, queue, row)]
    due = [row.id for row in found.due if run(partial(_put_due, row=row))]
    at_work = [job for job in jobs if job.at_work]
    known = run(partial(_rows, ids=[job.session for job in at_work]))
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
    """Whether no worker may take the session with this job any more."""
    if row is None:
        return True
    if row.job != job.number:
        return row.job > job.number
    return row.state not in (State.QUEUED, State.RUNNING) and row.changed_at < now - _SETTLED


def _left(job: Job, row: Row, now: int, lease: int) -> bool:
    """Whether a worker took the job long ago, and not the lease."""
    return (
        row.state is State.QUEUED
        and row.job == job.number
        and not row.due_at
        and max(job.since, row.changed_at) < now - lease
    )


def _put_back_lapsed(run: Run, queue: Queue, row: Row) -> bool:
    queued = run(partial(_release, row=row))
    if queued and not queue.put_back(row.id, row.job, row.pool):
        run(partial(_replace, row=row))
    return queued


def _release(tx: Transaction, row: Row) -> bool:
    columns = tx.session.c
    changed = tx.update(
        row.id,
        columns.epoch == row.epoch,
        columns.state == State.RUNNING,
        columns.lease_until < now_ms(),
        state=State.QUEUED,
        worker="",
        lease_until=0,
        looked_at=now_ms(),
    )
    return changed is not None


def _look_after(tx: Transaction, row: Row, lease: int) -> bool:
    """Whether this sweep is the one that puts the job back."""
    columns = tx.session.c
    changed = tx.update(
        row.id,
        columns.epoch == row.epoch,
        columns.job == row.job,
        columns.state == State.QUEUED,
        columns.looked_at < now_ms() - lease,
        looked_at=now_ms(),
    )
    return changed is not None


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
