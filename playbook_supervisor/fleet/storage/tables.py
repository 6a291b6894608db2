"""The tables, the version of the schema that a database has, and the way to ours."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.storage import connections
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.system.disk.files import ensure_folder, locked, write_atomically

VERSION = 1
"""The version of this schema. A database with a higher one needs a newer program."""

_LOCK = 0x706C6179  # of PostgreSQL, for all who migrate
_AGAIN = 0.2  # seconds
_BUSY = 30.0  # seconds that another process may lock the file
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


class now_ms(sa.sql.functions.FunctionElement[int]):  # noqa: N801 - it is used like a function
    """The database's clock, in ms since the epoch."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(now_ms, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(now_ms, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


class Tables:
    """The tables: in the schema `fleet`, or in SQLite with `fleet_` before their names."""

    def __init__(self, schema: str, prefix: str) -> None:
        self.schema = schema
        self.metadata = sa.MetaData(schema=schema or None)
        self.session = _sessions(self.metadata, prefix)
        self.answer = _answers(self.metadata, prefix)
        self.version = sa.Table(
            f"{prefix}version",
            self.metadata,
            sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        )
        self.row = [column for column in self.session.c if column.name != "looked_at"]
        """The columns of a `Row`."""


def _sessions(metadata: sa.MetaData, prefix: str) -> sa.Table:
    """`looked_at` is when a sweep last put the job back, so that only one of several does."""
    times = ("created_at", "changed_at", "due_at", "released", "looked_at", "retry", "deaths")
    return sa.Table(
        f"{prefix}session",
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        *(_text(name) for name in ("repository", "branch", "playbook", "feature", "pool")),
        sa.Column("state", sa.Text, nullable=False),
        _text("gate"),
        sa.Column("choices", sa.Text, nullable=False, server_default="[]"),
        *(_number(name) for name in ("priority", "job", "epoch")),
        _text("worker"),
        _number("lease_until"),
        *(_text(name) for name in ("cancel", "cancel_by", "needs")),
        _number("failures"),
        *(_text(name) for name in ("error", "said", "after", "submitted_by")),
        *(_number(name) for name in times),
        sa.Index(f"{prefix}session_state", "state"),
        sa.Index(f"{prefix}session_after", "after"),
    )


def _answers(metadata: sa.MetaData, prefix: str) -> sa.Table:
    return sa.Table(
        f"{prefix}answer",
        metadata,
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("gate", sa.Text, primary_key=True),
        *(_text(name) for name in ("text", "by", "role", "via")),
        _number("at"),
        sa.Column("journaled", sa.Boolean, nullable=False, server_default=sa.false()),
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default="")


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


_SERVER = Tables("fleet", "")
_FILE = Tables("", "fleet_")


def of(engine: sa.Engine | sa.Connection) -> Tables:
    """The tables of this kind of database."""
    return _SERVER if engine.dialect.name == "postgresql" else _FILE


# ── the version ─────────────────────────────────────────────────────────────────────────────


def role(connection: sa.Connection, address: Address) -> str:
    """The role of this connection; "" in a file.

    FleetError PB-FLEET-NOT-UP or PB-FLEET-NEWER if the schema is not the one of this program.
    """
    tables = of(connection)
    number = connection.execute(sa.select(sa.func.max(tables.version.c.number))).scalar()
    if not isinstance(number, int) or number < VERSION:
        raise connections.not_up(address, "has the tables of an older version of playbook")
    if number > VERSION:
        raise _newer(address)
    if not tables.schema:
        return ""
    return str(connection.execute(sa.text("SELECT current_user")).scalar_one())


def require_file(address: Address) -> None:
    """FleetError PB-FLEET-NOT-UP if the address is a file that does not exist."""
    if address.file is not None and not address.file.is_file():
        raise connections.not_up(address, "does not exist")


def _newer(address: Address) -> FleetError:
    return FleetError(
        "PB-FLEET-NEWER",
        "the fleet's database has the tables of a newer version of playbook",
        where=address.shown,
    )


def migrate(address: Address) -> None:
    """Create or update the tables and the queue; a file is created. Several at once do no harm."""
    from playbook_supervisor.fleet.storage.dbos_queue import DbosQueue  # slow to import

    _make_file(address)
    engine = connections.unbounded(address)
    try:
        with connections.translated(address), _alone(engine):
            if _version(engine) > VERSION:
                raise _newer(address)
            DbosQueue(engine, address).migrate()
            with engine.begin() as connection:
                _create(connection)
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
    found = of(engine)
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
        file.parent.chmod(_PRIVATE_FOLDER)
    with locked(file.with_name(f"{file.name}.lock")):
        if not file.exists():
            write_atomically(file, b"", permissions=_PRIVATE_FILE)
    try:
        with closing(sqlite3.connect(file, timeout=_BUSY)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise connections.failure(address, error) from error


# The role beside an answer is the server's word, whatever the client sends.
_ROLE = (
    "CREATE OR REPLACE FUNCTION fleet.own_role() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    'IF TG_OP = \'INSERT\' OR NEW.text <> OLD.text OR NEW."by" <> OLD."by" '
    "THEN NEW.role = current_user; ELSE NEW.role = OLD.role; END IF; RETURN NEW; END $$",
    "CREATE OR REPLACE TRIGGER own_role BEFORE INSERT OR UPDATE ON fleet.answer "
    "FOR EACH ROW EXECUTE FUNCTION fleet.own_role()",
)


def _create(connection: sa.Connection) -> None:
    """Create what is missing, in the caller's transaction."""
    tables = of(connection)
    if tables.schema:
        connection.execute(sa.schema.CreateSchema(tables.schema, if_not_exists=True))
    tables.metadata.create_all(connection)
    for statement in _ROLE if tables.schema else ():
        connection.exec_driver_sql(statement)
    connection.execute(sa.delete(tables.version))
    connection.execute(sa.insert(tables.version).values(number=VERSION))
