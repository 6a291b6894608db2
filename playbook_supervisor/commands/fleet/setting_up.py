"""`fleet up` and `fleet migrate`: a database that the fleet can use."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.commands.fleet import opening
from playbook_supervisor.drivers.fleet.database import FleetDatabase
from playbook_supervisor.errors import FleetError
from playbook_supervisor.records import Record


class Place(Record):
    """A database that is ready. `made`: its tables were made, or changed to this version's."""

    address: str
    made: bool


def up(cwd: Path | None = None) -> Place:
    """Make the SQLite database of this machine, or check that the server's can be used.

    FleetError PB-FLEET-NOT-UP if a server's database has no tables yet, PB-FLEET-NEWER,
    PB-FLEET-DATABASE; StateError PB-STATE-NO-EXTRA.
    """
    place = opening.address(cwd)
    if not place.shared:
        return migrate(cwd)
    try:
        FleetDatabase.open(place).close()
    except FleetError as error:
        if error.code != "PB-FLEET-NOT-UP":
            raise
        raise FleetError(
            error.code,
            error.message,
            where=error.source,
            guidance="`playbook fleet migrate` makes its tables; the role must own the database.",
            cause=error.cause,
        ) from error
    return Place(place.shown, made=False)


def migrate(cwd: Path | None = None) -> Place:
    """Make the tables, or change them to this version's. Errors as `up`."""
    place = opening.address(cwd)
    try:
        FleetDatabase.open(place).close()
    except FleetError as error:
        if error.code != "PB-FLEET-NOT-UP":
            raise
    else:
        return Place(place.shown, made=False)
    FleetDatabase.migrate(place)
    FleetDatabase.open(place).close()
    return Place(place.shown, made=True)
