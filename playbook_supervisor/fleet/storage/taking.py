"""The queue: which session a worker takes next, and when it should look again.

The table of sessions is the queue. A session can be taken if it is queued and due, what comes
before it is completed, and its pool's limits leave room; so can one whose lease has lapsed. The
highest priority goes first, then the repository with the fewest sessions at work, then the oldest.

A session whose workers have died is taken alone: should it end another one, no other session is
hit. A busy worker keeps it for itself, lets its own sessions end, and takes it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from playbook_supervisor.fleet.storage.connections import NOW
from playbook_supervisor.fleet.storage.rows import SUSPECT, Lease, Limits, Row, State, to_row
from playbook_supervisor.fleet.storage.tables import COLUMNS
from playbook_supervisor.fleet.storage.transactions import LAPSED, Sql, Transaction, after, take

_OFFERED = 10_000  # ms that a session is left to workers without others, before one keeps it
_READY = """("after" = '' OR cancel <> '' OR EXISTS (
    SELECT 1 FROM fleet.session f WHERE f.id = s."after" AND f.state = 'completed'))"""
_FREE = f"(s.state = 'queued' AND s.due_at <= {NOW} AND {_READY} OR {LAPSED})"
_AT_WORK = f"""SELECT {{by}}, count(*) AS number FROM fleet.session
    WHERE state = 'running' AND lease_until >= {NOW} GROUP BY {{by}}"""
_CANDIDATES = f"""
    FROM fleet.session s LEFT JOIN fleet.pool p ON p.name = s.pool
    LEFT JOIN ({_AT_WORK.format(by="pool")}) whole ON whole.pool = s.pool
    LEFT JOIN ({_AT_WORK.format(by="pool, repository")}) same
        ON same.pool = s.pool AND same.repository = s.repository
    WHERE s.pool IN :pools AND {_FREE}
        AND (p.in_all IS NULL OR COALESCE(whole.number, 0) < p.in_all)
        AND (p.per_repository IS NULL OR COALESCE(same.number, 0) < p.per_repository)
        AND (p.starts IS NULL OR p.starts > (SELECT count(*) FROM fleet.start began
            WHERE began.pool = s.pool AND began.at > {NOW} - p.seconds * 1000))"""
_MINE = f"(s.state = 'running' OR s.worker IN ('', :worker) OR s.lease_until < {NOW})"
_ALONE = f"(s.deaths + CASE WHEN s.state = 'running' THEN 1 ELSE 0 END >= {SUSPECT})"
_LEFT = f"(CASE WHEN s.state = 'running' THEN s.lease_until ELSE s.since END < {NOW} - {_OFFERED})"
_ORDER = """CASE WHEN s.state = 'queued' AND s.worker = :worker THEN 0 ELSE 1 END,
    s.priority DESC, COALESCE(same.number, 0), s.since, s.id"""
_COLUMNS = ", ".join(f"s.{name}" for name in COLUMNS.split(", "))


@dataclass(frozen=True, slots=True)
class Kept:
    """A session that a worker will take once it has no other."""

    session: str


def take_next(
    tx: Transaction, pools: Sequence[str], worker: str, seconds: float, *, busy: bool = False
) -> Lease | Kept | None:
    """Take the session that comes next; None if there is none.

    A `busy` worker, one that has others, keeps one that has to be taken alone, if it was left.
    """
    limited = tx.connection.all(  # locked, so that one counts at a time
        "SELECT name, starts FROM fleet.pool WHERE name IN :pools ORDER BY name FOR UPDATE",
        pools=pools,
    )
    if busy and (left := _first(tx, f"{_ALONE} AND {_LEFT}", pools, worker)):
        return Kept(left.id) if keep(tx, left.id, worker, seconds) else None
    found = _first(tx, f"NOT {_ALONE}" if busy else "true", pools, worker)
    if found is None:
        return None
    if any(pool["name"] == found.pool and pool["starts"] is not None for pool in limited):
        _note_start(tx, found.pool)
    return take(tx, found.id, worker, seconds)


def keep(tx: Transaction, session_id: str, worker: str, seconds: float) -> bool:
    """Keep a session for this worker for so many seconds from now; False if it cannot."""
    changes = {
        "state": State.QUEUED,
        "deaths": Sql("CASE WHEN state = 'running' THEN deaths + 1 ELSE deaths END"),
        "worker": worker,
        "lease_until": after(seconds),
    }
    free = f"state = 'queued' AND (worker IN ('', :worker) OR lease_until < {NOW}) OR {LAPSED}"
    return tx.update(session_id, changes, free, worker=worker) is not None


def due(tx: Transaction, pools: Sequence[str]) -> float | None:
    """Seconds until a session of these pools may be taken, by its state; None if none is queued or
    running, but for those that come after another one."""
    found = tx.connection.one(
        f"""SELECT min(CASE WHEN state = 'running' OR worker <> '' THEN lease_until ELSE due_at END)
        - {NOW} AS ms FROM fleet.session s
        WHERE pool IN :pools AND (state = 'running' OR state = 'queued' AND {_READY})""",
        pools=pools,
    )
    ms = found["ms"] if found else None
    return None if ms is None else max(0.0, float(ms) / 1000)


def limits(tx: Transaction, pool: str) -> Limits:
    """The limits of a pool, of which nothing has to be known."""
    found = tx.connection.one("SELECT * FROM fleet.pool WHERE name = :name", name=pool)
    if found is None:
        return Limits()
    rate = (found["starts"], found["seconds"]) if found["starts"] is not None else None
    return Limits(found["in_all"], found["per_repository"], rate)


def limit(tx: Transaction, pool: str, limits: Limits) -> None:
    """Give a pool these limits."""
    starts, seconds = limits.per_time or (None, None)
    tx.connection.run("DELETE FROM fleet.pool WHERE name = :name", name=pool)
    if limits != Limits():
        tx.connection.run(
            """INSERT INTO fleet.pool (name, in_all, per_repository, starts, seconds)
            VALUES (:name, :in_all, :per_repository, :starts, :seconds)""",
            name=pool,
            in_all=limits.in_all,
            per_repository=limits.per_repository,
            starts=starts,
            seconds=seconds,
        )


def _first(tx: Transaction, condition: str, pools: Sequence[str], worker: str) -> Row | None:
    """The first session that can be taken and meets the condition. A damaged row on the way is set
    aside: it would be the first one again."""
    query = f"SELECT {_COLUMNS} {_CANDIDATES} AND {_MINE} AND {condition} ORDER BY {_ORDER} LIMIT 1"
    query += " FOR UPDATE OF s SKIP LOCKED"
    while (data := tx.connection.one(query, pools=pools, worker=worker)) is not None:
        try:
            return to_row(data)
        except ValueError as error:
            tx.connection.run(
                """UPDATE fleet.session SET state = 'stuck', error = :code, said = :said
                WHERE id = :id""",
                id=data["id"],
                code="PB-FLEET-DATABASE",
                said=f"its row is damaged: {error}",
            )
    return None


def _note_start(tx: Transaction, pool: str) -> None:
    tx.connection.run(
        f"""DELETE FROM fleet.start WHERE pool = :pool AND at < {NOW} - 1000 *
        (SELECT seconds FROM fleet.pool WHERE name = :pool)""",
        pool=pool,
    )
    tx.connection.run(f"INSERT INTO fleet.start (pool, at) VALUES (:pool, {NOW})", pool=pool)
