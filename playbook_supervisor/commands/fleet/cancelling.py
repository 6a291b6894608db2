"""`cancel` ends a session of the fleet, `fleet retry` lets workers try one again."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.commands.fleet import persons
from playbook_supervisor.commands.fleet.overview import find
from playbook_supervisor.drivers.fleet.database import FleetDatabase
from playbook_supervisor.drivers.fleet.storage.rows import ENDED, Row, State
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.vocabulary import Resolution


def cancel(
    database: FleetDatabase, session: str, words: str = "", *, cwd: Path | None = None
) -> Row:
    """Ask for the end of a session: a worker stops what runs, journals the abort and pushes it.

    StateError PB-STATE-NO-SESSION, PB-STATE-ENDED, PB-STATE-HUMAN-ONLY.
    """
    persons.require_person("cancel")
    row = find(database, session)
    if row.state in ENDED:
        raise _ended(row, "Nothing to do: it does not run any more.")
    return database.cancel(row.id, words or Resolution.ABORT.value, persons.name(cwd))


def retry(database: FleetDatabase, session: str) -> Row:
    """Queue a stuck or failed session again.

    StateError PB-STATE-NO-SESSION, PB-STATE-ENDED, PB-STATE-REFUSED, PB-STATE-HUMAN-ONLY.
    """
    persons.require_person("fleet retry")
    row = find(database, session)
    if row.state in (State.STUCK, State.FAILED):
        return database.retry(row.id)
    if row.state in ENDED:
        raise _ended(row, "Begin a new session: `playbook submit`.")
    raise StateError(
        "PB-STATE-REFUSED",
        f"session {row.id} is {row.state}: only a stuck or failed one can be tried again",
        guidance="`playbook status --fleet` shows what it waits for.",
    )


def retry_stuck(database: FleetDatabase) -> list[Row]:
    """Queue all stuck sessions again, such as after a remote was away for hours.

    StateError PB-STATE-HUMAN-ONLY.
    """
    persons.require_person("fleet retry")
    return [
        database.retry(row.id) for row in database.rows(open_only=True) if row.state is State.STUCK
    ]


def _ended(row: Row, guidance: str) -> StateError:
    return StateError("PB-STATE-ENDED", f"session {row.id} is {row.state}", guidance=guidance)
