"""Where the fleet's database is, and that its password is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.storage import address

SERVER = "postgresql://me@db.example.org:5433/fleet?sslmode=require"


def test_without_an_address_it_is_a_file_of_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    found = address.find()
    assert found.file == Path("/state/playbook/fleet/fleet.sqlite")
    assert not found.shared


def test_the_environment_comes_before_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address.find(SERVER).shown == SERVER
    monkeypatch.setenv("PLAYBOOK_FLEET", "postgres://other.example.org/fleet")
    assert address.find(SERVER).shown == "postgresql://other.example.org/fleet"


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("/srv/fleet.sqlite", "/srv/fleet.sqlite"),
        ("sqlite:///srv/fleet.sqlite", "/srv/fleet.sqlite"),
        ("sqlite:////srv/fleet.sqlite", "/srv/fleet.sqlite"),
    ],
)
def test_a_file_is_named_by_its_absolute_path(text: str, file: str) -> None:
    assert address.parse(text).file == Path(file)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:s%2Fcret@host/fleet", "postgresql://me@host/fleet"),
        ("postgres://:s%2Fcret@host/fleet", "postgresql://host/fleet"),
        (
            "postgresql://me@/fleet?host=/run/pg&password=s/cret&sslpassword=s/cret",
            "postgresql://me@/fleet?host=/run/pg",
        ),
        ("postgresql://a%40b:s%2Fcret@[::1]:5433/fleet", "postgresql://a%40b@[::1]:5433/fleet"),
    ],
)
def test_a_password_is_used_but_not_shown(text: str, shown: str) -> None:
    found = address.parse(text)
    assert found.shown == shown
    assert set(found.secrets) == {"s/cret"}
    assert "cret" not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        "mysql://me:dummy@host/fleet",
        "postgresql://me:dummy@host/fleet#x",
        "postgresql://me:dummy@host:port/fleet",
        "postgresql://me:dummy@host/fleet\x1b[2J",
        "sqlite:///",
        "fleet.sqlite",
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(FleetError) as caught:
        address.parse(text, "PLAYBOOK_FLEET")
    assert caught.value.code == "PB-FLEET-DATABASE"
    assert caught.value.where == "PLAYBOOK_FLEET"
    assert "dummy" not in f"{caught.value.message} {caught.value.cause} {caught.value.guidance}"


def test_settings_with_a_password_are_refused_however_it_is_written() -> None:
    with pytest.raises(FleetError, match="must have no password"):
        address.find("postgresql://host/fleet?%70assword=dummy")
