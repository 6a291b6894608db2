"""Inside isolation: a command that writes our records is carried out by a broker outside.

It gets our arguments, variables and standard descriptors through a Unix socket, and answers with
the exit status. This module imports next to nothing: every hook of a client comes through here.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE = "PLAYBOOK_BROKER"
"""In the environment inside: the broker's socket."""

COMMANDS = frozenset({"begin", "hook", "next", "report", "show", "status"})
"""Those that write, or tell which processes run. Others are done inside, where they can read and
start no more than their caller."""

SIZE = 4  # bytes of a descriptor's number, and of the length before a request
LARGEST = 1 << 20  # bytes of a request; the payload of a hook is read from its standard input
STANDARD = 3  # descriptors
_INTERRUPTED = 130
_SILENT = "playbook: the process outside that carries this out does not answer\n"


def forwarded(argv: Sequence[str]) -> int | None:
    """The exit status of the command as the broker carried it out, 1 if it does not answer.

    None if there is no broker, or the command is not for it.
    """
    address = os.environ.get(VARIABLE)
    if not address or not argv or argv[0] not in COMMANDS:
        return None
    try:
        status = _asked(address, _request(argv))
    except OSError:
        status = b""
    except KeyboardInterrupt:  # the broker ends what it does for us
        return _INTERRUPTED
    if not status:
        os.write(2, _SILENT.encode())
        return 1
    return status[0]


def _request(argv: Sequence[str]) -> bytes:
    """Texts that each end with a NUL: the number of arguments, the arguments, the variables."""
    variables = (f"{name}={value}" for name, value in os.environ.items())
    return b"".join(os.fsencode(word) + b"\0" for word in (str(len(argv)), *argv, *variables))


def _asked(address: str, data: bytes) -> bytes:
    import _socket

    broker = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    broker.connect(address)
    descriptors = b"".join(each.to_bytes(SIZE, sys.byteorder) for each in range(STANDARD))
    length = len(data).to_bytes(SIZE, "big")
    broker.sendmsg([length], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    broker.sendall(data)
    return broker.recv(1)
