"""Leases: who drives a session, and how a holder gives it back.

A lease is given back in four ways: the session waits, has ended, was put off, or is stuck. Each may
be called again when it is not known whether it was carried out: the row remembers the epoch of the
last lease that was given back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa

from playbook_supervisor.drivers.fleet.storage.rows import ENDED, Lease, Renewal, Row, State
from playbook_supervisor.drivers.fleet.storage.tables import now_ms
from playbook_supervisor.drivers.fleet.storage.transactions import (
    Transaction,
    answered,
    ours,
    sentence,
    words,
)

MOST_FAILURES = 20
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 600.0  # seconds
_JITTER = 0.25
_FOR_A_NEWER = 30.0  # seconds until a session is offered to workers again


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
        worker=worker,
        lease_until=now_ms() + round(seconds * 1000),
        due_at=0,
    )
    return None if row is None else Lease(session_id, row.epoch, worker, job, row)


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
    return None if found is None else Renewal(sentence(str(found[0])), sentence(str(found[1])))


def lift(tx: Transaction, lease: Lease, epoch: int) -> Lease | None:
    """The lease with a higher epoch, as the repository knows one. None if another has it."""
    row = tx.update(
        lease.session,
        tx.session.c.epoch == lease.epoch,
        tx.session.c.worker == lease.worker,
        tx.session.c.state == State.RUNNING,
        epoch=max(epoch, lease.epoch),
    )
    return None if row is None else Lease(lease.session, row.epoch, lease.worker, lease.job, row)


def wait(tx: Transaction, lease: Lease, gate: str, choices: Sequence[str], said: str = "") -> bool:
    """The session waits at a gate, and the lease is given back.

    False if another worker has taken the session. A lease that only lapsed is given back all the
    same: the repository has accepted the push. A cancellation that came meanwhile, or an answer
    that is not journaled, gives the session its next job at once.
    """
    row = ours(tx, lease)
    if row is None:
        return False
    if row.released == lease.epoch:
        return True
    given = {
        "gate": gate,
        "choices": words(choices),
        "said": sentence(said),
        "error": "",
        "failures": 0,
        "retry": 0,
        "released": lease.epoch,
    }
    if row.cancel or answered(tx, lease.session, gate):
        tx.queue(row, **given)
    else:
        tx.change(row, state=State.WAITING, worker="", lease_until=0, due_at=0, **given)
    return True


def finish(tx: Transaction, lease: Lease, state: State) -> bool:
    """The session has ended; if it is completed, those after it get their jobs. As `wait`."""
    row = ours(tx, lease)
    if row is None:
        return False
    if row.released == lease.epoch:
        return True
    if state not in ENDED:
        raise ValueError(f"{state} is no end")
    done = state is State.COMPLETED
    error = {"error": "", "said": ""} if done or state is State.ABORTED else {}
    tx.change(
        row,
        state=state,
        gate="",
        choices="[]",
        worker="",
        lease_until=0,
        due_at=0,
        failures=0,
        retry=0,
        released=lease.epoch,
        **error,
    )
    if done:
        followers, _ = tx.select(
            tx.session.c.after == row.id,
            tx.session.c.state == State.QUEUED,
            tx.session.c.job == 0,
        )
        for follower in followers:
            locked = tx.get(follower.id)
            if locked.job == 0 and locked.state is State.QUEUED:
                tx.queue(locked)
    return True


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
    row = ours(tx, lease)
    if row is None:
        return None
    if row.released == lease.epoch:
        return row.state
    failures = (0 if progressed else row.failures) + (seconds is None)
    told = {"error": code, "said": sentence(said), "failures": failures, "released": lease.epoch}
    if failures >= MOST_FAILURES:
        return _stick(tx, row, told)
    _later(tx, row.id, pause(failures) if seconds is None else seconds, **told)
    return State.QUEUED


def stick(tx: Transaction, lease: Lease, code: str, said: str) -> bool:
    """The session is stuck until a person mends something, or aborted if it was cancelled. As
    `wait`."""
    told = {"error": code, "said": sentence(said), "released": lease.epoch}
    return _give_back(tx, lease, lambda row: _stick(tx, row, told))


def need(tx: Transaction, lease: Lease, version: str) -> bool:
    """Leave the session to workers of that version; it is offered again after a while. As
    `wait`."""
    told = {"needs": version, "released": lease.epoch}
    return _give_back(tx, lease, lambda row: _later(tx, row.id, _FOR_A_NEWER, **told))


def pause(failures: int) -> float:
    """Seconds until the next attempt, after that many failures in a row."""
    base = min(_FIRST_PAUSE * 2.0 ** (failures - 1), _LONGEST_PAUSE)
    return base * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret


def _give_back(tx: Transaction, lease: Lease, write: Callable[[Row], object]) -> bool:
    row = ours(tx, lease)
    if row is not None and row.released != lease.epoch:
        write(row)
    return row is not None


def _stick(tx: Transaction, row: Row, told: Mapping[str, object]) -> State:
    state = State.ABORTED if row.cancel else State.STUCK
    tx.change(row, state=state, worker="", lease_until=0, due_at=0, **told)
    return state


def _later(tx: Transaction, session_id: str, seconds: float, **told: object) -> None:
    """The next job, now or when a sweep finds it due.

    The queue would count such a pause with the clocks of the workers, which may differ by hours.
    """
    row = tx.get(session_id)
    if seconds <= 0:
        tx.queue(row, **told)
        return
    due = now_ms() + round(seconds * 1000)
    values = {"job": row.job + 1, "worker": "", "lease_until": 0, "due_at": due}
    tx.change(row, state=State.QUEUED, **values, **told)
