"""Rows as a whole: whether they have changed, writing them again from git, removing old ones."""

from __future__ import annotations

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.storage.connections import NOW
from playbook_supervisor.fleet.storage.rows import ENDED, OPEN, Row, State
from playbook_supervisor.fleet.storage.transactions import Transaction, clock, words
from playbook_supervisor.records import as_mapping


def stamp(tx: Transaction) -> tuple[int, ...]:
    """Numbers that differ after every change of the rows but the renewal of a lease."""
    found = tx.connection.one(
        """SELECT count(*) AS number, sum(CASE WHEN state = 'running' THEN 1 ELSE 0 END) AS at_work,
        sum(CASE WHEN state = 'queued' THEN 1 ELSE 0 END) AS queued,
        sum(length(cancel)) AS cancels, sum(epoch) AS epochs, sum(released) AS released,
        sum(failures) AS failures, sum(due_at) AS due,
        max(CASE WHEN state = 'running' THEN 0 ELSE changed_at END) AS changed FROM fleet.session"""
    )
    return tuple(int(each or 0) for each in (found or {}).values())


def restore(tx: Transaction, row: Row) -> bool:
    """Write what git says of a session, if the database does not know it or knows a lower epoch."""
    try:
        known = tx.find(row.id)
    except FleetError:  # a damaged row
        tx.connection.run("DELETE FROM fleet.session WHERE id = :id", id=row.id)
        known = None
    ready = row.state in (State.QUEUED, State.RUNNING) or (
        row.state is State.WAITING and tx.unjournaled(row.id, row.gate) is not None
    )
    told = {"gate": row.gate, "choices": words(row.choices), "epoch": row.epoch}
    told |= {"released": row.epoch, "state": State.QUEUED if ready else row.state}
    if known is None:
        _insert(tx, row)
        tx.update(row.id, told)
    elif known.epoch < row.epoch and not _held(tx, known):
        tx.let_go(known, **told)
    else:
        return False
    return True


def old(tx: Transaction, before: int) -> list[Row]:
    """The ended sessions that have not changed since then and that no open one comes after."""
    found, _ = tx.select(
        """state IN :ended AND changed_at < :before AND id NOT IN (
        SELECT "after" FROM fleet.session WHERE state IN :open AND "after" <> '')""",
        ended=ENDED,
        open=OPEN,
        before=before,
    )
    return found


def prune(tx: Transaction, before: int) -> list[str]:
    """Remove the rows and answers of `old` sessions; their ids."""
    ids = [row.id for row in old(tx, before)]
    if ids:
        tx.connection.run("DELETE FROM fleet.session WHERE id IN :ids", ids=ids)
        tx.connection.run("DELETE FROM fleet.answer WHERE session IN :ids", ids=ids)
    return ids


def _insert(tx: Transaction, row: Row) -> None:
    kept = {"id", "repository", "branch", "playbook", "feature", "pool", "priority"}
    values = {name: value for name, value in as_mapping(row).items() if name in kept}
    tx.connection.run(
        f"""INSERT INTO fleet.session ({", ".join(values)}, state, created_at, changed_at, since)
        VALUES ({", ".join(f":{name}" for name in values)}, 'queued', :created_at, {NOW}, {NOW})""",
        **values,
        created_at=row.created_at or clock(tx),
    )


def _held(tx: Transaction, row: Row) -> bool:
    return row.state is State.RUNNING and row.lease_until >= clock(tx)
