"""Which addresses of repositories the fleet accepts, and how it writes them.

An address comes from a command line or a row of the database. It is shown, compared and given to
git, so it contains no credentials, and it names one repository in one way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.worker_settings import DEFAULT_TRANSPORTS, KNOWN_TRANSPORTS
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.system.disk.files import digest

_LONGEST = 1000
_DIGITS = 12
_LONGEST_NAME = 40
_URL = r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?"
_SCP = r"([^/:@]+)@([^/:@]+):([^:].*)"
_USER = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_AUTHORITY = rf"(?:({_USER})@)?({_HOST})(?::([0-9]{{1,5}}))?"
_DISGUISED = r"%(?:[01][0-9A-Fa-f]|2[EeFf]|5[Cc]|7[Ff]|(?![0-9A-Fa-f]{2}))"
"""Characters that the other end would decode to a control character, `.`, `/` or a backslash."""
_USER_INFO = r"(\A|//)[^/\s]*@"


def normalised(address: str, transports: Sequence[str] = DEFAULT_TRANSPORTS) -> str:
    """The address in the form that rows, limits and mirrors use.

    `https://HOST/PATH`, `ssh://USER@HOST/PATH`, `USER@HOST:PATH` or, if `transports` has `file`,
    `file:///PATH`, for which a plain absolute path is accepted too. Scheme and host are in lower
    case, and there is no `/` at the end. FleetError PB-FLEET-REPOSITORY if it is anything else.
    """
    if not address or address.startswith("-") or len(address) > _LONGEST:
        raise _refused(address, "it is no address of a repository")
    if printable(address) != address or re.search(r"[\s\\]", address):
        raise _refused(address, "it contains a blank, a backslash or a control character")
    if re.match(r"[A-Za-z0-9+.-]+::", address):
        raise _refused(address, "it names a program")
    if address.startswith("/"):
        address = f"file://{quote(address, safe='/~+@:,=')}"
    scheme, normal = _url(address) if re.match(_URL, address) else _scp(address)
    if scheme not in transports or scheme not in KNOWN_TRANSPORTS:
        allowed = ", ".join(each for each in KNOWN_TRANSPORTS if each in transports) or "none"
        raise _refused(address, f"{scheme} is not allowed here, but: {allowed}")
    return normal


def mirror_name(address: str) -> str:
    """The name of the folder of a repository's mirror: `widgets-3f09ac10be77.git`."""
    return f"{repository_name(address)}-{digest(address.encode())[:_DIGITS]}.git"


def repository_name(address: str) -> str:
    """A name for the folder of a clone, from the last part of a normalised address: `widgets`."""
    last = re.split(r"[/:]", address)[-1].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9_-]", "-", last)[:_LONGEST_NAME].strip("-") or "repository"


def _url(address: str) -> tuple[str, str]:
    found = re.fullmatch(_URL, address)
    scheme, authority, path = found.groups() if found else ("", "", "")
    scheme = scheme.lower()
    if scheme == "file":
        if authority:
            raise _refused(address, "a file:// address has three slashes and an absolute path")
        return scheme, f"file://{_path(address, path or '')}"
    parts = re.fullmatch(_AUTHORITY, authority)
    if "@" in authority and (scheme != "ssh" or not parts):
        raise _refused(address, "it contains a user's name or a password")
    if not parts:
        raise _refused(address, f"{first_line(authority, 80)!r} is no host")
    user, host, port = parts.groups()
    written = f"{user}@" * bool(user) + host.lower() + f":{port}" * bool(port)
    return scheme, f"{scheme}://{written}{_path(address, path or '')}"


def _scp(address: str) -> tuple[str, str]:
    """The same of `git@host:path`, which only ssh knows."""
    found = re.fullmatch(_SCP, address)
    if not found:
        raise _refused(address, "it is neither a URL, nor USER@HOST:PATH, nor an absolute path")
    user, host, path = found.groups()
    if not re.fullmatch(_USER, user) or not re.fullmatch(_HOST, host) or path.startswith("-"):
        raise _refused(address, "it is not of the form USER@HOST:PATH")
    return "ssh", f"{user}@{host.lower()}:{_path(address, path)}"


def _path(address: str, path: str) -> str:
    shortened = path.rstrip("/")
    if not shortened:
        raise _refused(address, "it names no repository")
    if re.search(r"[?#]", path):
        raise _refused(address, "it has a query or a fragment")
    inner = shortened.split("/")[path.startswith("/") :]
    if re.search(_DISGUISED, path) or any(part in ("", ".", "..") for part in inner):
        raise _refused(address, "its path has an empty part, a `.`, a `..` or one of them encoded")
    return shortened


def _refused(address: str, why: str) -> FleetError:
    shown = first_line(re.sub(_USER_INFO, r"\1…@", re.split(r"[?#]", address)[0]), 120)
    return FleetError("PB-FLEET-REPOSITORY", f"the repository {shown!r} is refused: {why}")
