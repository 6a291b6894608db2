"""The command `worker`: what this machine may do, and then work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from playbook_supervisor.commands.fleet import persons
from playbook_supervisor.drivers.fleet import worker
from playbook_supervisor.drivers.fleet.database import FleetDatabase
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.project import worker_settings
from playbook_supervisor.records import replace


def work(
    database: FleetDatabase,
    *,
    pools: Sequence[str] = (),
    slots: int | None = None,
    drain: bool = False,
    name: str = "",
    tell: Callable[[str, str], None],
    log: Callable[[str, str], None],
) -> int:
    """Work until a signal comes, whose number is returned, or until nothing is queued (`drain`).

    `pools` and `slots` count instead of those of worker.yaml. FleetError PB-FLEET-SETTINGS if that
    file is wrong, or if it names no repositories although others can put sessions into the
    database.
    """
    persons.require_person("worker")
    settings = worker_settings.load(shared=database.address.shared)
    if pools:
        settings = replace(settings, pools=worker_settings.pool_names(pools))
    if slots is not None:
        settings = replace(settings, slots=slots)
    name = name or worker.new_name()
    served = (
        f"{', '.join(settings.pools)}; {counted(settings.slots, 'slot')}; {database.address.shown}"
    )
    tell("", f"worker {name}: pools {served}")
    return worker.work(database, settings, name=name, drain=drain, tell=tell, log=log)
