"""A PostgreSQL server for each process of the tests, started by the first test that needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import migrated
from fleet import postgres as servers
from fleet.local_fleet import fleet as fleet
from playbook_supervisor.fleet.storage import address


@pytest.fixture(scope="session")
def server() -> Iterator[servers.Server]:
    """The server itself. Tests take `postgres`, which undoes what others did to it."""
    programs = servers.programs()
    if programs is None:
        assert not os.environ.get("PLAYBOOK_REQUIRE_POSTGRES"), "PostgreSQL is not installed"
        pytest.skip("PostgreSQL is not installed: Debian's package is `postgresql`")
    with servers.Server(programs) as running:
        yield running


@pytest.fixture
def postgres(server: servers.Server) -> servers.Server:
    """A server that runs. The test may stop, pause and restart it, and leave it so."""
    server.heal()
    return server


@pytest.fixture
def database(postgres: servers.Server) -> str:
    """The address of an empty database, with its password."""
    return postgres.url(postgres.create())


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> address.Address:
    """The address of a database with its tables, of both kinds."""
    if request.param == "sqlite":
        return migrated.of_file(tmp_path)
    return migrated.of_server(request.getfixturevalue("postgres"))
