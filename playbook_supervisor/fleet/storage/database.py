"""The fleet's database: who may drive which session, what people answered, and the queue.

Git has the sessions themselves. Rows and jobs are in one database, so that a row and its job are
written in one transaction.

A method that fails with PB-FLEET-DATABASE may or may not have been carried out. It may be called
again, with the same arguments: what was done is not done twice.

Importing this module without the packages of the extra is StateError PB-STATE-NO-EXTRA.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from playbook_supervisor.errors import FleetError, StateError
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.fleet.storage.rows import OPEN, Row, Swept
from playbook_supervisor.system.installation import command_for

try:
    from playbook_supervisor.fleet.storage import connections, tables, transactions, upkeep
    from playbook_supervisor.fleet.storage.transactions import Transaction
except ImportError as error:
    raise StateError(
        "PB-STATE-NO-EXTRA",
        f"the fleet needs further packages: {(error.name or 'one').partition('.')[0]} is missing",
        guidance=f"Install them: {command_for('fleet')}",
    ) from error

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.dbos_queue import DbosQueue

_BACKSTOP = 60.0  # seconds between two looks for lost jobs
P = ParamSpec("P")
Result = TypeVar("Result")


def _method(
    work: Callable[Concatenate[Transaction, P], Result], *, read: bool = False
) -> Callable[Concatenate[FleetDatabase, P], Result]:
    """A method that carries this out in a transaction."""

    @wraps(work)
    def method(self: FleetDatabase, /, *args: P.args, **options: P.kwargs) -> Result:
        return self._run(lambda tx: work(tx, *args, **options), read=read)

    return method


class FleetDatabase:
    """The database at an address, opened with `open`.

    Each method is one transaction, ends within about ten seconds, and may be called from any
    thread. Errors: FleetError PB-FLEET-DATABASE if the database cannot be used, and what the
    methods say. `role` is the database's name for who asks. `notices` says what the last `rows`
    has left out.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.role = ""
        self.notices: tuple[str, ...] = ()
        self._engine = connections.connect(address)
        self._tables = tables.of(self._engine)
        self._looked = float("-inf")

    @classmethod
    def open(cls, address: Address) -> FleetDatabase:
        """Connect. FleetError PB-FLEET-NOT-UP without its tables or with older ones,
        PB-FLEET-NEWER with newer ones."""
        database = cls(address)
        try:
            tables.require_file(address)
            role = database._run(lambda tx: tables.role(tx.connection, address), read=True)
        except BaseException:
            database.close()
            raise
        database.role = role or _user()
        return database

    migrate = staticmethod(tables.migrate)

    def __enter__(self) -> FleetDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    @cached_property
    def queue(self) -> DbosQueue:
        from playbook_supervisor.fleet.storage.dbos_queue import DbosQueue  # slow to import

        return DbosQueue(self._engine, self.address)

    submit = _method(transactions.submit)
    stamp = _method(upkeep.stamp, read=True)
    now = _method(transactions.clock, read=True)
    old = _method(upkeep.old, read=True)

    take = _method(transactions.take)
    renew = _method(transactions.renew)
    lift_epoch = _method(transactions.lift_epoch)
    settled = _method(transactions.settled)
    wait = _method(transactions.wait)
    finish = _method(transactions.finish)
    put_off = _method(transactions.put_off)
    stick = _method(transactions.stick)
    need = _method(transactions.need)

    answer = _method(transactions.answer)
    answer_due = _method(transactions.answer_due)
    journaled = _method(transactions.journaled)
    refuse_answer = _method(transactions.refuse_answer)
    cancel = _method(transactions.cancel)
    retry = _method(transactions.retry)

    def row(self, session_id: str) -> Row | None:
        """The row of a session. StateError PB-STATE-NO-SESSION if that is no id."""
        return self._run(lambda tx: tx.find(session_id, lock=False), read=True)

    def rows(self, *, open_only: bool = False) -> list[Row]:
        """All rows, oldest first; `notices` says which could not be read."""

        def select(tx: Transaction) -> tuple[list[Row], list[str]]:
            return tx.select(*([tx.session.c.state.in_(OPEN)] if open_only else []))

        found, bad = self._run(select, read=True)
        self.notices = tuple(bad)
        return found

    def sweep(self, lease_seconds: float) -> Swept:
        """Give jobs back to sessions whose lease lapsed, and to those put off until now.

        Call it every few seconds. Once a minute it also looks for sessions whose job was lost.
        """
        thorough = time.monotonic() - self._looked >= _BACKSTOP
        swept = upkeep.sweep(self._run, self.queue, lease_seconds, thorough=thorough)
        if thorough:
            self._looked = time.monotonic()
        return swept

    def restore(self, rows: Iterable[Row]) -> int:
        """Write what the repositories say: unknown sessions, and those of which the database knows
        a lower epoch. Unfinished ones get jobs. The number of sessions that were written."""
        return sum(self._run(lambda tx, row=row: upkeep.restore(tx, row)) for row in rows)  # type: ignore[misc]

    def prune(self, before_ms: int) -> list[str]:
        """Remove sessions that ended before that time of the database's clock, and their jobs."""
        old = self.old(before_ms)
        self.queue.cancel((row.id, number) for row in old for number in range(1, row.job + 1))
        return self._run(lambda tx: upkeep.remove(tx, [row.id for row in old]))

    # ────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, work: Callable[[Transaction], Result], *, read: bool = False) -> Result:
        """Carry out a transaction; once more if the pool's connection had died before."""
        for again in (True, False):
            committing = False
            try:
                with connections.transaction(self._engine, self.address, read=read) as held:
                    given = (lambda: self.queue), self.address.shown, self.role
                    result = work(Transaction(held, self._tables, *given))
                    committing = not read
            except FleetError as error:
                if not again or committing or not connections.dropped(error):
                    raise
            else:
                return result
        raise AssertionError("unreachable")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
