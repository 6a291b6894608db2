"""Runs a program that reaches the network only through the proxy of `network_proxy`.

The interpreter runs this file in the network's namespace, without our package and without `site`.
It listens there, hands the listening socket to the proxy outside, and becomes the program. So the
proxy takes the program's connections itself, and no process of ours stays inside.

Arguments: the proxy's Unix socket, the port, the program's argv.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes long to import
import _socket
import os
import sys

_CONNECTIONS = 128  # that may wait to be taken


def _main(proxy: str, port: str, *argv: str) -> None:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", int(port)))
    listener.listen(_CONNECTIONS)
    outside = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    outside.connect(proxy)
    descriptor = listener.fileno().to_bytes(4, sys.byteorder)
    outside.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor)])
    for ignored in (_signal.SIGPIPE, _signal.SIGXFSZ):  # by Python, not by others
        _signal.signal(ignored, _signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is involved
    except OSError as error:
        print(f"cannot start {argv[0]!r}: {error.strerror}", file=sys.stderr)  # noqa: T201
        os._exit(127)


if __name__ == "__main__":
    _main(*sys.argv[1:])
