"""The database's address: in PLAYBOOK_FLEET, else in the settings, else on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from playbook_supervisor.errors import FleetError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.system.disk import user_state

VARIABLE = "PLAYBOOK_FLEET"
_SETTING = "`fleet` in .playbooks/config.yaml"
_POSTGRES = ("postgresql", "postgres")
_SECRET = ("password", "sslpassword")
_FORMS = "postgresql://USER@HOST/DATABASE, or sqlite:///FILE with an absolute path"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a database: of a PostgreSQL server, or a file of SQLite.

    `url` may have a password and is never shown; `shown` has none. `file` is None for a server.
    """

    url: str = field(repr=False)
    shown: str
    file: Path | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def shared(self) -> bool:
        return self.file is None


def find(configured: str = "") -> Address:
    """The address in the environment, else the one in the settings, else this machine's file."""
    if given := os.environ.get(VARIABLE, ""):
        return parse(given, VARIABLE)
    if configured:
        address = parse(configured, _SETTING)
        if address.secrets:
            raise FleetError(
                "PB-FLEET-DATABASE",
                "an address that is committed must have no password",
                where=_SETTING,
                guidance=f"Set {VARIABLE} where the fleet is used, or use ~/.pgpass.",
            )
        return address
    return of_file(user_state.path("fleet") / "fleet.sqlite")


def parse(text: str, source: str = "") -> Address:
    """The address that a text gives. FleetError PB-FLEET-DATABASE, which does not repeat it."""
    try:
        return _parse(text)
    except ValueError as error:
        raise FleetError(
            "PB-FLEET-DATABASE",
            f"the address of the fleet's database {error}",
            where=source,
            guidance=f"Write {_FORMS}.",
        ) from None


def of_file(path: Path) -> Address:
    """The address of a file of SQLite."""
    url = f"sqlite:///{path}"
    return Address(url, url, path)


def _parse(text: str) -> Address:
    if not text.isprintable() or printable(text) != text or " " in text:
        raise ValueError("has blanks or control characters")
    if text.startswith("/"):
        return of_file(Path(text))
    parts = urlsplit(text)
    if parts.scheme == "sqlite":
        if parts.netloc or not parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("must be sqlite:// and the absolute path of a file")
        return of_file(Path("/" + parts.path.lstrip("/")))
    if parts.scheme not in _POSTGRES:
        raise ValueError("has an unknown scheme")
    query = parse_qsl(parts.query, keep_blank_values=True)
    if parts.fragment or not parts.path.strip("/"):
        raise ValueError("names no database")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("has no valid port") from None
    user, _, host = parts.netloc.rpartition("@")
    name = quote(unquote(user.partition(":")[0]), safe="")
    secrets = [unquote(parts.password or ""), *(v for k, v in query if k in _SECRET)]
    shown_query = urlencode([(k, v) for k, v in query if k not in _SECRET], safe="/")
    shown = f"postgresql://{name}{'@' if name else ''}{host}{parts.path}"
    return Address(
        f"postgresql://{text.partition('://')[2]}",
        shown + (f"?{shown_query}" if shown_query else ""),
        secrets=tuple(secret for secret in secrets if secret),
    )
