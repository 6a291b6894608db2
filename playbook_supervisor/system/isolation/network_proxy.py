"""The HTTP proxy through which a program in isolation reaches the hosts of its profile.

It runs outside, in threads of the supervisor. It answers CONNECT and requests for `http://…`. On
Linux the program has no other way out of its network's namespace, where `inside_process` makes the
socket at which the proxy listens. A name is resolved once, here, and the address that was looked at
is the one connected to.
"""

from __future__ import annotations

import ipaddress
import os
import re
import select
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.system.isolation.profiles import TEMPORARY
from playbook_supervisor.system.process import inside_process

SOCKET = Path("/run/playbook/proxy")
"""Inside, until the program starts: where `inside_process` reaches the proxy."""
PORT = 3128
"""Inside, on its loopback interface: where the proxy listens."""

_WEB, _PORTS = (443, 80), 1 << 16
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MOST = 128  # connections at once
_FULL = f"There are {_MOST} connections already."
_HEAD, _END = 1 << 16, b"\r\n\r\n"  # bytes of a request before its body, and what ends them
_CHUNK = 1 << 16
_PATIENCE = 30.0  # seconds that a client may be silent before its request is complete
_LINGERING = 5.0  # seconds that the other side may take to close
_NAMED = 10  # refused hosts that are kept
_CLOSED_IN_CHILDREN = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_CONNECTING = 15.0  # seconds for one address
_AUTHORITY = r"(?P<authority>(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d{1,5}))?)"
_ENTRY = re.compile(rf"(?P<below>\*\.)?{_AUTHORITY}", re.ASCII)
_CONNECT = re.compile(rf"CONNECT {_AUTHORITY} HTTP/1\.[01]", re.ASCII)
_PATH = r"(?P<path>[/?][!-~\x80-\xff]*)?"
_PLAIN = re.compile(
    rf"(?P<method>(?!CONNECT)[A-Z]+) (?i:http)://{_AUTHORITY}{_PATH} (?P<version>HTTP/1\.[01])",
    re.ASCII,
)
_FIELD = re.compile(r"(?P<name>[!#$%&'*+.^`|~\w-]+):[^\r\n\0]*", re.ASCII)
_OURS = frozenset({"host", "connection", "keep-alive", "proxy-connection", "proxy-authorization"})
_REASONS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address in its last 32 bits
_OF_AZURE = ipaddress.ip_address("168.63.129.16")  # its machines' own, though it looks public


class _Refused(Exception):  # noqa: N818 - an answer, not an error of ours
    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


class Hosts:
    """Which hosts are let through: entries `HOST` (ports 443 and 80), `HOST:PORT`, `*.HOST` for
    all names below one. An IP address is let through where it is an entry itself."""

    def __init__(self, entries: Iterable[str]) -> None:
        found = (_ENTRY.fullmatch(entry) for entry in entries)
        self._entries = {
            ((each["below"] or "") + _name(each["host"]), port)
            for each in found
            if each is not None
            for port in ((int(each["port"]),) if each["port"] else _WEB)
            if port < _PORTS
        }

    def listed(self, host: str, port: int) -> bool:
        """Whether that name or address is an entry itself."""
        return (host, port) in self._entries

    def below(self, host: str, port: int) -> bool:
        """Whether that name lies below the host of an entry."""
        parts = host.split(".")
        names = (".".join(parts[start:]) for start in range(1, len(parts)))
        return any((f"*.{name}", port) in self._entries for name in names)

    def without_proxy(self) -> str:
        """The value of NO_PROXY: loopback, unless the settings list a host there."""
        ours = {host for host, _ in self._entries}
        return ",".join(name for name in _LOOPBACK if name not in ours)


class Proxy:
    """Listens from its making until `close`, which ends all connections. Threads run it.

    `refused` are the first hosts that it has not let through, as entries that would let them.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self.refused: dict[str, None] = {}
        self._hosts = Hosts(hosts)
        self._open: dict[socket.socket, socket.socket | None] = {}  # clients and their servers
        self._changing = threading.Lock()
        self._closed = False
        self._woken, self._wake = os.pipe()
        self._folder: Path | None = None
        self.port = PORT
        if sys.platform == "linux":
            prefix = f"playbook-proxy-{os.getpid()}-"
            self._folder = Path(tempfile.mkdtemp(prefix=prefix, dir=TEMPORARY[0]))
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(os.fspath(self._folder / SOCKET.name))
            listener.listen(1)
        else:
            listener = socket.create_server(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections, and listen no more."""
        os.write(self._wake, b".")  # a process that we have forked may keep it open
        os.close(self._wake)
        self._thread.join(_LINGERING)

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` inside, connected to the proxy."""
        if self._folder is None:
            return list(argv)
        python = (sys.executable, "-I", "-S", inside_process.__file__)
        return [*python, os.fspath(SOCKET), str(self.port), *argv]

    def lent(self) -> Iterator[tuple[Path, Path]]:
        """What has to stand inside: the place, and what of ours stands there."""
        if self._folder is not None:
            yield SOCKET, self._folder / SOCKET.name

    def environment(self) -> dict[str, str]:
        """The variables inside that lead programs to the proxy."""
        address, without = f"http://127.0.0.1:{self.port}", self._hosts.without_proxy()
        found = {"NODE_USE_ENV_PROXY": "1"}
        for name, value in (
            *((f"{each}_PROXY", address) for each in ("HTTP", "HTTPS", "ALL")),
            ("NO_PROXY", without),
        ):
            found |= {name: value, name.lower(): value}
        return found

    def hint(self) -> str:
        """The line of the settings that lets the refused hosts through; empty if none was."""
        refused = list(self.refused)
        return f"Not allowed: {', '.join(refused)}. {_to_allow(*refused)}" if refused else ""

    # ── taking connections ──────────────────────────────────────────────────────────────────

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError, IndexError):  # nothing was handed over that listens
            if self._folder is not None:
                listener = self._handed_over(listener, self._folder)
            with listener:
                for client in self._connections(listener):
                    if len(self._open) < _MOST:
                        self._keep(client)
                        threading.Thread(target=self._answer, args=(client,), daemon=True).start()
                    else:  # at once: a program shall not use up our threads and descriptors
                        with client, suppress(OSError):
                            client.settimeout(0)
                            client.sendall(_refusal(_Refused(503, _FULL)))
        os.close(self._woken)
        with self._changing:
            self._closed = True
            for client, server in self._open.items():
                _shut(client, server)

    def _handed_over(self, hearing: socket.socket, folder: Path) -> socket.socket:
        """The socket that `inside_process` hands over before the program runs. Later, nothing can
        reach `hearing`. OSError or IndexError if no socket comes."""
        with hearing:
            other = next(self._connections(hearing), None)
            (folder / SOCKET.name).unlink()
            folder.rmdir()
        if other is None:
            raise ConnectionAbortedError
        with other:
            other.settimeout(_PATIENCE)
            _, descriptors, _, _ = socket.recv_fds(other, 1, 1, _CLOSED_IN_CHILDREN)
        return socket.socket(fileno=descriptors[0])

    def _connections(self, listener: socket.socket) -> Iterator[socket.socket]:
        """Those that others make, until this proxy is closed."""
        poll = select.poll()
        for each in (listener.fileno(), self._woken):
            poll.register(each, select.POLLIN)
        while self._woken not in dict(poll.poll()):
            yield listener.accept()[0]

    def _keep(self, client: socket.socket, server: socket.socket | None = None) -> None:
        """Note a connection, so that it ends with us. OSError if we have ended."""
        with self._changing:
            if self._closed:
                raise ConnectionAbortedError
            self._open[client] = server

    def _drop(self, client: socket.socket, server: socket.socket | None) -> None:
        with self._changing:
            self._open.pop(client, None)
        _shut(client, server)
        for each in (client, server):
            if each is not None:
                each.close()

    # ── one connection ──────────────────────────────────────────────────────────────────────

    def _answer(self, client: socket.socket) -> None:
        server = None
        try:
            client.settimeout(_PATIENCE)
            head, body = _head(client)
            server, first = self._connected(head)
            self._keep(client, server)
            client.settimeout(None)
            if not first:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(first + body)
            _relay(client, server)
        except _Refused as refused:
            with suppress(OSError):
                _refuse(client, refused)
        except OSError:  # one side is gone
            pass
        finally:
            self._drop(client, server)

    def _connected(self, head: bytes) -> tuple[socket.socket, bytes]:
        """The server that the request names, and what to send it first: nothing for CONNECT."""
        request, *fields = head.decode("latin-1").split("\r\n")
        if not all(map(_FIELD.fullmatch, fields)):
            raise _Refused(400, "A header of the request is not HTTP.")
        if found := _CONNECT.fullmatch(request):
            return self._server(_name(found["host"]), int(found["port"] or 443)), b""
        if not (found := _PLAIN.fullmatch(request)):
            raise _Refused(400, "This is a proxy: it takes CONNECT HOST:PORT and http://HOST/….")
        server = self._server(_name(found["host"]), int(found["port"] or 80))
        path = found["path"] or "/"
        lines = (
            f"{found['method']} {path if path.startswith('/') else f'/{path}'} {found['version']}",
            f"Host: {found['authority']}",
            "Connection: close",
            *(each for each in fields if each.partition(":")[0].lower() not in _OURS),
        )
        return server, "\r\n".join((*lines, "", "")).encode("latin-1")

    def _server(self, host: str, port: int) -> socket.socket:
        listed = self._hosts.listed(host, port)
        if not listed and not self._hosts.below(host, port):
            raise self._forbidden(host, port, "")
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise _Refused(502, f"{host} is not found: {error}") from error
        addresses = [each for each in found if listed or _is_public(str(each[4][0]))]
        if not addresses:
            raise self._forbidden(host, port, " leads to a private network")
        for family, kind, protocol, _, address in addresses:
            server = socket.socket(family, kind, protocol)
            server.settimeout(_CONNECTING)
            try:
                server.connect(address)
            except OSError as error:
                server.close()
                failure = error
            else:
                server.settimeout(None)
                return server
        raise _Refused(502, f"{host} does not answer: {failure}")

    def _forbidden(self, host: str, port: int, why: str) -> _Refused:
        name = f"[{host}]" if ":" in host else host
        entry = name if port in _WEB else f"{name}:{port}"
        if len(self.refused) < _NAMED:
            self.refused[entry] = None
        return _Refused(403, f"Not allowed: {entry}{why}. {_to_allow(entry)}")


def _to_allow(*entries: str) -> str:
    quoted = ", ".join(f'"{entry}"' if "[" in entry else entry for entry in entries)
    return f"Add it under `isolation: {{hosts: [{quoted}]}}` in .playbooks/config.yaml"


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    """The request line and the headers, and what has come of the body."""
    data = bytearray()
    while (end := data.find(_END)) < 0:
        if len(data) > _HEAD:
            raise _Refused(400, f"The headers are longer than {_HEAD:,} bytes.")
        if not (chunk := client.recv(_CHUNK)):
            raise ConnectionAbortedError
        data += chunk
    return bytes(data[:end]), bytes(data[end + len(_END) :])


def _refuse(client: socket.socket, refused: _Refused) -> None:
    client.sendall(_refusal(refused))
    client.shutdown(socket.SHUT_WR)
    client.settimeout(_LINGERING)
    while client.recv(_CHUNK):  # to close with bytes unread would take the answer back
        pass


def _refusal(refused: _Refused) -> bytes:
    body = f"{refused}\n".encode()
    head = (
        f"HTTP/1.1 {refused.status} {_REASONS[refused.status]}\r\nConnection: close\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _relay(client: socket.socket, server: socket.socket) -> None:
    sending = threading.Thread(target=_copy, args=(client, server), daemon=True)
    sending.start()
    _copy(server, client)
    sending.join(_LINGERING)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _shut(*sockets: socket.socket | None) -> None:
    for each in sockets:
        with suppress(OSError):
            if each is not None:
                each.shutdown(socket.SHUT_RDWR)


def _name(host: str) -> str:
    name = host.strip("[]").rstrip(".").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _is_public(text: str) -> bool:
    """Whether an address belongs to no private network, nor to this machine."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        packed = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            packed = ipaddress.IPv4Address(address.packed[-4:])
        address = packed or address
    return address.is_global and not address.is_multicast and address != _OF_AZURE
