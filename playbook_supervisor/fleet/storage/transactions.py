"""A transaction of the fleet, and those on one session: who drives it, and what people decide.

A lease is given back in four ways: the session waits, has ended, was put off, or is stuck. Each may
be called again when it is not known whether it was carried out: the row remembers the epoch of the
last lease that was given back.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from playbook_supervisor.errors import FleetError, GitError, StateError
from playbook_supervisor.fleet.storage.rows import (
    ENDED,
    OPEN,
    Lease,
    NewSession,
    Renewal,
    Row,
    State,
    StoredAnswer,
    to_row,
)
from playbook_supervisor.fleet.storage.tables import Tables, now_ms
from playbook_supervisor.formats.sanitize import first_line, one_line, printable
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.files.manifest import valid_id

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.dbos_queue import DbosQueue

_SAID = 500  # characters
_LONGEST = 20_000  # characters of an answer
_MOST_FAILURES = 20
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 600.0  # seconds
_JITTER = 0.25
_FOR_A_NEWER = 30.0  # seconds until a session is offered to workers again


class Transaction:
    """A connection in a transaction, with the tables and the queue whose jobs share it."""

    def __init__(
        self,
        connection: sa.Connection,
        tables: Tables,
        queue: Callable[[], DbosQueue],
        shown: str,
        role: str,
    ) -> None:
        self.connection = connection
        self.session, self.answer = tables.session, tables.answer
        self.tables, self.role = tables, role
        self._queue, self._shown = queue, shown

    # ── rows ────────────────────────────────────────────────────────────────────────────────

    def find(self, session_id: str, *, lock: bool = True) -> Row | None:
        """The row of a session, locked until the end unless it is only read.

        StateError PB-STATE-NO-SESSION if it is no id, FleetError PB-FLEET-DATABASE for a bad row.
        """
        query = sa.select(*self.tables.row).where(self.session.c.id == valid_id(session_id))
        found = self.connection.execute(query.with_for_update() if lock else query).mappings()
        data = found.one_or_none()
        return None if data is None else self._row(data)

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

    def select(self, *conditions: Any) -> tuple[list[Row], list[str]]:
        """The rows in the order of their creation, and what is wrong with those left out."""
        query = sa.select(*self.tables.row).where(*conditions)
        query = query.order_by(self.session.c.created_at, self.session.c.id)
        rows, bad = [], []
        for data in self.connection.execute(query).mappings():
            try:
                rows.append(to_row(data))
            except ValueError as error:
                name = first_line(str(data["id"]), 20)
                bad.append(f"the row of session {name} is damaged ({error}), and left out")
        return rows, bad

    def update(self, session_id: str, *conditions: Any, **values: Any) -> Row | None:
        """Change the row if the conditions hold; the new row, None if they do not."""
        query = (
            sa.update(self.session)
            .where(self.session.c.id == valid_id(session_id), *conditions)
            .values(changed_at=now_ms(), **values)
            .returning(*self.tables.row)
        )
        data = self.connection.execute(query).mappings().one_or_none()
        return None if data is None else self._row(data)

    def change(self, row: Row, **values: Any) -> Row:
        """Change a row that `find` or `get` has locked."""
        changed = self.update(row.id, **values)
        assert changed is not None  # noqa: S101 - it is locked
        return changed

    def let_go(self, row: Row, *, due_at: Any = 0, **values: Any) -> Row:
        """Change such a row, which no worker holds from now on."""
        return self.change(row, worker="", lease_until=0, due_at=due_at, **values)

    def ours(self, lease: Lease) -> Row | None:
        """The locked row if no one has taken a newer lease."""
        row = self.find(lease.session)
        return row if row is not None and row.epoch == lease.epoch else None

    def _row(self, data: Mapping[Any, Any]) -> Row:
        try:
            return to_row(data)
        except ValueError as error:
            raise FleetError(
                "PB-FLEET-DATABASE",
                f"a row of the fleet's database is damaged: {error}",
                where=self._shown,
                guidance="`playbook fleet rebuild` writes it again from the repository.",
            ) from None

    def answer_to(self, session_id: str, gate: str, *conditions: Any) -> sa.RowMapping | None:
        """The answer to that gate, if there is one and the conditions hold."""
        columns = self.answer.c
        query = sa.select(self.answer).where(
            columns.session == session_id, columns.gate == gate, *conditions
        )
        return self.connection.execute(query).mappings().one_or_none()

    def unjournaled(self, session_id: str, gate: str) -> sa.RowMapping | None:
        """The answer to that gate that no worker has journaled."""
        return self.answer_to(session_id, gate, ~self.answer.c.journaled)

    # ── jobs ────────────────────────────────────────────────────────────────────────────────

    def queue(self, row: Row, **values: Any) -> Row:
        """Queue the session with its next job, whose former jobs no longer count."""
        queued = self.let_go(row, state=State.QUEUED, job=row.job + 1, **values)
        self.put(queued)
        return queued

    def put(self, row: Row) -> None:
        """Put the job of that number, unless it is there."""
        self._queue().put(self.connection, row)


def clock(tx: Transaction) -> int:
    """The database's clock, in ms since the epoch."""
    return int(tx.connection.execute(sa.select(now_ms())).scalar_one())


def words(texts: Sequence[str]) -> str:
    """Choices as they are stored."""
    return json.dumps(list(texts))


def _sentence(text: str) -> str:
    """A text as it is stored: one line without control characters."""
    return one_line(text, _SAID)


# ── leases ──────────────────────────────────────────────────────────────────────────────────


def take(tx: Transaction, session_id: str, job: int, worker: str, seconds: float) -> Lease | None:
    """Take the lease with the next epoch. None if it is held, if the job is not the session's
    newest, or if the session neither is queued nor has a lease that lapsed.

    After an unknown result, call it no more: the lease may be there, and lapses.
    """
    columns = tx.session.c
    free = sa.or_(
        columns.state == State.QUEUED,
        sa.and_(columns.state == State.RUNNING, columns.lease_until < now_ms()),
    )
    row = tx.update(
        session_id,
        columns.job == job,
        free,
        state=State.RUNNING,
        epoch=columns.epoch + 1,
        deaths=columns.deaths + sa.case((columns.state == State.RUNNING, 1), else_=0),
        worker=worker,
        lease_until=now_ms() + round(seconds * 1000),
        due_at=0,
    )
    return None if row is None else Lease(session_id, row.epoch, worker, row)


def renew(tx: Transaction, lease: Lease, seconds: float) -> Renewal | None:
    """Let the lease last that long from now. None if it has lapsed or another has it."""
    columns = tx.session.c
    query = (
        sa.update(tx.session)
        .where(
            columns.id == lease.session,
            columns.epoch == lease.epoch,
            columns.worker == lease.worker,
            columns.state == State.RUNNING,
            columns.lease_until >= now_ms(),
        )
        .values(lease_until=now_ms() + round(seconds * 1000))
        .returning(columns.cancel, columns.cancel_by)
    )
    found = tx.connection.execute(query).one_or_none()
    return None if found is None else Renewal(_sentence(str(found[0])), _sentence(str(found[1])))


def lift_epoch(tx: Transaction, lease: Lease, epoch: int) -> Lease | None:
    """The lease with a higher epoch, as the repository knows one. None if another has it."""
    row = tx.update(
        lease.session,
        tx.session.c.epoch == lease.epoch,
        tx.session.c.worker == lease.worker,
        tx.session.c.state == State.RUNNING,
        epoch=max(epoch, lease.epoch),
    )
    return None if row is None else Lease(lease.session, row.epoch, lease.worker, row)


def settled(tx: Transaction, lease: Lease) -> None:
    """A step has settled: what ended the workers before was another one."""
    tx.update(lease.session, tx.session.c.epoch == lease.epoch, deaths=0)


def wait(tx: Transaction, lease: Lease, gate: str, choices: Sequence[str], said: str = "") -> bool:
    """The session waits at a gate, and the lease is given back.

    False if another worker has taken the session. A lease that only lapsed is given back all the
    same: the repository has accepted the push. A cancellation that came meanwhile, or an answer
    that is not journaled, gives the session its next job at once.
    """
    given = {
        "gate": gate,
        "choices": words(choices),
        "said": _sentence(said),
        "error": "",
        "failures": 0,
        "retry": 0,
        "released": lease.epoch,
    }

    def write(row: Row) -> None:
        if row.cancel or tx.unjournaled(lease.session, gate):
            tx.queue(row, **given)
        else:
            tx.let_go(row, state=State.WAITING, **given)

    return _give_back(tx, lease, write)


def finish(tx: Transaction, lease: Lease, state: State) -> bool:
    """The session has ended; if it is completed, those after it get their jobs. As `wait`."""
    if state not in ENDED:
        raise ValueError(f"{state} is no end")
    told = {"gate": "", "choices": "[]", "failures": 0, "retry": 0, "released": lease.epoch}
    if state is not State.FAILED:
        told |= {"error": "", "said": ""}

    def write(row: Row) -> None:
        tx.let_go(row, state=state, **told)
        if state is State.COMPLETED:
            _queue_followers(tx, row)

    return _give_back(tx, lease, write)


def put_off(
    tx: Transaction,
    lease: Lease,
    code: str,
    said: str,
    *,
    seconds: float | None = None,
    progressed: bool = False,
) -> State | None:
    """Give the session its next job after a pause that doubles with each failure, and stop at the
    twentieth; with `seconds`, after those, and it counts as no failure.

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
    if failures >= _MOST_FAILURES:
        return _stick(tx, row, told)
    _later(tx, row.id, _pause(failures) if seconds is None else seconds, **told)
    return State.QUEUED


def stick(tx: Transaction, lease: Lease, code: str, said: str) -> bool:
    """The session is stuck until a person mends it, or aborted if it was cancelled. As `wait`."""
    told = {"error": code, "said": _sentence(said), "released": lease.epoch}
    return _give_back(tx, lease, lambda row: _stick(tx, row, told))


def need(tx: Transaction, lease: Lease, version: str) -> bool:
    """Leave the session to workers of that version; it is offered again later. As `wait`."""
    told = {"needs": version, "released": lease.epoch}
    return _give_back(tx, lease, lambda row: _later(tx, row.id, _FOR_A_NEWER, **told))


def _pause(failures: int) -> float:
    """Seconds until the next attempt, after that many failures in a row."""
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


def _queue_followers(tx: Transaction, row: Row) -> None:
    columns = tx.session.c
    followers, _ = tx.select(
        columns.after == row.id, columns.state == State.QUEUED, columns.job == 0
    )
    for follower in followers:
        locked = tx.get(follower.id)
        if locked.job == 0 and locked.state is State.QUEUED:
            tx.queue(locked)


def _later(tx: Transaction, session_id: str, seconds: float, **told: object) -> None:
    """The next job, now or when a sweep finds it due. The queue would count such a pause with the
    clocks of the workers, which may differ by hours."""
    row = tx.get(session_id)
    if seconds <= 0:
        tx.queue(row, **told)
        return
    due = now_ms() + round(seconds * 1000)
    values = {"job": row.job + 1, "worker": "", "lease_until": 0, "due_at": due}
    tx.change(row, state=State.QUEUED, **values, **told)


# ── people ──────────────────────────────────────────────────────────────────────────────────


def submit(tx: Transaction, new: NewSession) -> None:
    """Store a session with its job; after an unfinished session, without one.

    FleetError PB-FLEET-TAKEN if another session has the id, GitError PB-GIT-TAKEN if an open one
    has the branch, StateError PB-STATE-NO-SESSION if it is to come after an unknown one. The ref of
    the session was created before, so that another with the same id is one of another repository.
    """
    values = {name: value for name, value in as_mapping(new).items() if name != "id"}
    ready = not new.after or tx.get(new.after).state is State.COMPLETED
    insert = _insert(tx, tx.session).values(
        id=valid_id(new.id),
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
    columns = tx.answer.c
    insert = _insert(tx, tx.answer).values(
        session=session_id,
        gate=gate,
        text=printable(text, keep_newlines=True)[:_LONGEST],
        by=_sentence(by),
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


def answer_due(tx: Transaction, lease: Lease) -> StoredAnswer | None:
    """The answer that the holder of the lease must journal first."""
    row = tx.ours(lease)
    found = None if row is None else tx.unjournaled(lease.session, row.gate)
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
    tx.connection.execute(
        sa.update(tx.answer)
        .where(tx.answer.c.session == lease.session, tx.answer.c.gate == gate)
        .values(journaled=True)
    )


def refuse_answer(tx: Transaction, lease: Lease, gate: str) -> None:
    """Forget an answer that the session does not accept, so that another can be given."""
    if tx.ours(lease) is not None:
        tx.connection.execute(
            sa.delete(tx.answer).where(
                tx.answer.c.session == lease.session,
                tx.answer.c.gate == gate,
                ~tx.answer.c.journaled,
            )
        )


def cancel(tx: Transaction, session_id: str, text: str, by: str) -> Row:
    """Ask for the end of a session; without a worker or a job it gets a job for that."""
    row = _unfinished(tx.get(session_id), "cancelled", failed=False)
    asked = {"cancel": _sentence(text) or "cancelled", "cancel_by": _sentence(by)}
    if row.state is State.RUNNING or (row.state is State.QUEUED and row.job and not row.due_at):
        return tx.change(row, **asked)
    return tx.queue(row, **asked)


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
