"""The fleet's database: who may drive which session, what people answered, and the queue.

Git has the sessions themselves. Rows and jobs are in one database, so that a row and its job are
written in one transaction.

A method that fails with PB-FLEET-DATABASE may or may not have been carried out. It may be called
again, with the same arguments: what was done is not done twice.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TypeVar

from playbook_supervisor.drivers.fleet.address import Address
from playbook_supervisor.drivers.fleet.storage.rows import Counts as Counts
from playbook_supervisor.drivers.fleet.storage.rows import Lease as Lease
from playbook_supervisor.drivers.fleet.storage.rows import NewSession as NewSession
from playbook_supervisor.drivers.fleet.storage.rows import Renewal as Renewal
from playbook_supervisor.drivers.fleet.storage.rows import Row as Row
from playbook_supervisor.drivers.fleet.storage.rows import State as State
from playbook_supervisor.drivers.fleet.storage.rows import StoredAnswer as StoredAnswer
from playbook_supervisor.drivers.fleet.storage.rows import Swept as Swept
from playbook_supervisor.errors import FleetError, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.queue import Queue
    from playbook_supervisor.drivers.fleet.storage.transactions import Transaction

_BACKSTOP = 60.0  # seconds between two looks for lost jobs
_EXTRA = "pip install 'playbook-supervisor[fleet]'"
Result = TypeVar("Result")


class FleetDatabase:
    """The database at an address, opened with `open`.

    Each method is one transaction, ends within about ten seconds, and may be called from any
    thread. Errors: FleetError PB-FLEET-DATABASE if the database cannot be used, and what the
    methods say. `role` is the database's name for who asks. `notices` says what the last `rows`
    has left out.
    """

    def __init__(self, address: Address) -> None:
        """Use `open`."""
        connections, tables = _packages()
        self.address = address
        self.role = ""
        self.notices: tuple[str, ...] = ()
        self._connections = connections
        self._engine = connections.connect(address)
        self._tables = tables.of(self._engine)
        self._own_queue: Queue | None = None
        self._looked = float("-inf")

    @classmethod
    def open(cls, address: Address) -> FleetDatabase:
        """Connect. FleetError PB-FLEET-NOT-UP without its tables or with older ones,
        PB-FLEET-NEWER with newer ones; StateError PB-STATE-NO-EXTRA without the packages."""
        database = cls(address)
        try:
            database._check()
        except BaseException:
            database.close()
            raise
        return database

    @classmethod
    def migrate(cls, address: Address) -> None:
        """Create or update the tables; a file is created. Several at once do no harm.

        FleetError PB-FLEET-NEWER if they are newer than this program.
        """
        _packages()
        from playbook_supervisor.drivers.fleet.storage import migration

        migration.migrate(address)

    def __enter__(self) -> FleetDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @property
    def queue(self) -> Queue:
        """The queue in this database."""
        if self._own_queue is None:
            from playbook_supervisor.drivers.fleet.dbos_queue import DbosQueue

            self._own_queue = DbosQueue(self._engine, self.address)
        return self._own_queue

    # ── sessions ────────────────────────────────────────────────────────────────────────────

    def submit(self, new: NewSession) -> None:
        """Store a session with its job; after an unfinished session, without one.

        FleetError PB-FLEET-TAKEN if another session has the id, GitError PB-GIT-TAKEN if an open
        one has the branch, StateError PB-STATE-NO-SESSION if it is to come after an unknown one.
        """
        from playbook_supervisor.drivers.fleet.storage import answers

        self._run(lambda tx: answers.submit(tx, new))

    def row(self, session_id: str) -> Row | None:
        """The row of a session. StateError PB-STATE-NO-SESSION if that is no id."""
        return self._run(lambda tx: tx.find(session_id, lock=False), read=True)

    def rows(self, *, open_only: bool = False) -> list[Row]:
        """All rows, oldest first; `notices` says which could not be read."""
        from playbook_supervisor.drivers.fleet.storage import upkeep

        found, bad = self._run(lambda tx: upkeep.rows(tx, open_only=open_only), read=True)
        self.notices = tuple(bad)
        return found

    def counts(self) -> Counts:
        """How many sessions there are in each state."""
        from playbook_supervisor.drivers.fleet.storage import upkeep

        return self._run(upkeep.counts, read=True)

    def stamp(self) -> tuple[int, ...]:
        """Numbers that differ after every change of the rows but the renewal of a lease."""
        from playbook_supervisor.drivers.fleet.storage import upkeep

        return self._run(upkeep.stamp, read=True)

    def now(self) -> int:
        """The database's clock, in ms since the epoch."""
        from playbook_supervisor.drivers.fleet.storage.transactions import clock

        return self._run(clock, read=True)

    # ── leases ──────────────────────────────────────────────────────────────────────────────

    def take(self, session_id: str, job: int, worker: str, seconds: float) -> Lease | None:
        """Take the lease with the next epoch. None if it is held, if the job is not the session's
        newest, or if the session neither is queued nor has a lease that lapsed.

        After an unknown result, call it no more: the lease may be there, and lapses.
        """
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(lambda tx: leases.take(tx, session_id, job, worker, seconds))

    def renew(self, lease: Lease, seconds: float) -> Renewal | None:
        """Let the lease last that long from now. None if it has lapsed or another has it."""
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(lambda tx: leases.renew(tx, lease, seconds))

    def lift_epoch(self, lease: Lease, epoch: int) -> Lease | None:
        """The lease with a higher epoch, as the repository knows one. None if another has it."""
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(lambda tx: leases.lift(tx, lease, epoch))

    def wait(self, lease: Lease, gate: str, choices: Sequence[str], said: str = "") -> bool:
        """The session waits at a gate, and the lease is given back.

        False if another worker has taken the session. A lease that only lapsed is given back all
        the same: the repository has accepted the push. A cancellation that came meanwhile, or an
        answer that is not journaled, gives the session its next job at once.
        """
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(lambda tx: leases.wait(tx, lease, gate, tuple(choices), said))

    def finish(self, lease: Lease, state: State) -> bool:
        """The session has ended; if it is completed, those after it get their jobs. As `wait`."""
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(lambda tx: leases.finish(tx, lease, state))

    def put_off(
        self,
        lease: Lease,
        code: str,
        said: str,
        *,
        seconds: float | None = None,
        progressed: bool = False,
    ) -> State | None:
        """Give the session its next job after a pause that doubles with each failure, and stop at
        the twentieth; with `seconds`, after those, and it counts as no failure.

        Those before it do not count if the session has `progressed` since. The new state: queued,
        stuck, or aborted if it was cancelled; None if another worker has taken the session.
        """
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(
            lambda tx: leases.put_off(tx, lease, code, said, seconds, progressed=progressed)
        )

    def stick(self, lease: Lease, code: str, said: str) -> bool:
        """The session is stuck until a person mends something, or aborted if it was cancelled. As
        `wait`."""
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(lambda tx: leases.stick(tx, lease, code, said))

    def need(self, lease: Lease, version: str) -> bool:
        """Leave the session to workers of that version; it is offered again after a while. As
        `wait`."""
        from playbook_supervisor.drivers.fleet.storage import leases

        return self._run(lambda tx: leases.need(tx, lease, version))

    # ── people ──────────────────────────────────────────────────────────────────────────────

    def answer(self, session_id: str, gate: str, text: str, by: str, via: str = "") -> Row:
        """Store the answer to the gate at which the session waits, and give it its next job.

        `via` is where the person gave it: `inbox`, or nothing for a terminal.

        FleetError PB-FLEET-ANSWERED if it was answered, StateError PB-STATE-NO-GATE if the session
        does not wait there, PB-STATE-NO-SESSION if there is none.
        """
        from playbook_supervisor.drivers.fleet.storage import answers

        return self._run(lambda tx: answers.answer(tx, session_id, gate, text, by, self.role, via))

    def answer_due(self, lease: Lease) -> StoredAnswer | None:
        """The answer that the holder of the lease must journal first."""
        from playbook_supervisor.drivers.fleet.storage import answers

        return self._run(lambda tx: answers.due(tx, lease))

    def journaled(self, lease: Lease, gate: str) -> None:
        """The answer is in the journal, and pushed."""
        from playbook_supervisor.drivers.fleet.storage import answers

        self._run(lambda tx: answers.journaled(tx, lease, gate))

    def refuse_answer(self, lease: Lease, gate: str) -> None:
        """Forget an answer that the session does not accept, so that another can be given."""
        from playbook_supervisor.drivers.fleet.storage import answers

        self._run(lambda tx: answers.refuse(tx, lease, gate))

    def cancel(self, session_id: str, text: str, by: str) -> Row:
        """Ask for the end of a session; without a worker or a job it gets a job for that.

        StateError PB-STATE-ENDED, PB-STATE-NO-SESSION.
        """
        from playbook_supervisor.drivers.fleet.storage import answers

        return self._run(lambda tx: answers.cancel(tx, session_id, text, by))

    def retry(self, session_id: str) -> Row:
        """Queue a session that is stuck or has failed, or that was put off. As `cancel`."""
        from playbook_supervisor.drivers.fleet.storage import answers

        return self._run(lambda tx: answers.retry(tx, session_id))

    # ── upkeep ──────────────────────────────────────────────────────────────────────────────

    def sweep(self, lease_seconds: float) -> Swept:
        """Give jobs back to sessions whose lease lapsed, and to those put off until now.

        Call it every few seconds. Once a minute it also looks for sessions whose job was lost.
        """
        from playbook_supervisor.drivers.fleet.storage.sweep import sweep

        thorough = time.monotonic() - self._looked >= _BACKSTOP
        swept = sweep(self._run, self.queue, lease_seconds, thorough=thorough)
        if thorough:
            self._looked = time.monotonic()
        return swept

    def restore(self, rows: Iterable[Row]) -> int:
        """Write what the repositories say: unknown sessions, and those of which the database knows
        a lower epoch. Unfinished ones get jobs. The number of sessions that were written."""
        from playbook_supervisor.drivers.fleet.storage import upkeep

        return sum(self._run(lambda tx, row=row: upkeep.restore(tx, row)) for row in rows)  # type: ignore[misc]

    def prune(self, before_ms: int) -> list[str]:
        """Remove sessions that ended before that time of the database's clock, and their jobs."""
        from playbook_supervisor.drivers.fleet.storage import upkeep

        old = self._run(lambda tx: upkeep.old(tx, before_ms), read=True)
        self.queue.cancel((row.id, number) for row in old for number in range(1, row.job + 1))
        return self._run(lambda tx: upkeep.remove(tx, [row.id for row in old]))

    # ────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, work: Callable[[Transaction], Result], *, read: bool = False) -> Result:
        """Carry out a transaction; once more if the pool's connection had died before."""
        from playbook_supervisor.drivers.fleet.storage import transactions

        for again in (True, False):
            committing = False
            try:
                with self._connections.transaction(self._engine, self.address, read=read) as held:
                    tx = transactions.Transaction(
                        held, self._tables, self._get_queue, self.address.shown
                    )
                    result = work(tx)
                    committing = not read
            except FleetError as error:
                if not again or committing or not self._connections.dropped(error):
                    raise
            else:
                return result
        raise AssertionError("unreachable")

    def _get_queue(self) -> Queue:
        return self.queue

    def _check(self) -> None:
        from playbook_supervisor.drivers.fleet.storage import migration

        migration.require_file(self.address)
        number, role = self._run(migration.current, read=True)
        migration.require(self.address, number)
        self.role = role or _user()


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _packages() -> tuple[ModuleType, ModuleType]:
    """What uses the extra's packages. StateError PB-STATE-NO-EXTRA without them."""
    try:
        from playbook_supervisor.drivers.fleet.storage import connections, tables
    except ImportError as error:
        missing = (error.name or "one").partition(".")[0]
        raise StateError(
            "PB-STATE-NO-EXTRA",
            f"the fleet needs further packages: {missing} is missing",
            guidance=f"Install them: {_EXTRA}",
        ) from error
    return connections, tables
