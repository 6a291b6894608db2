"""Outside isolation: carries out commands for the programs of a namespace that we start.

Each request is taken by a child of ours, which is warm: it has imported what it needs. It gets the
caller's standard descriptors and what the kernel tells of it, and believes nothing else. Requests
come through a socket that the program inside can connect to and cannot replace; see `forwarding`.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.channel import peer
from playbook_supervisor.system.process.child_process import not_startable, without_pointers
from playbook_supervisor.system.process.forwarding import COMMANDS, LARGEST, SIZE, STANDARD
from playbook_supervisor.system.process.leash_process import leave_abstract_sockets

_WAITING = 64  # connections that are not accepted yet
_MOST = 64  # requests that are carried out at the same time
_DESCRIPTORS = 4_096  # as many as a process of ours may have open
_PATIENCE = 5.0  # seconds that a caller may take for its request
_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
_SIGNALLED = 128  # a shell adds the number of the signal


@dataclass(frozen=True, slots=True)
class Request:
    """A command and the variables of its caller, as the caller says, and its process, as the
    kernel says. `sender` has made the pair of sockets from which its standard input is read: only
    that process, and those to which it gives the other end, can write there; 0 for other input."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    caller: ancestry.Process
    sender: int


Answer = Callable[[Request], int]
"""Carries out the request with the caller's standard descriptors; its exit status."""


@dataclass
class Broker:
    """One program in isolation, in our terminal, and the requests from inside.

    `answer` is called in a process of its own without a terminal. `isolation` says what isolates.
    """

    answer: Answer
    isolation: str
    _socket: socket.socket = field(init=False)
    _program: int = field(default=0, init=False)
    _working: dict[int, tuple[int, socket.socket]] = field(default_factory=dict, init=False)
    """By its descriptor: the process that answers a connection."""
    _poll: select.poll = field(default_factory=select.poll, init=False)

    def listen(self, path: Path) -> None:
        """Take requests there. StorageError PB-IO-WRITE if that is impossible."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(path))
            self._socket.listen(_WAITING)
        except OSError as error:
            said = f"cannot listen at {path}: {error.strerror or error}"
            raise StorageError("PB-IO-WRITE", said, where=str(path)) from error

    def run(self, argv: Sequence[str], env: Mapping[str, str], warm: Callable[[], None]) -> int:
        """Run the program to its end, and return its exit status.

        `warm` imports what answers need, while the program starts. StorageError PB-IO-PROGRAM.
        """
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        self._program = _start(argv, env)
        for number in (signal.SIGINT, signal.SIGQUIT):  # from the keyboard: they are the program's
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: _pass_on(self._program, number))
        warm()
        self._poll.register(woken, select.POLLIN)
        self._poll.register(self._socket, select.POLLIN)
        while (status := self._reaped()) is None:
            for ready, _ in self._poll.poll():
                if ready == woken:
                    with suppress(BlockingIOError):
                        os.read(woken, 1 << 10)
                elif ready == self._socket.fileno():
                    self._take()
                elif ready in self._working:  # its caller has gone
                    self._poll.modify(ready, 0)
                    os.kill(self._working[ready][0], signal.SIGTERM)
        self._close()
        return status

    def _take(self) -> None:
        connection, _ = self._socket.accept()
        caller = ancestry.process(peer(connection))
        above = ancestry.ancestors(caller.pid) if caller else ()
        inside = any(each.pid == self._program for each in above)
        if caller is None or len(self._working) >= _MOST or not inside:
            connection.close()
            return
        child = os.fork()
        if child == 0:
            self._answer(connection, caller)
        self._working[connection.fileno()] = child, connection
        self._poll.register(connection, _GONE)

    def _reaped(self) -> int | None:
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = reaped[0], os.waitstatus_to_exitcode(reaped[1])
                if pid == self._program:
                    return status if status >= 0 else _SIGNALLED - status
                for descriptor, (worker, connection) in list(self._working.items()):
                    if worker == pid:
                        del self._working[descriptor]
                        self._poll.unregister(descriptor)
                        connection.close()
        return None

    def _close(self) -> None:
        self._socket.close()
        for worker, connection in self._working.values():
            connection.close()
            os.kill(worker, signal.SIGTERM)
        self._working.clear()

    # ── in a child ──────────────────────────────────────────────────────────────────────────

    def _answer(self, connection: socket.socket, caller: ancestry.Process) -> NoReturn:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.closerange(STANDARD, own := connection.fileno())  # other callers wait for the end
            os.closerange(own + 1, _DESCRIPTORS)
            request = _received(connection, caller)
            if request is not None:
                ancestry.act_for(caller.pid, self.isolation)
                status = self.answer(request)
                sys.stdout.flush()
                sys.stderr.flush()
                connection.send(bytes([status & 0xFF]))
        finally:
            os._exit(0)


def _received(connection: socket.socket, caller: ancestry.Process) -> Request | None:
    """The request, whose descriptors are our standard ones from now on; None if it is refused."""
    connection.settimeout(_PATIENCE)
    with suppress(OSError, ValueError):
        length, descriptors, *_ = socket.recv_fds(connection, SIZE, STANDARD)
        size = int.from_bytes(length, "big")
        if len(length) != SIZE or len(descriptors) != STANDARD or size > LARGEST:
            return None
        data = b""
        while len(data) < size and (chunk := connection.recv(size - len(data))):
            data += chunk
        count, *words = map(os.fsdecode, data.split(b"\0")[:-1])
        argv, variables = words[: int(count)], words[int(count) :]
        # Its number may have been given to another process meanwhile.
        if (
            argv[:1] <= [""]
            or argv[0] not in COMMANDS
            or not ancestry.lives(caller.pid, caller.born)
        ):
            return None
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, closefd=False)  # noqa: SIM115
            for number, mode in enumerate(("r", "w", "w"))
        )
        environment = dict(each.partition("=")[::2] for each in variables)
        return Request(tuple(argv), environment, caller, _sender())
    return None


def _sender() -> int:
    with suppress(OSError), socket.socket(fileno=os.dup(0)) as end:
        return peer(end)
    return 0


# ── the program ─────────────────────────────────────────────────────────────────────────────


def become(argv: Sequence[str]) -> NoReturn:
    """Be that program from now on, as it is on PATH. StorageError PB-IO-PROGRAM."""
    try:
        os.execvp(argv[0], [*argv])  # noqa: S606 - without a shell
    except OSError as error:
        raise not_startable(argv, Path.cwd(), error) from error


def _start(argv: Sequence[str], env: Mapping[str, str]) -> int:
    failure, failed = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):  # Python ignores two
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            leave_abstract_sockets()
            os.execvpe(argv[0], [*argv], without_pointers(env))  # noqa: S606 - without a shell
        except OSError as error:
            os.write(failed, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(failed)
    with open(failure, "rb") as told:  # noqa: PTH123
        reason = told.read()
    if reason:
        os.waitpid(child, 0)
        raise not_startable(argv, Path.cwd(), OSError(int(reason), os.strerror(int(reason))))
    return child


def _pass_on(program: int, number: int) -> None:
    """Send the signal to the first process inside; what isolates it would end it at once."""
    pid = program
    with suppress(OSError, IndexError):
        for _ in range(2):
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    with suppress(ProcessLookupError):
        os.kill(pid, number)
