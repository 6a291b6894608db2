"""A Unix socket in a folder, through which one process asks another for something.

The kernel tells each side which process is at the other end. A socket's address may have about a
hundred bytes only, so the folder is named by a descriptor or by a short link.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.process.cancellation import Interrupted

NAME = "requests"
_LARGEST = 1 << 16  # bytes of a request or a reply, which end with the first line end
_PROMPT = 5.0  # seconds that the other end may take for its line
_WAITING = 16  # connections that are not accepted yet
_TICK = 0.1  # seconds between two looks at whether a wait is interrupted
_MACOS_LOCAL, _MACOS_PEER = 0, 2  # SOL_LOCAL, LOCAL_PEERPID


class Listener:
    """Takes requests in a thread, until it is closed; then all connections are closed.

    `refuses` says why that process (0 if unknown) may ask for nothing; empty if it may. `take`
    replies to a request. Requests are taken one after another, and a reply may take any time.
    """

    def __init__(
        self, folder: Path, refuses: Callable[[int], str], take: Callable[[bytes], str]
    ) -> None:
        """StorageError PB-IO-WRITE if the folder cannot hold a socket."""
        self._path, self._refuses, self._take = folder / NAME, refuses, take
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connections: list[socket.socket] = []
        self._refused: list[socket.socket] = []
        try:
            self._path.unlink(missing_ok=True)
            with _short(folder) as short:
                self._socket.bind(f"{short}/{NAME}")
            self._path.chmod(0o600)
            self._socket.listen(_WAITING)
        except OSError as error:
            self._socket.close()
            message = f"cannot listen at {self._path}: {error.strerror or error}"
            raise StorageError("PB-IO-WRITE", message, where=str(self._path)) from error
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # `accept` returns
        self._socket.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(_PROMPT)
        for connection in self._connections:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            connection.settimeout(_PROMPT)
            refusal = self._refuses(peer(connection))
            self._drop_closed()
            self._connections.append(connection)
            with suppress(OSError):  # the other end has gone
                reply = refusal or self._take(_line(connection))
                connection.sendall(reply.encode() + b"\n")
            if refusal:  # it may still be writing its request
                self._refused.append(connection)
                if len(self._refused) > _WAITING:
                    self._connections.remove(oldest := self._refused.pop(0))
                    oldest.close()

    def waits(self) -> bool:
        """True if the process whose request is being taken still waits for the reply."""
        return bool(self._connections) and not _closed(self._connections[-1])

    def _drop_closed(self) -> None:
        for connection in [each for each in self._connections if _closed(each)]:
            self._connections.remove(connection)
            if connection in self._refused:
                self._refused.remove(connection)
            connection.close()


class Connection:
    """The end of the process that asks. OSError if nothing listens there, or no longer."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(_PROMPT)
            with _short(folder) as short:
                self._socket.connect(f"{short}/{NAME}")
            self.peer = peer(self._socket)
        except OSError:
            self._socket.close()
            raise

    def ask(self, request: bytes, interrupted: Callable[[], bool] | None = None) -> bytes:
        """Send one line; the line that comes back, empty if the listener has closed instead.

        It must come promptly, or with `interrupted` at any time: Interrupted once that is true.
        """
        self._socket.sendall(request + b"\n")
        if interrupted is not None:
            self._await(interrupted)
        return _line(self._socket)

    def _await(self, interrupted: Callable[[], bool]) -> None:
        self._socket.settimeout(_TICK)
        while True:
            if interrupted():
                raise Interrupted
            with suppress(TimeoutError):
                self._socket.recv(1, socket.MSG_PEEK)
                self._socket.settimeout(_PROMPT)
                return

    def wait(self, seconds: float) -> None:
        """Wait until the listener is closed, or its process has ended."""
        self._socket.settimeout(None if seconds == float("inf") else max(seconds, 0.001))
        with suppress(OSError):
            self._socket.recv(1)

    def close(self) -> None:
        self._socket.close()


def _closed(connection: socket.socket) -> bool:
    """True if our end is closed, or the other end is and nothing is left to read."""
    try:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        return bool(poll.poll(0)) and not connection.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):  # ValueError: ours
        return True


def _line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < _LARGEST:
        chunk = connection.recv(_LARGEST)
        if not chunk:
            break
        data += chunk
    return data.rstrip(b"\n")


def peer(connection: socket.socket) -> int:
    """The process at the other end; 0 if the system does not tell."""
    with suppress(OSError, AttributeError):
        if sys.platform == "darwin":
            return connection.getsockopt(_MACOS_LOCAL, _MACOS_PEER)
        size = struct.calcsize("3i")
        found: tuple[int, int, int] = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        pid, user, _ = found
        return pid if user in (os.geteuid(), 0) else 0
    return 0


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    if os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with TemporaryDirectory(dir="/tmp") as short:
        link = Path(short) / "f"
        link.symlink_to(folder)
        yield str(link)
