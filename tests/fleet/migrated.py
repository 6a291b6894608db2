"""Databases with the fleet's tables, of both kinds: copies of one that was migrated before."""

from __future__ import annotations

import os
from functools import cache
from itertools import count
from pathlib import Path

from fleet.postgres import Server
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase

_numbers = count(1)


def of_file(folder: Path) -> address.Address:
    file = folder / "fleet.sqlite"
    file.write_bytes(_file(folder.parent / f"migrated-{os.getpid()}.sqlite"))
    file.chmod(0o600)
    return address.of_file(file)


def of_server(server: Server) -> address.Address:
    name = f"migrated{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE {_template(server)}")
    return address.parse(server.url(name))


@cache
def _file(file: Path) -> bytes:
    FleetDatabase.migrate(address.of_file(file))
    return file.read_bytes()


@cache
def _template(server: Server) -> str:
    name = server.create()
    FleetDatabase.migrate(address.parse(server.url(name)))
    return name
