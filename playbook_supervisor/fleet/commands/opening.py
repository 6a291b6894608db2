"""Which database the fleet has, and whether there is one, without importing what it needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import StateError
from playbook_supervisor.fleet.storage import address as addresses
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.project.settings import config
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.git import checkout

if TYPE_CHECKING:
    from playbook_supervisor.fleet.engine.session_ref import Mirror
    from playbook_supervisor.fleet.storage.database import FleetDatabase
    from playbook_supervisor.fleet.worker_settings import WorkerSettings


def address() -> Address:
    """The address in PLAYBOOK_FLEET, else in this repository's settings, else of a file of ours."""
    given = os.environ.get(addresses.VARIABLE, "")
    return addresses.find("" if given else _configured())


def is_set_up() -> bool:
    """True if there may be a fleet: an address is given, or this machine's file is there."""
    place = address()
    return place.file is None or place.file.exists()


def opened() -> FleetDatabase:
    """The fleet's database, for a `with`. As `FleetDatabase.open`."""
    # slow to import, and not needed where no fleet is set up
    from playbook_supervisor.fleet.storage.database import FleetDatabase

    return FleetDatabase.open(address())


def migrate(place: Address) -> None:
    """Make the tables of the database there, or change them to this version's."""
    # as above
    from playbook_supervisor.fleet.storage.database import FleetDatabase

    FleetDatabase.migrate(place)


def session_ids() -> list[str]:
    """The ids of the open sessions."""
    with opened() as database:
        return [row.id for row in database.rows(open_only=True)]


def mirror(url: str, settings: WorkerSettings | None = None) -> Mirror:
    """This user's mirror of a repository. Its transport has to be allowed in worker.yaml."""
    # git and the settings of workers, which commands that only read the database do not need
    from playbook_supervisor.fleet import worker_settings
    from playbook_supervisor.fleet.engine.session_ref import Mirror

    return Mirror.of(mirrors(), url, (settings or worker_settings.load()).transports)


def mirrors() -> Path:
    """The folder of this user's mirrors, which may not exist."""
    return user_state.path("fleet") / "mirrors"


def _configured() -> str:
    try:
        root = checkout.find(checkout.current_folder()).root
    except StateError:  # no repository
        return ""
    return config.load(root).fleet
