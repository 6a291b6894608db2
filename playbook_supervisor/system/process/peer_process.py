"""Which process of this machine is at the other end of a TCP connection.

Linux tells it in /proc: the socket in its tables, and the processes that have it open. Elsewhere,
and for a peer on another machine, nothing is known.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.ancestry import Process

_PROC: Path = Path("/proc")
_CLOSED = "0"  # the number of a socket that no process has open any more

Address = tuple[str, int]  # a host's number and a port


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end. `local`: on this machine. `processes` have its socket open, `user` owns it.

    A local socket without processes is of another user, or of a process that hides or has just
    ended. `user` is -1 if the socket is closed.
    """

    local: bool
    user: int = -1
    processes: tuple[Process, ...] = ()


def find(other: Address | None, own: Address | None) -> Peer | None:
    """The end of the connection from `other` to our end `own`; None if the system does not tell.

    Without an address the connection was reset; its other end may have been anyone on this machine.
    """
    if other is None or own is None:
        return Peer(True)
    if not (_PROC / "self" / "net" / "tcp").exists():
        return None
    ends = (_plain(other), _plain(own))
    for table in ("net/tcp", "net/tcp6"):
        for line in _lines(table):
            fields = line.split()
            if len(fields) > 9 and (_end(fields[1]), _end(fields[2])) == ends:
                if fields[9] == _CLOSED:
                    return Peer(True)
                return Peer(True, int(fields[7]), tuple(_holders(fields[9])))
    return Peer(_is_own(other[0] if "%" in other[0] else ends[0][0]))


def _is_own(number: str) -> bool:
    family = socket.AF_INET6 if ":" in number else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((number, 0))
        except OSError:
            return False
    return True


def _lines(table: str) -> list[str]:
    with suppress(OSError):
        return (_PROC / "self" / table).read_text("ascii", "replace").splitlines()[1:]
    return []


def _plain(address: Address) -> Address:
    """IPv4 in IPv6 as IPv4, as the tables are compared."""
    number = ip_address(address[0].partition("%")[0])
    mapped = number.ipv4_mapped if isinstance(number, IPv6Address) else None
    return str(mapped or number), address[1]


def _end(word: str) -> Address:
    """`0100007F:1F90` → `("127.0.0.1", 8080)`: words of four bytes in the machine's order."""
    number, _, port = word.partition(":")
    data = bytes.fromhex(number)
    order = -1 if sys.byteorder == "little" else 1
    packed = b"".join(data[at : at + 4][::order] for at in range(0, len(data), 4))
    return _plain((str(ip_address(packed)), int(port, 16)))


def _holders(inode: str) -> Iterator[Process]:
    opened = f"socket:[{inode}]"
    with os.scandir(_PROC) as folders:
        numbers = [int(folder.name) for folder in folders if folder.name.isdecimal()]
    for number in numbers:
        if opened in ancestry.open_files(number):
            holder = ancestry.process(number)
            # The number may have been given to another process meanwhile.
            if holder and opened in ancestry.open_files(number):
                yield holder
