"""The tables, the version of the schema, and how it is made."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

VERSION = 1
"""The version of this schema. A database with a higher one needs a newer program."""


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
    times = ("created_at", "changed_at", "due_at", "released", "looked_at", "retry")
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


# The role beside an answer is the server's word, whatever the client sends.
_ROLE = (
    "CREATE OR REPLACE FUNCTION fleet.own_role() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    'IF TG_OP = \'INSERT\' OR NEW.text <> OLD.text OR NEW."by" <> OLD."by" '
    "THEN NEW.role = current_user; ELSE NEW.role = OLD.role; END IF; RETURN NEW; END $$",
    "CREATE OR REPLACE TRIGGER own_role BEFORE INSERT OR UPDATE ON fleet.answer "
    "FOR EACH ROW EXECUTE FUNCTION fleet.own_role()",
)


def create(connection: sa.Connection) -> None:
    """Create what is missing, in the caller's transaction."""
    tables = of(connection)
    if tables.schema:
        connection.execute(sa.schema.CreateSchema(tables.schema, if_not_exists=True))
    tables.metadata.create_all(connection)
    for statement in _ROLE if tables.schema else ():
        connection.exec_driver_sql(statement)
    connection.execute(sa.delete(tables.version))
    connection.execute(sa.insert(tables.version).values(number=VERSION))
