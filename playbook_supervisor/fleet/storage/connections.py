"""Connections to the fleet's database, one dialect for both kinds, and their errors as ours.

Statements are written once, as for PostgreSQL, with parameters `:name`; a sequence stands for a
list in brackets. For SQLite they are adapted: a table of the schema `fleet` has `fleet_` before its
name, and nothing is locked, since one transaction writes at a time.

A call ends after about ten seconds, whatever the server or the network does: an agent whose lease
cannot be renewed has to end before the lease does.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

from playbook_supervisor.errors import FleetError, StateError
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.installation import command_for

NOW = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
"""The database's clock, in ms since the epoch, in a statement."""

_NOW_OF_FILE = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
_LOCKS = r"\s+FOR UPDATE(?: OF \w+)?(?: SKIP LOCKED)?"
_PARAMETER = r"(?<![:\w]):([a-z]\w*)"

_WHOLE = 10.0  # seconds for a transaction
_BUSY = 5.0  # seconds that a file may be locked by another process, or all connections be in use
_UNKNOWN = ("42P01", "42703", "3F000")
"""No such table, column or schema."""
_UNKNOWN_TEXT = ("no such table", "no such column", "has no column")

Values = Mapping[str, Any]
Result = TypeVar("Result")


class _Deadline(threading.local):
    until = float("inf")


_deadline = _Deadline()


class Connection:
    """A connection that one thread uses at a time. Errors are the driver's own."""

    def __init__(self, driver: Any, *, server: bool) -> None:
        self.driver, self.server = driver, server
        self.used = self.committing = False

    def all(self, statement: str, /, **values: Any) -> list[Values]:
        found: list[Values] = self._executed(statement, values).fetchall()
        return found

    def one(self, statement: str, /, **values: Any) -> Values | None:
        found: Values | None = self._executed(statement, values).fetchone()
        return found

    def run(self, statement: str, /, **values: Any) -> int:
        """Carry out a statement; the number of rows that it changed."""
        return int(self._executed(statement, values).rowcount)

    def _executed(self, statement: str, values: dict[str, Any]) -> Any:
        lists = {name: len(value) for name, value in values.items() if _is_list(value)}
        for name in lists:
            values |= {f"{name}_{number}": each for number, each in enumerate(values.pop(name))}
        adapted = _adapted(statement, tuple(sorted(lists.items())), server=self.server)
        return self.driver.execute(adapted, values)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


@lru_cache(512)
def _adapted(statement: str, lists: tuple[tuple[str, int], ...], *, server: bool) -> str:
    for name, number in lists:
        members = ", ".join(f":{name}_{each}" for each in range(number)) or "NULL"
        statement = re.sub(rf"(?<![:\w]):{name}\b", f"({members})", statement)
    if server:
        return re.sub(_PARAMETER, r"%(\1)s", statement)
    statement = re.sub(_LOCKS, "", statement.replace(NOW, _NOW_OF_FILE))
    return re.sub(r"\bfleet\.", "fleet_", statement)


class Connections:
    """The connections of a process: at most `most` at once, of which one is kept."""

    def __init__(self, address: Address, most: int) -> None:
        self.address = address
        self.most = most
        self._idle: list[Connection] = []
        self._turn = threading.Condition()
        self._in_use = 0
        self._closed = False

    def carry_out(self, work: Callable[[Connection], Result], *, single: bool = False) -> Result:
        """The result of `work` in a transaction, or, if it is a single statement, without one.

        It is repeated if the connection had died before, such as with a restart of the server.
        FleetError as `translated`.
        """
        with _limited(), translated(self.address):
            while True:
                held = self._got()
                reused, held.used, held.committing = held.used, True, False
                try:
                    return work(held) if single else _in_transaction(held, work)
                except Exception:
                    dead = _is_closed(held) and not held.driver.silent
                    if held.committing or not (reused and dead):
                        raise
                finally:
                    self._give_back(held)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            idle, self._idle = self._idle, []
        for held in idle:
            held.driver.close()

    def _got(self) -> Connection:
        with self._turn:
            if not self._turn.wait_for(lambda: self._in_use < self.most, timeout=_BUSY):
                raise FleetError(
                    "PB-FLEET-DATABASE", "all connections are in use", where=self.address.shown
                )
            self._in_use += 1
            if self._idle:
                return self._idle.pop()
        try:
            return connect(self.address)
        except BaseException:
            self._leave()
            raise

    def _give_back(self, held: Connection) -> None:
        with self._turn:
            keep = not (self._idle or self._closed or _is_closed(held))
            if keep:
                self._idle.append(held)
        if not keep:
            held.driver.close()
        self._leave()

    def _leave(self) -> None:
        with self._turn:
            self._in_use -= 1
            self._turn.notify()


def _in_transaction(held: Connection, work: Callable[[Connection], Result]) -> Result:
    held.run("BEGIN" if held.server else "BEGIN IMMEDIATE")
    try:
        result = work(held)
        held.committing = True
        held.run("COMMIT")
    except BaseException:
        with suppress(Exception):  # a server that has gone does it by itself
            held.run("ROLLBACK")
        raise
    return result


def connect(address: Address, *, bounded: bool = True) -> Connection:
    """A new connection. StateError PB-STATE-NO-EXTRA without the package for a server.

    Unless it is `bounded`, statements may take any time.
    """
    if address.file is not None:
        return Connection(_file(address), server=False)
    try:
        # slow to import, and not installed without the extra
        from playbook_supervisor.fleet.storage import postgres
    except ImportError as error:
        raise StateError(
            "PB-STATE-NO-EXTRA",
            f"a PostgreSQL database needs a further package: {error.name or 'psycopg'} is missing",
            guidance=f"Install it: {command_for('fleet')}",
        ) from error
    if not bounded:
        return Connection(postgres.unbounded(address), server=True)
    return Connection(postgres.connect(address, lambda: _deadline.until), server=True)


def _file(address: Address) -> sqlite3.Connection:
    assert address.file is not None  # noqa: S101 - the caller has looked
    opened = sqlite3.connect(
        f"{address.file.as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY,
        isolation_level=None,
        check_same_thread=False,
    )
    opened.row_factory = _mapping
    return opened


def _mapping(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Values:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _is_closed(held: Connection) -> bool:
    return held.server and bool(held.driver.closed)


# ── time and errors ─────────────────────────────────────────────────────────────────────────


@contextmanager
def _limited() -> Iterator[None]:
    """Let this thread wait for the database no longer than a transaction may last."""
    outer = _deadline.until
    _deadline.until = min(outer, time.monotonic() + _WHOLE)
    try:
        yield
    finally:
        _deadline.until = outer


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Errors of the database as FleetError PB-FLEET-DATABASE or PB-FLEET-NOT-UP."""
    try:
        yield
    except _drivers_errors() as error:
        raise failure(address, error) from error


def _drivers_errors() -> tuple[type[Exception], ...]:
    used = sys.modules.get("psycopg")  # imported with the first connection to a server
    return (sqlite3.Error, *([used.Error] if used is not None else []))


def failure(address: Address, error: Exception) -> FleetError:
    """The error for one of the database. It has no password and no parameters of statements."""
    state = getattr(error, "sqlstate", None)
    text = first_line(str(error), 400) or type(error).__name__
    for secret in address.secrets:
        text = text.replace(secret, "…")
    if state in _UNKNOWN or (state is None and any(part in text for part in _UNKNOWN_TEXT)):
        return not_up(address, "is not set up for this version of playbook", text)
    return FleetError(
        "PB-FLEET-DATABASE",
        "the fleet's database cannot be used",
        where=address.shown,
        cause=text,
    )


def not_up(address: Address, what: str, cause: str = "") -> FleetError:
    """PB-FLEET-NOT-UP: the database is there, but not ready."""
    return FleetError(
        "PB-FLEET-NOT-UP", f"the fleet's database {what}", where=address.shown, cause=cause
    )
