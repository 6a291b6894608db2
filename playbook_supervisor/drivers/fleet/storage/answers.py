"""What people decide about sessions of the fleet: answers, cancellations, another attempt."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from playbook_supervisor.drivers.fleet.storage.rows import (
    OPEN,
    Lease,
    NewSession,
    Row,
    State,
    StoredAnswer,
)
from playbook_supervisor.drivers.fleet.storage.tables import now_ms
from playbook_supervisor.drivers.fleet.storage.transactions import Transaction, ours, sentence
from playbook_supervisor.errors import FleetError, GitError, StateError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.session_ids import valid

_LONGEST = 20_000  # characters of an answer


def submit(tx: Transaction, new: NewSession) -> None:
    """Store a session with its job; after an unfinished session, without one.

    FleetError PB-FLEET-TAKEN if another session has the id, GitError PB-GIT-TAKEN if an open one
    has the branch, StateError PB-STATE-NO-SESSION if it is to come after an unknown one. The ref of
    the session was created before, so that another with the same id is one of another repository.
    """
    values = {name: value for name, value in as_mapping(new).items() if name != "id"}
    ready = not new.after or tx.get(new.after).state is State.COMPLETED
    insert = _insert(tx, tx.session).values(
        id=valid(new.id),
        state=State.QUEUED,
        created_at=now_ms(),
        changed_at=now_ms(),
        **values,
    )
    done = tx.connection.execute(insert.on_conflict_do_nothing().returning(tx.session.c.id))
    if done.first() is None:
        row = tx.get(new.id)
        if (row.repository, row.branch) != (new.repository, new.branch):
            raise FleetError(
                "PB-FLEET-TAKEN", f"the fleet has another session {new.id}", where=new.repository
            )
        return
    _require_free(tx, new)
    if ready:
        tx.queue(tx.get(new.id))


def _require_free(tx: Transaction, new: NewSession) -> None:
    """GitError PB-GIT-TAKEN if another open session works on the branch; one asks at a time."""
    if tx.connection.dialect.name == "postgresql":
        key = sa.func.hashtextextended(f"{new.repository} {new.branch}", 0)
        tx.connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))
    columns = tx.session.c
    others = sa.select(columns.id).where(
        columns.repository == new.repository,
        columns.branch == new.branch,
        columns.state.in_(OPEN),
        columns.id != new.id,
    )
    if (other := tx.connection.execute(others).scalars().first()) is not None:
        message = f"session {first_line(str(other))} works on the branch {first_line(new.branch)}"
        raise GitError("PB-GIT-TAKEN", message, where=new.repository)


def answer(tx: Transaction, session_id: str, gate: str, text: str, by: str, via: str = "") -> Row:
    """Store the answer to the gate at which the session waits, and give it its next job.

    Of several answers the first counts. `via` is where the person gave it: `inbox`, or nothing for
    a terminal. FleetError PB-FLEET-ANSWERED if it was answered, StateError PB-STATE-NO-GATE if the
    session does not wait there, PB-STATE-NO-SESSION if there is none.
    """
    row = tx.get(session_id)
    if row.state is not State.WAITING or row.gate != gate:
        if _find(tx, session_id, gate) is not None:
            raise _second(session_id, gate)
        raise StateError(
            "PB-STATE-NO-GATE",
            f"session {session_id} does not wait at gate {first_line(gate, 60)}",
            guidance="`playbook status --fleet` shows what the sessions wait for.",
        )
    columns = tx.answer.c
    insert = _insert(tx, tx.answer).values(
        session=session_id,
        gate=gate,
        text=printable(text, keep_newlines=True)[:_LONGEST],
        by=sentence(by),
        at=now_ms(),
        role=tx.role,
        via=first_line(via, 20),
        journaled=False,
    )
    # A gate that is open again although its answer was journaled takes another one.
    new = {name: insert.excluded[name] for name in ("text", "by", "at", "role", "via", "journaled")}
    insert = insert.on_conflict_do_update(
        index_elements=[columns.session, columns.gate], set_=new, where=columns.journaled
    )
    if tx.connection.execute(insert.returning(columns.gate)).first() is None:
        raise _second(session_id, gate)
    return tx.queue(row)


def due(tx: Transaction, lease: Lease) -> StoredAnswer | None:
    """The answer that the holder of the lease must journal first."""
    row = ours(tx, lease)
    found = None if row is None else _find(tx, lease.session, row.gate)
    if found is None or found["journaled"]:
        return None
    return StoredAnswer(
        lease.session,
        str(found["gate"]),
        printable(str(found["text"]), keep_newlines=True),
        first_line(str(found["by"])),
        found["at"] if type(found["at"]) is int else 0,
        first_line(str(found["role"])),
        first_line(str(found["via"]), 20),
    )


def journaled(tx: Transaction, lease: Lease, gate: str) -> None:
    """The answer is in the journal, and pushed."""
    tx.connection.execute(
        sa.update(tx.answer)
        .where(tx.answer.c.session == lease.session, tx.answer.c.gate == gate)
        .values(journaled=True)
    )


def refuse(tx: Transaction, lease: Lease, gate: str) -> None:
    """Forget an answer that the session does not accept, so that another can be given."""
    if ours(tx, lease) is not None:
        tx.connection.execute(
            sa.delete(tx.answer).where(
                tx.answer.c.session == lease.session,
                tx.answer.c.gate == gate,
                ~tx.answer.c.journaled,
            )
        )


def cancel(tx: Transaction, session_id: str, text: str, by: str) -> Row:
    """Ask for the end of a session; without a worker or a job it gets a job for that.

    StateError PB-STATE-ENDED, PB-STATE-NO-SESSION.
    """
    row = _unfinished(tx.get(session_id), "cancelled", failed=False)
    asked = {"cancel": sentence(text) or "cancelled", "cancel_by": sentence(by)}
    if row.state is State.RUNNING or (row.state is State.QUEUED and row.job and not row.due_at):
        return tx.change(row, **asked)
    return tx.queue(row, **asked)


def retry(tx: Transaction, session_id: str) -> Row:
    """Queue a session that is stuck or has failed, or that was put off. As `cancel`."""
    row = _unfinished(tx.get(session_id), "retried", failed=True)
    if row.state in (State.STUCK, State.FAILED):
        cleared = {"failures": 0, "error": "", "said": "", "cancel": "", "cancel_by": ""}
        return tx.queue(row, retry=1, **cleared)
    if row.state is State.QUEUED and row.due_at:
        tx.put(row)
        return tx.change(row, due_at=0)
    return row


def _unfinished(row: Row, what: str, *, failed: bool) -> Row:
    ended = (State.COMPLETED, State.ABORTED, *(() if failed else (State.FAILED,)))
    if row.state in ended:
        raise StateError(
            "PB-STATE-ENDED",
            f"session {row.id} is {row.state.value} and cannot be {what}",
            guidance="Submit a new session.",
        )
    return row


def _find(tx: Transaction, session_id: str, gate: str) -> Any:
    query = sa.select(tx.answer).where(tx.answer.c.session == session_id, tx.answer.c.gate == gate)
    return tx.connection.execute(query).mappings().one_or_none()


def _second(session_id: str, gate: str) -> FleetError:
    return FleetError(
        "PB-FLEET-ANSWERED",
        f"gate {first_line(gate, 60)} of session {session_id} was answered already",
    )


def _insert(tx: Transaction, table: sa.Table) -> postgresql.Insert:
    """An `INSERT` that may say what happens to a row that is there: both dialects have it."""
    if tx.connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)  # type: ignore[return-value]
