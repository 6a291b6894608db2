"""Connections to the fleet's database, and its errors as ours.

A call ends after about ten seconds, whatever the server or the network does: an agent whose lease
cannot be renewed has to end before the lease does.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.formats.sanitize import first_line

_WHOLE = 10.0  # seconds for a transaction
_WAIT = 5.0  # seconds for one answer of the server
_STATEMENT = 4_500  # ms, then the server cancels a statement
_IDLE = 10_000  # ms, then the server ends a transaction whose client is frozen
_BUSY = 5.0  # seconds that a file may be locked by another process
_POOL: Any = {"pool_size": 4, "max_overflow": 28, "pool_timeout": _WAIT}

_SILENT = "the server does not answer"
_UNKNOWN = ("42P01", "42703", "3F000")
"""No such table, column or schema."""
_UNKNOWN_TEXT = ("no such table", "no such column", "has no column")

READ_ONLY = {"fleet_read": True}
"""An execution option: the transaction of SQLite takes no lock for writing."""


class _Deadline(threading.local):
    until = float("inf")


_deadline = _Deadline()


class _BoundedConnection(psycopg.Connection[Any]):
    """A connection that is given up when the server is silent for too long."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = min(time.monotonic() + _WAIT, _deadline.until)
        try:
            waiting = next(gen)
            while True:
                ready = yield waiting
                if time.monotonic() > until:
                    gen.close()
                    self.pgconn.finish()
                    raise psycopg.OperationalError(_SILENT)
                waiting = gen.send(ready)
        except StopIteration as end:
            return end.value


def connect(address: Address) -> sa.Engine:
    """An engine for the database; it connects when it is used."""
    return _to_file(address) if address.file is not None else _to_server(address)


def unbounded(address: Address) -> sa.Engine:
    """An engine without limits of time, for changes of the schema."""
    if address.file is not None:
        return _to_file(address)
    return sa.create_engine(_server_url(address), poolclass=sa.NullPool)


@contextmanager
def transaction(
    engine: sa.Engine, address: Address, *, read: bool = False
) -> Iterator[sa.Connection]:
    """A transaction, within the limits of time. FleetError as `translated`."""
    with limited(), translated(address), engine.connect() as connection:
        if read:
            connection.execution_options(**READ_ONLY)
        with connection.begin():
            yield connection


@contextmanager
def limited() -> Iterator[None]:
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
    except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        raise failure(address, error) from error


def dropped(error: FleetError) -> bool:
    """True if the connection had been closed, for instance by a restart of the server."""
    cause = error.__cause__
    closed = isinstance(cause, sa.exc.DBAPIError) and cause.connection_invalidated
    return closed and _SILENT not in error.cause and _deadline.until > time.monotonic()


def failure(address: Address, error: Exception) -> FleetError:
    """The error for one of the database. It has no password and no parameters of statements."""
    origin = getattr(error, "orig", None) or error
    state = getattr(origin, "sqlstate", None)
    text = first_line(str(origin), 400) or type(origin).__name__
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


# ── SQLite ──────────────────────────────────────────────────────────────────────────────────


def _to_file(address: Address) -> sa.Engine:
    file = address.file
    assert file is not None  # noqa: S101 - the caller has looked

    def connection() -> sqlite3.Connection:
        return sqlite3.connect(
            f"{file.as_uri()}?mode=rw",
            uri=True,
            timeout=_BUSY,
            isolation_level=None,
            check_same_thread=False,
        )

    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(file)),
        creator=connection,
        poolclass=sa.QueuePool,
        **_POOL,
    )
    sa.event.listen(engine, "connect", _prepare_file)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _prepare_file(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: sa.Connection) -> None:
    """Readers that will write must not see what another process is changing."""
    read = connection.get_execution_options().get("fleet_read")
    connection.exec_driver_sql("BEGIN" if read else "BEGIN IMMEDIATE")


# ── PostgreSQL ──────────────────────────────────────────────────────────────────────────────


def _server_url(address: Address) -> sa.URL:
    return sa.make_url(address.url).set(drivername="postgresql+psycopg")


def _to_server(address: Address) -> sa.Engine:
    url = _server_url(address)
    engine = sa.create_engine(url, connect_args=_parameters(url), pool_use_lifo=True, **_POOL)
    sa.event.listen(engine, "do_connect", _connect)
    return engine


def _connect(_: object, __: object, given: Any, options: Any) -> psycopg.Connection[Any]:
    return _BoundedConnection.connect(*given, **options)


def _parameters(url: sa.URL) -> dict[str, Any]:
    """The settings of a connection, over which its address goes."""
    settings = (
        f"-c statement_timeout={_STATEMENT}",
        f"-c idle_in_transaction_session_timeout={_IDLE}",
        str(url.query.get("options", "")),
    )
    defaults = {
        "application_name": "playbook",
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    kept = {name: value for name, value in defaults.items() if name not in url.query}
    return kept | {"options": " ".join(settings).strip()}
