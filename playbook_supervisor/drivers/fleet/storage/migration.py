"""The version of the schema: what a database has, what this program needs, and the way there."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import sqlalchemy as sa

from playbook_supervisor.drivers.fleet.address import Address
from playbook_supervisor.drivers.fleet.storage import connections, tables
from playbook_supervisor.drivers.fleet.storage.transactions import Transaction
from playbook_supervisor.errors import FleetError
from playbook_supervisor.system.files import ensure_folder, write_atomically
from playbook_supervisor.system.locks import locked

_LOCK = 0x706C6179  # of PostgreSQL, for all who migrate
_AGAIN = 0.2  # seconds
_BUSY = 30.0  # seconds that another process may lock the file
_FILE, _FOLDER = 0o600, 0o700


def current(tx: Transaction) -> tuple[int, str]:
    """The version of the schema, and the role of this connection; "" in a file."""
    number = tx.connection.execute(sa.select(sa.func.max(tx.tables.version.c.number))).scalar()
    role = ""
    if tx.tables.schema:
        role = str(tx.connection.execute(sa.text("SELECT current_user")).scalar_one())
    return (number if isinstance(number, int) else 0), role


def require(address: Address, number: int) -> None:
    """FleetError PB-FLEET-NOT-UP or PB-FLEET-NEWER if the schema is not the one of this program."""
    if number < tables.VERSION:
        raise connections.not_up(address, "has the tables of an older version of playbook")
    if number > tables.VERSION:
        raise newer(address)


def require_file(address: Address) -> None:
    """FleetError PB-FLEET-NOT-UP if the address is a file that does not exist."""
    if address.file is not None and not address.file.is_file():
        raise connections.not_up(address, "does not exist")


def newer(address: Address) -> FleetError:
    """The error for a schema that this program does not know."""
    return FleetError(
        "PB-FLEET-NEWER",
        "the fleet's database has the tables of a newer version of playbook",
        where=address.shown,
    )


def migrate(address: Address) -> None:
    """Create or update the tables and the queue; a file is created. Several at once do no harm.

    FleetError PB-FLEET-NEWER if they are newer than this program.
    """
    from playbook_supervisor.drivers.fleet.dbos_queue import DbosQueue

    _make_file(address)
    engine = connections.unbounded(address)
    try:
        with connections.translated(address), _alone(engine):
            if _version(engine) > tables.VERSION:
                raise newer(address)
            DbosQueue(engine, address).migrate()
            with engine.begin() as connection:
                tables.create(connection)
    finally:
        engine.dispose()


@contextmanager
def _alone(engine: sa.Engine) -> Iterator[None]:
    """Nothing else migrates at the same time. SQLite itself lets one write at a time."""
    if engine.dialect.name != "postgresql":
        yield
        return
    with engine.connect() as connection:
        held = connection.execution_options(isolation_level="AUTOCOMMIT")
        # A statement that waits would keep its snapshot, for which indexes are not built.
        while not held.execute(sa.select(sa.func.pg_try_advisory_lock(_LOCK))).scalar():
            time.sleep(_AGAIN)
        try:
            yield
        finally:
            held.execute(sa.select(sa.func.pg_advisory_unlock(_LOCK)))


def _version(engine: sa.Engine) -> int:
    found = tables.of(engine)
    if not sa.inspect(engine).has_table(found.version.name, schema=found.schema or None):
        return 0
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.max(found.version.c.number))).scalar() or 0


def _make_file(address: Address) -> None:
    file = address.file
    if file is None:
        return
    if not file.parent.exists():
        ensure_folder(file.parent)
        file.parent.chmod(_FOLDER)
    with locked(file.with_name(f"{file.name}.lock")):
        if not file.exists():
            write_atomically(file, b"", permissions=_FILE)
    try:
        with closing(sqlite3.connect(file, timeout=_BUSY)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise connections.failure(address, error) from error
