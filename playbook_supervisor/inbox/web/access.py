"""Who is at the other end: a browser that has used a link, and nothing else.

A link names a token that works once. Using it gives the browser a cookie, which scripts and other
sites never see. For the user of this machine, tokens and cookies are only in this process's memory;
of invited people a file keeps digests (`inbox/commands/register.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from urllib.parse import urlsplit

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.inbox.commands import register
from playbook_supervisor.inbox.commands.register import Register
from playbook_supervisor.system.disk import user_state

ENTER = "/enter"
_OWNER = "you"
_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person whose browser is known. `name` is empty for the user of this machine."""

    name: str
    browser: str

    @property
    def shown(self) -> str:
        return self.name.partition(" <")[0] or _OWNER


@dataclass(frozen=True, slots=True)
class Site:
    """The address of the inbox: `scheme://host:port`, and the hosts that a request may name."""

    origin: str
    hosts: tuple[str, ...]

    @property
    def secure(self) -> bool:
        return self.origin.startswith("https:")

    @property
    def cookie(self) -> str:
        """The name of the cookie. Browsers send cookies to all ports of a host, so it has ours."""
        if self.secure:
            return "__Host-playbook-inbox"
        return f"playbook-inbox-{urlsplit(self.origin).port or 80}"

    def allows(self, host: str) -> bool:
        """True if a request names us, and not a name that an attacker has pointed at us."""
        return host.casefold() in self.hosts

    def is_own(self, origin: str, host: str) -> bool:
        """True if a form was on one of our pages, reached under the name of this request."""
        return origin.casefold() == f"{urlsplit(self.origin).scheme}://{host.casefold()}"


def site_of(origin: str) -> Site:
    """The site at that address; one on the loopback interface has two names."""
    parts = urlsplit(origin)
    host, netloc = parts.hostname or "", parts.netloc.casefold()
    names = _LOOPBACK if host in _LOOPBACK else (host,)
    port = f":{parts.port}" if parts.port else ""
    hosts = {netloc, *(f"{name}{port}" for name in names if ":" not in name)}
    return Site(origin, tuple(sorted(hosts)))


class Access:
    """The links and browsers of one server. Any thread may call it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._lock = threading.Lock()
        self._link = ""  # the digest of the token in the owner's present link
        self._browsers: set[str] = set()  # the digests of the owner's cookies
        self._known = Register()
        self._read_at: object = None

    def new_link(self) -> str:
        """A link for the user of this machine; an earlier one is no longer valid."""
        token = register.new_token()
        with self._lock:
            self._link = register.digest_of(token)
        return link(self.site.origin, token)

    def visitor(self, cookies: Mapping[str, str]) -> Visitor | None:
        if not (token := cookies.get(self.site.cookie, "")):
            return None
        digest = register.digest_of(token)
        with self._lock:
            held = [compare_digest(each, digest) for each in self._browsers]
            if any(held):
                return Visitor("", digest)
            person = register.person_of(self._register(), token)
        return Visitor(person.name, digest) if person else None

    def offered(self, token: str, now: int) -> str | None:
        """Whose browser the link would make this one; None if it is not valid."""
        with self._lock:
            if self._is_owners(token):
                return ""
            person = register.invited(self._register(), token, now)
        return person.name if person else None

    def enter(self, token: str, browser: str, now: int) -> tuple[str, str] | None:
        with self._lock:
            if self._is_owners(token):
                self._link, cookie = "", register.new_token()
                self._browsers.add(register.digest_of(cookie))
                return cookie, ""
        admitted = register.admit(token, browser, now)
        return (admitted[0], admitted[1].name) if admitted else None

    def _is_owners(self, token: str) -> bool:
        return compare_digest(self._link or "-", register.digest_of(token))

    def _register(self) -> Register:
        """The register, read again when the file changes: a person may be revoked. A file
        that cannot be read lets no one in."""
        try:
            status = user_state.path(register.FILE).stat()
            stamp: object = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            stamp = None
        if stamp != self._read_at:
            self._read_at, self._known = stamp, Register()
            with suppress(PlaybookError):
                self._known = register.load()
        return self._known


def link(origin: str, token: str) -> str:
    """The link that carries the token."""
    return f"{origin}{ENTER}?token={token}"
