"""Which database the fleet has, and whether there is one, without importing what it needs."""

from __future__ import annotations

import os
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.drivers.fleet import address as addresses
from playbook_supervisor.drivers.fleet.address import Address
from playbook_supervisor.errors import StateError
from playbook_supervisor.project import config, worker_settings
from playbook_supervisor.system import checkout, user_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.database import FleetDatabase
    from playbook_supervisor.drivers.fleet.session_ref import Mirror
    from playbook_supervisor.project.worker_settings import WorkerSettings


def address(cwd: Path | None = None) -> Address:
    """The address in PLAYBOOK_FLEET, else in this repository's settings, else of a file of ours.

    FleetError PB-FLEET-DATABASE if it is no address; errors of the settings.
    """
    given = os.environ.get(addresses.VARIABLE, "")
    return addresses.find("" if given else _configured(cwd))


def is_set_up(cwd: Path | None = None) -> bool:
    """Whether there may be a fleet: an address is given, or this machine's file is there."""
    place = address(cwd)
    return place.file is None or place.file.exists()


def opened(cwd: Path | None = None) -> FleetDatabase:
    """The fleet's database, to be closed by a `with`.

    FleetError PB-FLEET-NOT-UP, PB-FLEET-NEWER or PB-FLEET-DATABASE; StateError PB-STATE-NO-EXTRA
    without the packages that it needs.
    """
    from playbook_supervisor.drivers.fleet.database import FleetDatabase

    return FleetDatabase.open(address(cwd))


def mirror(url: str, settings: WorkerSettings | None = None) -> Mirror:
    """This user's mirror of a repository, which the workers of this machine share.

    FleetError PB-FLEET-REPOSITORY if it is no address of a repository, or its transport is not
    allowed in worker.yaml; FleetError PB-FLEET-SETTINGS.
    """
    from playbook_supervisor.drivers.fleet.remotes import mirror_name, normalised
    from playbook_supervisor.drivers.fleet.session_ref import Mirror

    transports = (settings or worker_settings.load()).transports
    accepted = normalised(url, transports)
    return Mirror(mirrors() / mirror_name(accepted), accepted, transports)


def mirrors() -> Path:
    """The folder of this user's mirrors, which may not exist."""
    return user_state.path("fleet") / "mirrors"


def _configured(cwd: Path | None) -> str:
    try:
        root = checkout.find(cwd or locate.current_folder()).root
    except StateError:  # no repository
        return ""
    return config.load(root).fleet
