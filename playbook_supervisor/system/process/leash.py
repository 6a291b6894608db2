"""A worker on a leash: a small process between the worker and its runner.

The leash starts the worker, and ends all that the worker has started: when the worker has ended,
when the runner asks for it, and when the runner is gone. `leash_process` is the other end.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from signal import SIGKILL
from typing import IO

from playbook_supervisor.system.process import leash_process
from playbook_supervisor.system.process.child_process import not_startable, spawn_silent
from playbook_supervisor.system.process.process_groups import lock_worker_file, worker_record

_NAMED = 5  # of the processes that a program left behind
_CHUNK = 1 << 16


class Leash:
    """A worker that is started on a leash; to its runner it is like a `Popen`.

    `pid` and `poll` are the leash's, which leads a group of its own; `worker` is the number of the
    worker's process, and `returncode` its status, None until it is reported. `report` is readable
    when there is something to `hear`. `overdue`: the leash has ended it because of its deadline.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        stdin: bytes | int,
        lock: int,
        outlives: bool,
        deadline: float | None,
        grace: float,
        isolates: bool,
    ) -> None:
        """Start it. `lock` is inherited; `stdin` is a descriptor, or bytes that are fed later.

        It only `isolates` others, which are asked to end before it is ended. `grace` is the seconds
        between SIGTERM and SIGKILL, and `deadline` when all has ended, on the clock of
        `leash_process.now`.
        OSError if that is impossible, ValueError if a text cannot be given to a program.
        """
        self.returncode: int | None = None
        self.grace = grace
        self.overdue = False
        self.left: list[str] = []
        self.kept: list[str] = []
        self.stdin: IO[bytes] | None = None
        self._unread = b""
        self._over = self._closed = False
        self._turn = threading.Lock()
        words = [os.fsencode(word) for word in argv] or [b""]
        variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        request = marshal.dumps(
            (words, os.fsencode(cwd), variables, outlives, grace, deadline, isolates)
        )
        with ExitStack() as theirs, ExitStack() as ours:
            if isinstance(stdin, int):
                given = stdin
            elif stdin:
                given, feed = _pipe(theirs, to_us=False)
                self.stdin = ours.enter_context(os.fdopen(feed, "wb", 0))
            else:
                given = os.open(os.devnull, os.O_RDONLY)
                theirs.callback(os.close, given)
            to_stdout, stdout = _pipe(theirs, to_us=True)
            self.stdout = ours.enter_context(os.fdopen(stdout, "rb", 0))
            to_stderr, stderr = _pipe(theirs, to_us=True)
            self.stderr = ours.enter_context(os.fdopen(stderr, "rb", 0))
            report, self.report = _pipe(theirs, to_us=True)
            ours.callback(os.close, self.report)
            control, self._control = _pipe(theirs, to_us=False)
            ours.callback(os.close, self._control)
            self.pid = _forked((given, to_stdout, to_stderr, lock, control, report))
            theirs.close()
            with os.fdopen(self._control, "wb", closefd=False) as requests:
                requests.write(len(request).to_bytes(leash_process.SIZE, "big") + request)
            self.worker = self._started()
            ours.pop_all()
        os.set_blocking(self.report, False)
        os.set_blocking(self._control, False)

    def _started(self) -> int:
        said = b""
        while not said.endswith(b"\n"):  # the worker's end is not reported in the same write
            byte = os.read(self.report, 1)
            if not byte:
                raise OSError("its leash ended at once")
            said += byte
        word, _, number = said.decode().partition(" ")
        if word == "failed":
            raise OSError(int(number), os.strerror(int(number)))
        return int(number)

    def hear(self) -> bool:
        """Read what has been reported; whether more may follow. Any thread may call it."""
        with self._turn:
            while not self._over:
                try:
                    chunk = os.read(self.report, _CHUNK)
                except BlockingIOError:
                    return True
                self._over = not chunk
                *lines, self._unread = (self._unread + chunk).split(b"\n")
                for line in lines:
                    self._note(line.decode("utf-8", "replace"))
            return False

    def _note(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "ended":
            self.returncode = int(rest)
        elif word == "overdue":
            self.overdue = True
        else:
            (self.left if word == "left" else self.kept).append(rest)

    def poll(self) -> int | None:
        """The status of the worker, or SIGKILL's, once the leash has ended; else None."""
        if self.hear():
            return None
        return -SIGKILL if self.returncode is None else self.returncode

    def stop(self) -> None:
        """Ask it to end the worker and all that the worker has started."""
        self._tell(leash_process.STOP)

    def prolong(self, deadline: float) -> None:
        """Put off the deadline that it was given. Any thread may call it."""
        milliseconds = max(0, int(deadline * 1000)).to_bytes(leash_process.SIZE, "big")
        self._tell(leash_process.DEADLINE + milliseconds)

    def _tell(self, message: bytes) -> None:
        with self._turn:
            if not self._closed:  # as a number, the descriptor may be another file's by now
                with suppress(BrokenPipeError, BlockingIOError):  # it has ended, or is stopped
                    os.write(self._control, message)

    def close(self) -> None:
        """Close our end; what it has reported until now can still be read."""
        self.hear()
        with self._turn:
            self._over = self._closed = True
            os.close(self.report)
            os.close(self._control)


def start(
    worker_file: Path,
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes | int,
    *,
    outlives: bool,
    deadline: float | None,
    grace: float,
    isolates: bool = False,
) -> Leash:
    """Start a worker on a leash; they alone keep the lock on the worker file.

    StateError and StorageError as `lock_worker_file` and `not_startable`.
    """
    lock = lock_worker_file(worker_file)
    try:
        leash = Leash(
            argv,
            cwd,
            env,
            stdin=stdin,
            lock=lock,
            outlives=outlives,
            deadline=deadline,
            grace=grace,
            isolates=isolates,
        )
        with suppress(OSError):  # the disk is full: with a /proc, the lock is enough
            os.write(lock, worker_record(leash.pid))
    except (OSError, ValueError) as error:
        with suppress(OSError):
            worker_file.unlink()
        raise not_startable(argv, cwd, error) from error
    finally:
        os.close(lock)
    return leash


class _Server:
    """The process that forks our leashes: an interpreter takes long to start."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            program = (sys.executable, "-I", "-S", leash_process.__file__)
            self._process = spawn_silent(program, stdin=theirs.fileno())

    def fork(self, descriptors: Sequence[int]) -> int:
        """The process of a new leash, which has these descriptors. ConnectionError if we have no
        server any more, OSError if the system allows no more processes."""
        socket.send_fds(self._socket, [b"."], descriptors)
        answer = self._socket.recv(20)
        if not answer:
            raise ConnectionResetError
        if (number := int(answer)) < 0:
            raise OSError(-number, os.strerror(-number))
        return number

    def close(self) -> None:
        self._socket.close()
        with suppress(ChildProcessError):  # a process that was forked has its parent's server
            os.waitpid(self._process, 0)


_servers: dict[int, _Server] = {}
"""The server of this process, by our number: a process that was forked needs one of its own."""
_turn = threading.Lock()


def _forked(descriptors: Sequence[int]) -> int:
    with _turn:
        if server := _servers.get(os.getpid()):
            with suppress(ConnectionError):  # it was killed
                return server.fork(descriptors)
        while _servers:
            _servers.popitem()[1].close()
        server = _servers[os.getpid()] = _Server()
        return server.fork(descriptors)


def _pipe(theirs: ExitStack, *, to_us: bool) -> tuple[int, int]:
    reading, writing = os.pipe()
    other, our = (writing, reading) if to_us else (reading, writing)
    theirs.callback(os.close, other)
    return other, our


def abandoned(left: Sequence[str], kept: Sequence[str]) -> Iterator[str]:
    """Sentences that name the processes that still ran when their program had ended.

    `left` were ended then, `kept` cannot be ended.
    """
    for found, became in (
        (left, "it left processes behind, which were ended"),
        (kept, "it left processes behind, which cannot be ended"),
    ):
        if found:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            yield f"{became}: {', '.join(found[:_NAMED])}{more}"
