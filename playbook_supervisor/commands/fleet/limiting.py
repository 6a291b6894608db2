"""`fleet limits`: how many sessions of a pool may run, and how many of one repository."""

from __future__ import annotations

from playbook_supervisor.commands.fleet import persons
from playbook_supervisor.drivers.fleet.database import FleetDatabase
from playbook_supervisor.drivers.fleet.storage.rows import Limits
from playbook_supervisor.project.worker_settings import pool_names


def limits(database: FleetDatabase, pool: str) -> Limits:
    """The limits of a pool, of which nothing has to be known yet.

    ArgumentError PB-ARG-INVALID if that is no name of a pool; FleetError PB-FLEET-DATABASE.
    """
    (name,) = pool_names((pool,))
    return database.queue.limits(name)


def change(
    database: FleetDatabase,
    pool: str,
    *,
    in_all: int | None = None,
    per_repository: int | None = None,
    per_time: tuple[int, float] | None = None,
    unlimited: bool = False,
) -> Limits:
    """Set the limits that are given, and return all; with `unlimited` the others are removed.

    Errors as `limits`; StateError PB-STATE-HUMAN-ONLY.
    """
    persons.require_person("fleet limits")
    former = limits(database, pool)
    former = Limits() if unlimited else former
    changed = Limits(
        former.in_all if in_all is None else in_all,
        former.per_repository if per_repository is None else per_repository,
        former.per_time if per_time is None else per_time,
    )
    return database.queue.limits(pool, changed)
