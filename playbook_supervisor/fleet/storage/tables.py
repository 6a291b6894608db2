"""The tables, the version of the schema that a database has, and the way to ours.

From one version to the next, columns and tables are only added, and each column has a default: a
program of the version before goes on with such a database, and one of this version accepts the next
(docs/decisions/0305-a-schema-grows-by-one-release.md).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.storage import connections
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.fleet.storage.connections import NOW, Connection
from playbook_supervisor.system.disk.files import ensure_folder, locked, write_atomically

VERSION = 2
"""The version of this schema. A database that is two versions ahead needs a newer program."""

_LOCK = 0x706C6179  # of PostgreSQL, for all who migrate
_AGAIN = 0.2  # seconds
_BUSY = 30.0  # seconds that another process may lock the file
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700

_TEXT, _NUMBER = "TEXT NOT NULL DEFAULT ''", "BIGINT NOT NULL DEFAULT 0"
_TABLES = {
    "version": {"number": "BIGINT PRIMARY KEY"},
    "session": {
        "id": "TEXT PRIMARY KEY",
        **dict.fromkeys(("repository", "branch", "playbook", "feature", "pool"), _TEXT),
        "state": "TEXT NOT NULL",
        "gate": _TEXT,
        "choices": "TEXT NOT NULL DEFAULT '[]'",
        "priority": _NUMBER,
        "epoch": _NUMBER,
        "worker": _TEXT,
        "lease_until": _NUMBER,
        **dict.fromkeys(("cancel", "cancel_by", "needs"), _TEXT),
        "failures": _NUMBER,
        **dict.fromkeys(("error", "said", "after", "submitted_by"), _TEXT),
        **dict.fromkeys(("created_at", "changed_at", "due_at", "released"), _NUMBER),
        **dict.fromkeys(("retry", "deaths", "since"), _NUMBER),
    },
    "answer": {
        **dict.fromkeys(("session", "gate"), "TEXT NOT NULL"),
        **dict.fromkeys(("text", "by", "role", "via"), _TEXT),
        "at": _NUMBER,
        "journaled": "BOOLEAN NOT NULL DEFAULT false",
    },
    "pool": {
        "name": "TEXT PRIMARY KEY",
        **dict.fromkeys(("in_all", "per_repository", "starts"), "BIGINT"),
        "seconds": "DOUBLE PRECISION",
    },
    "start": {"pool": _TEXT, "at": _NUMBER},
}
_KEYS = {"answer": ', PRIMARY KEY ("session", "gate")'}
_INDEXES = {"session_state": "session (state)", "session_after": 'session ("after")'}
COLUMNS = ", ".join(f'"{name}"' for name in _TABLES["session"])
"""The columns of a `Row`."""

# An answer is its writer's, for one gate: the server says by which role and when it was given, and
# lets only its journaling be marked afterwards. Programs of other versions have to keep to it, too.
_GIVEN = ("session", "gate", "text", "by", "role", "via", "at")
_GIVEN_NEW = ", ".join(f'NEW."{name}"' for name in _GIVEN)
_GIVEN_OLD = _GIVEN_NEW.replace("NEW", "OLD")
_OF_SERVER = (
    f"""CREATE OR REPLACE FUNCTION fleet.own_role() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.role = current_user; NEW.at = {NOW}; NEW.journaled = false;
    ELSIF NOT NEW.journaled OR ({_GIVEN_NEW}) IS DISTINCT FROM ({_GIVEN_OLD}) THEN
        RAISE EXCEPTION 'an answer is not changed after it was given';
    END IF;
    RETURN NEW; END $$""",
    """CREATE OR REPLACE TRIGGER own_role BEFORE INSERT OR UPDATE ON fleet.answer
    FOR EACH ROW EXECUTE FUNCTION fleet.own_role()""",
)
_OF_FILE = (
    f"""CREATE TRIGGER IF NOT EXISTS fleet_answer_stays BEFORE UPDATE ON fleet_answer
    WHEN NOT NEW.journaled OR ({_GIVEN_NEW}) IS NOT ({_GIVEN_OLD})
    BEGIN SELECT RAISE(ABORT, 'an answer is not changed after it was given'); END""",
)


# ── the version ─────────────────────────────────────────────────────────────────────────────


def role(connection: Connection, address: Address) -> str:
    """The role of this connection; "" in a file.

    FleetError PB-FLEET-NOT-UP or PB-FLEET-NEWER if this program cannot use the schema.
    """
    number = _number(connection)
    if number < VERSION:
        raise connections.not_up(address, "has the tables of an older version of playbook")
    if number > VERSION + 1:
        raise _newer(address)
    found = connection.one("SELECT current_user AS name") if connection.server else None
    return str(found["name"]) if found else ""


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
    """Create or update the tables; a file is created. Several at once do no harm."""
    _make_file(address)
    with connections.translated(address):
        connection = connections.connect(address, bounded=False)
        with closing(connection.driver), _alone(connection):
            former = _number(connection) if _columns(connection, "version") else 0
            if former > VERSION + 1:
                raise _newer(address)
            if former > VERSION:
                return
            connection.run("BEGIN" if connection.server else "BEGIN IMMEDIATE")
            _create(connection)
            connection.run("COMMIT")


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Nothing else migrates at the same time. SQLite itself lets one write at a time."""
    if not connection.server:
        yield
        return
    lock = "SELECT 1 AS it WHERE pg_try_advisory_lock(:lock)"
    while connection.one(lock, lock=_LOCK) is None:
        time.sleep(_AGAIN)
    try:
        yield
    finally:
        connection.run("SELECT pg_advisory_unlock(:lock)", lock=_LOCK)


def _number(connection: Connection) -> int:
    found = connection.one("SELECT max(number) AS number FROM fleet.version")
    number = found["number"] if found else 0
    return number if isinstance(number, int) else 0


def _columns(connection: Connection, table: str) -> set[str]:
    if connection.server:
        query = """SELECT column_name AS name FROM information_schema.columns
            WHERE table_schema = 'fleet' AND table_name = :name"""
    else:
        query, table = "SELECT name FROM pragma_table_info(:name)", f"fleet_{table}"
    return {str(found["name"]) for found in connection.all(query, name=table)}


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


def _create(connection: Connection) -> None:
    if connection.server:
        connection.run("CREATE SCHEMA IF NOT EXISTS fleet")
    for table, columns in _TABLES.items():
        known = _columns(connection, table)
        if not known:
            written = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            connection.run(f"CREATE TABLE fleet.{table} ({written}{_KEYS.get(table, '')})")
            continue
        for name in columns.keys() - known:
            connection.run(f'ALTER TABLE fleet.{table} ADD COLUMN "{name}" {columns[name]}')
    prefix = "" if connection.server else "fleet_"
    for name, what in _INDEXES.items():
        connection.run(f"CREATE INDEX IF NOT EXISTS {prefix}{name} ON fleet.{what}")
    for statement in _OF_SERVER if connection.server else _OF_FILE:
        connection.run(statement)
    connection.run("DELETE FROM fleet.version")
    connection.run("INSERT INTO fleet.version (number) VALUES (:number)", number=VERSION)
