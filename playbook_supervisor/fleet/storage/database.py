"""The fleet's database: who may drive which session, what people answered, and the queue.

Git has the sessions themselves. A method that fails with PB-FLEET-DATABASE may or may not have been
carried out. It may be called again, with the same arguments: what was done is not done twice.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from playbook_supervisor.fleet.storage import tables, taking, transactions
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.fleet.storage.connections import Connections
from playbook_supervisor.fleet.storage.rows import OPEN, Row
from playbook_supervisor.fleet.storage.transactions import Transaction

_MOST = 4  # connections of a process that is no worker
P = ParamSpec("P")
Result = TypeVar("Result")


def _method(
    work: Callable[Concatenate[Transaction, P], Result], *, single: bool = False
) -> Callable[Concatenate[FleetDatabase, P], Result]:
    """A method that carries this out in a transaction, or as a single statement without one."""

    @wraps(work)
    def method(self: FleetDatabase, /, *args: P.args, **options: P.kwargs) -> Result:
        return self._run(lambda tx: work(tx, *args, **options), single=single)

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
        self._connections = Connections(address, _MOST)

    @classmethod
    def open(cls, address: Address) -> FleetDatabase:
        """Connect. FleetError PB-FLEET-NOT-UP without its tables or with older ones,
        PB-FLEET-NEWER with newer ones; StateError PB-STATE-NO-EXTRA if a package is missing."""
        database = cls(address)
        try:
            tables.require_file(address)
            role = database._run(lambda tx: tables.role(tx.connection, address), single=True)
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
        self._connections.close()

    def serve(self, slots: int) -> None:
        """Have a connection for each slot of a worker from now on, and one to spare."""
        self._connections.most = slots + 1

    submit = _method(transactions.submit)
    stamp = _method(transactions.stamp, single=True)
    now = _method(transactions.clock, single=True)
    old = _method(transactions.old, single=True)
    prune = _method(transactions.prune)

    take_next = _method(taking.take_next)
    keep = _method(taking.keep, single=True)
    due = _method(taking.due, single=True)
    take = _method(transactions.take, single=True)
    renew = _method(transactions.renew, single=True)
    lift_epoch = _method(transactions.lift_epoch, single=True)
    settled = _method(transactions.settled, single=True)
    wait = _method(transactions.wait)
    finish = _method(transactions.finish)
    put_off = _method(transactions.put_off)
    stick = _method(transactions.stick)
    need = _method(transactions.need)

    answer = _method(transactions.answer)
    answer_due = _method(transactions.answer_due, single=True)
    journaled = _method(transactions.journaled, single=True)
    refuse_answer = _method(transactions.refuse_answer)
    cancel = _method(transactions.cancel)
    retry = _method(transactions.retry)
    limits = _method(taking.limits, single=True)
    limit = _method(taking.limit)

    def row(self, session_id: str) -> Row | None:
        """The row of a session. StateError PB-STATE-NO-SESSION if that is no id."""
        return self._run(lambda tx: tx.find(session_id, lock=False), single=True)

    def rows(self, *, open_only: bool = False) -> list[Row]:
        """All rows, oldest first; `notices` says which could not be read."""
        condition = "state IN :open" if open_only else "true"
        found, bad = self._run(lambda tx: tx.select(condition, open=OPEN), single=True)
        self.notices = tuple(bad)
        return found

    def restore(self, rows: Iterable[Row]) -> int:
        """Write what the repositories say: unknown sessions, and those of which the database knows
        a lower epoch. Unfinished ones are queued. The number of sessions that were written."""
        return sum(self._run(lambda tx, row=row: transactions.restore(tx, row)) for row in rows)  # type: ignore[misc]

    def _run(self, work: Callable[[Transaction], Result], *, single: bool = False) -> Result:
        return self._connections.carry_out(
            lambda held: work(Transaction(held, self.address.shown, self.role)), single=single
        )


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
