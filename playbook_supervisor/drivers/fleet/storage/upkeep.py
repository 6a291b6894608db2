"""Rows as a whole: listing, counting, writing them again from git, and removing old ones."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from playbook_supervisor.drivers.fleet.storage.rows import (
    ENDED,
    OPEN,
    Counts,
    Row,
    State,
)
from playbook_supervisor.drivers.fleet.storage.tables import now_ms
from playbook_supervisor.drivers.fleet.storage.transactions import Transaction, words
from playbook_supervisor.errors import FleetError
from playbook_supervisor.records import as_mapping


def rows(tx: Transaction, *, open_only: bool) -> tuple[list[Row], list[str]]:
    """The rows, and what is wrong with those that are left out."""
    return tx.select(*([tx.session.c.state.in_(OPEN)] if open_only else []))


def counts(tx: Transaction) -> Counts:
    """How many sessions there are in each state."""
    columns = tx.session.c
    lapsed = sa.and_(columns.state == State.RUNNING, columns.lease_until < now_ms())
    query = sa.select(
        columns.state, sa.func.count(), sa.func.sum(sa.case((lapsed, 1), else_=0))
    ).group_by(columns.state)
    found = tx.connection.execute(query).all()
    known = {state: number for state, number, _ in found if state in set(State)}
    return Counts(
        {state: int(known.get(state, 0)) for state in State}, sum(int(each[2]) for each in found)
    )


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
    """Write what git says of a session, if the database does not know it or knows less."""
    try:
        known = tx.find(row.id)
    except FleetError:  # a damaged row
        tx.connection.execute(sa.delete(tx.session).where(tx.session.c.id == row.id))
        known = None
    told = {"state": row.state, "gate": row.gate, "choices": words(row.choices), "epoch": row.epoch}
    if known is None:
        values = as_mapping(row) | told | {"job": 0, "lease_until": 0, "due_at": 0, "worker": ""}
        values["retry"] = int(row.retry)
        values["created_at"] = row.created_at or now_ms()
        tx.connection.execute(sa.insert(tx.session).values(values | {"changed_at": now_ms()}))
        written = tx.get(row.id)
    elif known.epoch < row.epoch and not _held(tx, known):
        written = tx.change(known, worker="", lease_until=0, due_at=0, **told)
    else:
        return False
    if row.state in (State.QUEUED, State.RUNNING) or (
        row.state is State.WAITING and _has_answer(tx, row)
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
    now = tx.connection.execute(sa.select(now_ms())).scalar_one()
    return row.state is State.RUNNING and row.lease_until >= now


def _has_answer(tx: Transaction, row: Row) -> bool:
    columns = tx.answer.c
    query = sa.select(columns.gate).where(
        columns.session == row.id, columns.gate == row.gate, ~columns.journaled
    )
    return tx.connection.execute(query).first() is not None
