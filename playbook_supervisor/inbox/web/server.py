"""Serves the inbox: the address that it listens at, TLS, and the end by Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from playbook_supervisor.errors import ArgumentError, StorageError
from playbook_supervisor.inbox.web import limits
from playbook_supervisor.inbox.web.access import Site, site_of
from playbook_supervisor.inbox.web.app import InboxApp
from playbook_supervisor.inbox.web.limits import LARGEST_HEADERS, ImpatientProtocol

_MOST_CONNECTIONS = 1_000
_KEEP_ALIVE = 15  # seconds that a connection may stay unused
_CLOSING = 2  # seconds that requests may take to end


@dataclass(frozen=True, slots=True)
class Listen:
    """The address to listen at, and how people reach it. `url` is empty for the address itself.

    `tls` are the files of the certificate and its key; `proxied`: a proxy in front speaks TLS.
    """

    host: str
    port: int
    url: str = ""
    tls: tuple[Path, Path] | None = None
    proxied: bool = False

    @property
    def local(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def unspecified(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:  # a name
            return not self.host.strip("0.")


def require_safe(listen: Listen, *, invited: bool) -> None:
    """ArgumentError PB-ARG-INBOX unless what others can reach is encrypted and for known people."""
    if listen.tls and listen.proxied:
        raise _refusal("--tls and --behind-proxy exclude each other", "Choose who speaks TLS.")
    if listen.proxied and not listen.url.startswith("https://"):
        raise _refusal(
            "--behind-proxy needs the address that people use",
            "Add --url https://…, or `inbox: {url: https://…}` to .playbooks/config.yaml.",
        )
    if listen.local:
        return
    if not (listen.tls or listen.proxied):
        raise _refusal(
            f"{listen.host} can be reached by others, and the connection would not be encrypted",
            "Add --tls CERT KEY, or --behind-proxy if a proxy in front of it speaks TLS.",
        )
    if not invited:
        raise _refusal(
            f"{listen.host} can be reached by others, and no one is invited",
            'Invite people first: `playbook inbox invite "Ada <ada@example.org>"`.',
        )
    if not listen.url and listen.unspecified:
        raise _refusal(f"{listen.host} is no address that people can use", "Add --url https://….")


def bound(listen: Listen) -> tuple[socket.socket, Site]:
    """The listening socket, and the site."""
    if listen.tls is not None:
        _tls_context(*listen.tls)
    try:
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        found = socket.create_server((listen.host, listen.port), family=family, backlog=256)
    except OSError as error:
        cure = "Is an inbox open already? Choose another port: --port 0 takes any free one."
        if error.errno != errno.EADDRINUSE:
            cure = "Give --bind an address of this machine."
        where = f"{listen.host}:{listen.port}"
        raise _refusal(f"cannot listen at {where}: {error.strerror or error}", cure) from error
    # Else each reply would wait for the acknowledgement of its headers. Connections inherit it.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = found.getsockname()[1]
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    scheme = "https" if listen.tls else "http"
    return found, site_of(listen.url or f"{scheme}://{host}:{port}")


def serve(listen: Listen, listening: socket.socket, inbox: InboxApp) -> None:
    """Serve until SIGINT or SIGTERM, with what `bound` has returned."""
    config = uvicorn.Config(
        inbox.app(),
        loop="asyncio",
        http=ImpatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # requests that cannot be read would fill the terminal
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=LARGEST_HEADERS,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_CLOSING,
    )
    config.load()
    config.ssl = _tls_context(*listen.tls) if listen.tls else None
    _Server(config, inbox).run(sockets=[listening])


@cache
def _tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Made once, as the key may have a passphrase, for which OpenSSL asks."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # SSLError is one, too
        raise StorageError(
            "PB-IO-READ",
            f"cannot use the certificate {certificate} and the key {key}: "
            f"{error.strerror or error}",
            where=str(certificate),
            guidance="Give the files in PEM format: the certificate with its chain, then its key.",
        ) from error
    return context


class _Server(uvicorn.Server):
    """Waits for no handshake, and at its end for no event stream."""

    def __init__(self, config: uvicorn.Config, inbox: InboxApp) -> None:
        super().__init__(config)
        self._inbox = inbox

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.ssl is not None:  # asyncio would wait a minute for each handshake
            loop = asyncio.get_running_loop()
            create = partial(loop.create_server, ssl_handshake_timeout=limits.SECONDS)
            loop.create_server = create  # type: ignore[method-assign]
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._inbox.broker.close()
        await super().shutdown(sockets)


def require_origin(url: str) -> str:
    """The address without a trailing slash. ArgumentError PB-ARG-INBOX if it is no origin."""
    parts = urlsplit(url)
    try:
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        port_fits = False
    plain = f"{parts.scheme}://{parts.netloc}"
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not port_fits
        or "@" in parts.netloc
        or url.rstrip("/") != plain
    ):
        raise _refusal(f"{url!r} is no address of an inbox", "Give it as https://inbox.example.org")
    return plain.lower()


def _refusal(message: str, cure: str) -> ArgumentError:
    return ArgumentError("PB-ARG-INBOX", message, guidance=cure)
