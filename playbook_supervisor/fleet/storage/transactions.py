"""A transaction of the fleet, and those on one session: who drives it, and what people decide.

A lease is given back in four ways: the session waits, has ended, was put off, or is stuck. Each may
be called again when it is not known whether it was carried out: the row remembers the epoch of the
last lease that was given back.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from playbook_supervisor.errors import FleetError, GitError, StateError
from playbook_supervisor.fleet.storage.connections import NOW, Connection, Values
from playbook_supervisor.fleet.storage.rows import (
    ENDED,
    OPEN,
    Lease,
    NewSession,
    Row,
    State,
    StoredAnswer,
    to_row,
)
from playbook_supervisor.fleet.storage.tables import COLUMNS
from playbook_supervisor.formats.sanitize import first_line, one_line, printable
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.files.manifest import valid_id

_SAID = 500  # characters
_LONGEST = 20_000  # characters of an answer
_MOST_FAILURES = {"PB-FLEET-REFUSED": 5}
_FAILURES = 20  # of any other kind
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 600.0  # seconds
_JITTER = 0.25
_FOR_A_NEWER = 30.0  # seconds until a session is offered to workers again
_NAMED = 5  # damaged rows that are named


class Sql(str):
    """A value that is an expression, and no parameter."""

    __slots__ = ()


_NOW = Sql(NOW)


class Transaction:
    """A connection in a transaction. `role` is the database's name for who asks."""

    def __init__(self, connection: Connection, shown: str, role: str) -> None:
        self.connection, self.role = connection, role
        self._shown = shown

    def find(self, session_id: str, *, lock: bool = True) -> Row | None:
        """The row of a session, locked until the end unless it is only read.

        StateError PB-STATE-NO-SESSION if it is no id, FleetError PB-FLEET-DATABASE for a bad row.
        """
        query = f"SELECT {COLUMNS} FROM fleet.session WHERE id = :id"
        data = self.connection.one(query + " FOR UPDATE" * lock, id=valid_id(session_id))
        return None if data is None else self.row(data)

    def get(self, session_id: str) -> Row:
        """The row, locked. As `find`; StateError PB-STATE-NO-SESSION if there is none."""
        row = self.find(session_id)
        if row is None:
            raise StateError(
                "PB-STATE-NO-SESSION",
                f"the fleet has no session {session_id}",
                guidance="`playbook fleet status` lists the sessions.",
            )
        return row

    def select(self, condition: str, **values: Any) -> tuple[list[Row], list[str]]:
        """The rows in the order of their creation, and what is wrong with those left out."""
        query = f"SELECT {COLUMNS} FROM fleet.session WHERE {condition} ORDER BY created_at, id"
        rows, bad = [], []
        for data in self.connection.all(query, **values):
            try:
                rows.append(to_row(data))
            except ValueError as error:
                name = first_line(str(data["id"]), 20)
                bad.append(f"the row of session {name} is damaged ({error}), and left out")
        more = len(bad) - _NAMED
        return rows, [*bad[:_NAMED], *([f"{more} more damaged rows are left out"] * (more > 0))]

    def update(
        self, session_id: str, changes: Mapping[str, object], condition: str = "", **values: Any
    ) -> Row | None:
        """Change the row if the condition, with its `values`, holds; the new row, else None."""
        changes = {"changed_at": _NOW, **changes}
        written = ", ".join(
            f'"{name}" = {each if isinstance(each, Sql) else f":new_{name}"}'
            for name, each in changes.items()
        )
        query = f"UPDATE fleet.session SET {written} WHERE id = :id"
        query += f" AND ({condition})" if condition else ""
        values |= {f"new_{name}": each for name, each in changes.items() if type(each) is not Sql}
        query += f" RETURNING {COLUMNS}"
        data = self.connection.one(query, id=valid_id(session_id), **values)
        return None if data is None else self.row(data)

    def change(self, row: Row, **changes: object) -> Row:
        """Change a row that `find` or `get` has locked."""
        changed = self.update(row.id, changes)
        assert changed is not None  # noqa: S101 - it is locked
        return changed

    def let_go(self, row: Row, **changes: object) -> Row:
        """Change such a row, which no worker holds from now on."""
        free = {"worker": "", "lease_until": 0, "due_at": 0, "since": _NOW}
        return self.change(row, **free | changes)

    def queue(self, row: Row, **changes: object) -> Row:
        return self.let_go(row, state=State.QUEUED, **changes)

    def ours(self, lease: Lease) -> Row | None:
        row = self.find(lease.session)
        return row if row is not None and row.epoch == lease.epoch else None

    def row(self, data: Values) -> Row:
        """The row of that data. FleetError PB-FLEET-DATABASE if nothing of ours has written it."""
        try:
            return to_row(data)
        except ValueError as error:
            raise FleetError(
                "PB-FLEET-DATABASE",
                f"a row of the fleet's database is damaged: {error}",
                where=self._shown,
                guidance="`playbook fleet rebuild` writes it again from the repository.",
            ) from None

    def answer_to(self, session_id: str, gate: str, condition: str = "true") -> Values | None:
        """The answer to that gate, if there is one and the condition holds."""
        query = "SELECT * FROM fleet.answer WHERE session = :session AND gate = :gate AND "
        return self.connection.one(query + condition, session=session_id, gate=gate)

    def unjournaled(self, session_id: str, gate: str) -> Values | None:
        return self.answer_to(session_id, gate, "NOT journaled")


def clock(tx: Transaction) -> int:
    """The database's clock, in ms since the epoch."""
    found = tx.connection.one(f"SELECT {NOW} AS now")
    assert found is not None  # noqa: S101 - there always is a row
    return int(found["now"])


def words(texts: Sequence[str]) -> str:
    """Choices as they are stored."""
    return json.dumps(list(texts))


def _sentence(text: str) -> str:
    return one_line(text, _SAID)


def after(seconds: float) -> Sql:
    """The time so many seconds from now."""
    return Sql(f"{NOW} + {round(seconds * 1000):d}")


# ── leases ──────────────────────────────────────────────────────────────────────────────────

LAPSED = f"(state = 'running' AND lease_until < {NOW})"


def take(tx: Transaction, session_id: str, worker: str, seconds: float) -> Lease | None:
    """Take the lease with the next epoch. None if it is held, or the session waits or has ended.

    After an unknown result, call it no more: the lease may be there, and lapses.
    """
    changes = {
        "state": State.RUNNING,
        "epoch": Sql("epoch + 1"),
        "deaths": Sql("CASE WHEN state = 'running' THEN deaths + 1 ELSE deaths END"),
        "worker": worker,
        "lease_until": after(seconds),
        "due_at": 0,
        "since": _NOW,
    }
    row = tx.update(session_id, changes, f"state = 'queued' OR {LAPSED}")
    return None if row is None else Lease(session_id, row.epoch, worker, row)


def renew(tx: Transaction, lease: Lease, seconds: float) -> tuple[str, str] | None:
    """Let the lease last that long from now. None if it has lapsed or another has it.

    The result has the words and the author of a cancellation, or empty texts.
    """
    found = tx.connection.one(
        f"""UPDATE fleet.session SET lease_until = {after(seconds)}
        WHERE id = :id AND epoch = :epoch AND worker = :worker AND state = 'running'
            AND lease_until >= {NOW} RETURNING cancel, cancel_by""",
        id=lease.session,
        epoch=lease.epoch,
        worker=lease.worker,
    )
    if found is None:
        return None
    return _sentence(str(found["cancel"])), _sentence(str(found["cancel_by"]))


def lift_epoch(tx: Transaction, lease: Lease, epoch: int) -> Lease | None:
    """The lease with a higher epoch, as the repository knows one. None if another has it."""
    row = tx.update(
        lease.session,
        {"epoch": max(epoch, lease.epoch)},
        "epoch = :former AND worker = :worker AND state = 'running'",
        former=lease.epoch,
        worker=lease.worker,
    )
    return None if row is None else Lease(lease.session, row.epoch, lease.worker, row)


def settled(tx: Transaction, lease: Lease) -> None:
    """A step has settled: what ended the workers before was another one."""
    tx.update(lease.session, {"deaths": 0}, "epoch = :epoch", epoch=lease.epoch)


def wait(tx: Transaction, lease: Lease, gate: str, choices: Sequence[str], said: str = "") -> bool:
    """The session waits at a gate, and the lease is given back.

    False if another worker has taken the session. A lease that only lapsed is given back all the
    same: the repository has accepted the push. A cancellation that came meanwhile, or an answer
    that is not journaled, queues the session at once.
    """
    given = {
        "gate": gate,
        "choices": words(choices),
        "said": _sentence(said),
        "error": "",
        "failures": 0,
        "deaths": 0,
        "retry": 0,
        "released": lease.epoch,
    }

    def write(row: Row) -> None:
        ready = row.cancel or tx.unjournaled(lease.session, gate)
        tx.let_go(row, state=State.QUEUED if ready else State.WAITING, **given)

    return _give_back(tx, lease, write)


def finish(tx: Transaction, lease: Lease, state: State) -> bool:
    """The session has ended; if it is completed, those after it can be taken. As `wait`."""
    if state not in ENDED:
        raise ValueError(f"{state} is no end")
    told: dict[str, object] = {"gate": "", "choices": "[]", "released": lease.epoch}
    told |= {"failures": 0, "deaths": 0, "retry": 0}
    if state is not State.FAILED:
        told |= {"error": "", "said": ""}
    return _give_back(tx, lease, lambda row: tx.let_go(row, state=state, **told))


def put_off(
    tx: Transaction,
    lease: Lease,
    code: str,
    said: str,
    *,
    seconds: float | None = None,
    progressed: bool = False,
) -> State | None:
    """Queue the session after a pause that doubles with each failure, and stop at the twentieth, or
    the fifth time that its repository refuses; with `seconds`, after those, and it counts as no
    failure.

    Those before it do not count if the session has `progressed` since. The new state: queued,
    stuck, or aborted if it was cancelled; None if another worker has taken the session.
    """
    row = tx.ours(lease)
    if row is None:
        return None
    if row.released == lease.epoch:
        return row.state
    failures = (0 if progressed else row.failures) + (seconds is None)
    told = {"error": code, "said": _sentence(said), "failures": failures, "released": lease.epoch}
    again = code == row.error  # an outage before a refusal does not count against it
    if failures >= (_MOST_FAILURES.get(code, _FAILURES) if again else _FAILURES):
        return _stick(tx, row, told)
    soon = row.cancel and code in _MOST_FAILURES  # nothing is to be done any more
    pause = _pause(1 if soon else failures) if seconds is None else seconds
    tx.queue(row, **told, **({"due_at": after(pause)} if pause > 0 else {}))
    return State.QUEUED


def stick(tx: Transaction, lease: Lease, code: str, said: str) -> bool:
    """The session is stuck until a person mends it, or aborted if it was cancelled. As `wait`."""
    told = {"error": code, "said": _sentence(said), "released": lease.epoch}
    return _give_back(tx, lease, lambda row: _stick(tx, row, told))


def need(tx: Transaction, lease: Lease, version: str) -> bool:
    """Leave the session to workers of that version; it is offered again later. As `wait`."""
    told = {"needs": version, "released": lease.epoch, "due_at": after(_FOR_A_NEWER)}
    return _give_back(tx, lease, lambda row: tx.queue(row, **told))


def _pause(failures: int) -> float:
    base = min(_FIRST_PAUSE * 2.0 ** (failures - 1), _LONGEST_PAUSE)
    return base * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret


def _give_back(tx: Transaction, lease: Lease, write: Callable[[Row], object]) -> bool:
    row = tx.ours(lease)
    if row is not None and row.released != lease.epoch:
        write(row)
    return row is not None


def _stick(tx: Transaction, row: Row, told: Mapping[str, object]) -> State:
    state = State.ABORTED if row.cancel else State.STUCK
    tx.let_go(row, state=state, **told)
    return state


# ── people ──────────────────────────────────────────────────────────────────────────────────


def submit(tx: Transaction, new: NewSession) -> None:
    """Store a session, which is queued; one after another waits until that is completed.

    FleetError PB-FLEET-TAKEN if another session has the id, GitError PB-GIT-TAKEN if an open one
    has the branch, StateError PB-STATE-NO-SESSION if it is to come after an unknown one. The ref of
    the session was created before, so that another with the same id is one of another repository.
    """
    valid_id(new.id)
    if new.after:
        tx.get(new.after)
    names = ", ".join(f'"{name}"' for name in as_mapping(new))
    values = ", ".join(f":{name}" for name in as_mapping(new))
    done = tx.connection.run(
        f"""INSERT INTO fleet.session ({names}, state, created_at, changed_at, since)
        VALUES ({values}, 'queued', {NOW}, {NOW}, {NOW}) ON CONFLICT DO NOTHING""",
        **as_mapping(new),
    )
    if not done:
        row = tx.get(new.id)
        if (row.repository, row.branch) != (new.repository, new.branch):
            raise FleetError(
                "PB-FLEET-TAKEN", f"the fleet has another session {new.id}", where=new.repository
            )
        return
    _require_free(tx, new)


def _require_free(tx: Transaction, new: NewSession) -> None:
    """GitError PB-GIT-TAKEN if another open session works on the branch; one asks at a time."""
    if tx.connection.server:
        key = f"{new.repository} {new.branch}"
        tx.connection.run("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))", key=key)
    other = tx.connection.one(
        """SELECT id FROM fleet.session WHERE repository = :repository AND branch = :branch
        AND state IN :open AND id <> :id""",
        repository=new.repository,
        branch=new.branch,
        open=OPEN,
        id=new.id,
    )
    if other is not None:
        message = f"session {first_line(str(other['id']))} works on the branch "
        raise GitError("PB-GIT-TAKEN", message + first_line(new.branch), where=new.repository)


def answer(tx: Transaction, session_id: str, gate: str, text: str, by: str, via: str = "") -> Row:
    """Store the answer to the gate at which the session waits, and queue the session.

    Of several answers the first counts. `via` is where the person gave it: `inbox`, or nothing for
    a terminal. FleetError PB-FLEET-ANSWERED, StateError PB-STATE-NO-GATE.
    """
    row = tx.get(session_id)
    if row.state is not State.WAITING or row.gate != gate:
        if tx.answer_to(session_id, gate) is not None:
            raise _second(session_id, gate)
        raise StateError(
            "PB-STATE-NO-GATE",
            f"session {session_id} does not wait at gate {first_line(gate, 60)}",
            guidance="`playbook fleet status` shows what the sessions wait for.",
        )
    where = {"session": session_id, "gate": gate}
    # A gate that is open again although its answer was journaled takes another one.
    tx.connection.run(
        "DELETE FROM fleet.answer WHERE session = :session AND gate = :gate AND journaled", **where
    )
    stored = tx.connection.run(
        f"""INSERT INTO fleet.answer (session, gate, text, "by", at, role, via)
        VALUES (:session, :gate, :text, :by, {NOW}, :role, :via) ON CONFLICT DO NOTHING""",
        **where,
        text=printable(text, keep_newlines=True)[:_LONGEST],
        by=_sentence(by),
        role=tx.role,
        via=first_line(via, 20),
    )
    if not stored:
        raise _second(session_id, gate)
    return tx.queue(row)


def answer_due(tx: Transaction, lease: Lease) -> StoredAnswer | None:
    """The answer that the holder of the lease must journal first."""
    row = tx.find(lease.session, lock=False)
    ours = row is not None and row.epoch == lease.epoch
    found = tx.unjournaled(lease.session, row.gate) if row is not None and ours else None
    if found is None:
        return None
    return StoredAnswer(
        str(found["gate"]),
        printable(str(found["text"]), keep_newlines=True),
        first_line(str(found["by"])),
        found["at"] if type(found["at"]) is int else 0,
        first_line(str(found["role"])),
        first_line(str(found["via"]), 20),
    )


def journaled(tx: Transaction, lease: Lease, gate: str) -> None:
    """The answer is in the journal, and pushed."""
    tx.connection.run(
        "UPDATE fleet.answer SET journaled = true WHERE session = :session AND gate = :gate",
        session=lease.session,
        gate=gate,
    )


def refuse_answer(tx: Transaction, lease: Lease, gate: str) -> None:
    """Forget an answer that the session does not accept, so that another can be given."""
    if tx.ours(lease) is not None:
        tx.connection.run(
            """DELETE FROM fleet.answer
            WHERE session = :session AND gate = :gate AND NOT journaled""",
            session=lease.session,
            gate=gate,
        )


def cancel(tx: Transaction, session_id: str, text: str, by: str) -> Row:
    """Ask for the end of a session; without a worker it is queued for that. What it has waited for,
    and since when, stays in the row."""
    row = _unfinished(tx.get(session_id), "cancelled", failed=False)
    asked = {"cancel": _sentence(text) or "cancelled", "cancel_by": _sentence(by)}
    if row.state is State.RUNNING:
        return tx.change(row, **asked)
    return tx.change(row, state=State.QUEUED, due_at=0, **asked)


def retry(tx: Transaction, session_id: str) -> Row:
    """Queue a session that is stuck or has failed, or that was put off."""
    row = _unfinished(tx.get(session_id), "retried", failed=True)
    if row.state in (State.STUCK, State.FAILED):
        cleared = {
            "failures": 0,
            "deaths": 0,
            "error": "",
            "said": "",
            "cancel": "",
            "cancel_by": "",
        }
        return tx.queue(row, retry=1, **cleared)
    return tx.change(row, due_at=0) if row.state is State.QUEUED and row.due_at else row


def _unfinished(row: Row, what: str, *, failed: bool) -> Row:
    ended = (State.COMPLETED, State.ABORTED, *(() if failed else (State.FAILED,)))
    if row.state in ended:
        raise StateError(
            "PB-STATE-ENDED",
            f"session {row.id} is {row.state.value} and cannot be {what}",
            guidance="Submit a new session.",
        )
    return row


def _second(session_id: str, gate: str) -> FleetError:
    return FleetError(
        "PB-FLEET-ANSWERED",
        f"gate {first_line(gate, 60)} of session {session_id} was answered already",
    )


# ── rows as a whole ─────────────────────────────────────────────────────────────────────────


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
