"""Child processes: an argv, never a shell; a deadline; the whole group ends together.

The only module that starts a process. Each child leads a session and a group of its own, inherits
no descriptor but the standard three and its worker file, and its captured output is bounded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, SIGTERM

from playbook_supervisor.errors import StorageError
from playbook_supervisor.records import Record
from playbook_supervisor.system.cancellation import Interrupted, cancel_requested, ending_on_signals
from playbook_supervisor.system.capture import Capture, LineSplitter
from playbook_supervisor.system.process_groups import (
    GRACE,
    PATIENCE,
    detach,
    group_alive,
    lock_worker_file,
    signal_group,
    until,
    worker_record,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from selectors import BaseSelector, SelectorKey
    from typing import IO, Literal, NoReturn

POINTERS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"})
"""Set if git runs us. They are removed for children, so that the working directory decides."""
_DRAIN = 0.5
"""Seconds to go on reading after the leader has ended, if other processes hold its pipes."""
_TICK = 0.1
"""Seconds between two checks of a silent child."""
_CHUNK = 1 << 16
_FED_AT_ONCE = 512  # POSIX: a pipe reported writable takes this much without blocking
_NOT_STARTABLE = "Check its permissions, its arguments and the limit of open files (`ulimit -n`)."


class Completed(Record):
    """The result of a short command; `truncated` if either output was cut, with a mark there."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float | None = None,
    cap: int = 1_000_000,
) -> Completed:
    """Run a short command; after `timeout` seconds, end its whole group.

    `cap` bytes of each output are kept. StorageError PB-IO-PROGRAM if it cannot be started,
    Interrupted if a person asked to stop. Exit statuses raise nothing; a signal's is negative.
    """
    with ending_on_signals():
        worker = Worker(argv, cwd=cwd, env=env, stdin=stdin, wall=timeout, cap=cap)
        for _ in worker.lines():
            pass
        if worker.stopped_by == "stop":
            raise Interrupted
    return Completed(
        returncode=worker.returncode or 0,  # never None: lines() ends with the process
        stdout=worker.stdout,
        stderr=worker.stderr,
        timed_out=worker.stopped_by == "wall",
        truncated=worker.truncated,
    )


def replace_process(argv: Sequence[str], *, cwd: Path) -> NoReturn:
    """Replace this process with another program. StorageError PB-IO-PROGRAM if it cannot start."""
    try:
        os.chdir(cwd)
        os.execvpe(argv[0], [*argv], {**_without_pointers(os.environ), "PWD": str(cwd)})  # noqa: S606
    except OSError as error:
        message = f"cannot start {argv[0]!r}: {error.strerror}"
        raise StorageError("PB-IO-PROGRAM", message, cause=str(error)) from error


def run_detached(work: Callable[[], None]) -> None:
    """Do the work in a detached process, without waiting for it.

    Do nothing if no process can be started. Call it while there is only one thread.
    """
    with suppress(OSError):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            if os.fork() == 0:  # its parent ends at once, so init reaps it
                detach()
                work()
        finally:
            os._exit(0)


class Worker:
    """One long-running child and its process group.

    The constructor starts it (StorageError PB-IO-PROGRAM if that fails); the caller reads
    `lines()` to the end. `env` is its whole environment, ours by default, in both cases without
    `POINTERS`. `wall` limits its run time and `idle` its silence, in seconds; time that the reader
    of `lines()` spends is not silence. At a deadline, a `stop()` or an abandoned `lines()` the
    whole group ends; if the child ends by itself, processes that it started may go on.

    With a `worker_file`, the child and its descendants hold a lock on that file while they live
    (`worker_alive`, `kill_worker`). StateError PB-STATE-DRIVEN if others still hold it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        worker_file: Path | None = None,
        wall: float | None = None,
        idle: float | None = None,
        cap: int = 1_000_000,
    ) -> None:
        import threading

        self.stopped_by: Literal["", "wall", "idle", "stop"] = ""
        self._wall, self._idle, self._cap = wall, idle, cap
        self._stdin = stdin
        self._stdout, self._stderr = Capture(cap), Capture(cap)
        self._worker_file = worker_file
        self._ending = threading.Lock()
        self._reader_time = 0.0  # seconds that the reader of lines() spent
        self._started = time.monotonic()
        if worker_file is None:
            self._process = _spawn(argv, cwd, env, feed=bool(stdin))
        else:
            self._process = self._spawn_holding(worker_file, argv, cwd, env)

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self._process.poll()

    @property
    def stdout(self) -> str:
        """Its output; only the beginning and the end if that is more than `cap` bytes."""
        return self._stdout.text()

    @property
    def stderr(self) -> str:
        return self._stderr.text()

    @property
    def truncated(self) -> bool:
        return self._stdout.cut or self._stderr.cut

    def lines(self) -> Iterator[str]:
        """Its standard output, line by line, invalid UTF-8 replaced. Read it once.

        Ends with the child. A line of more than `cap` bytes is cut there and marked. If the
        reader stops early, the group is ended.
        """
        try:
            for lines in self._read():
                left = time.monotonic()
                yield from lines
                self._reader_time += time.monotonic() - left
        finally:
            self._end("stop")
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
            if self._worker_file is not None:
                with suppress(OSError):
                    self._worker_file.unlink()

    def stop(self) -> None:
        """End the group: SIGTERM, then SIGKILL after two seconds. Any thread may call it."""
        self._end("stop")

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _spawn_holding(
        self, worker_file: Path, argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        """Start the child with a locked descriptor and close ours, so that only it has the lock."""
        descriptor = lock_worker_file(worker_file)
        try:
            process = _spawn(argv, cwd, env, feed=bool(self._stdin), inherited=(descriptor,))
            with suppress(OSError):  # the disk is full: with a /proc, the lock is enough
                os.write(descriptor, worker_record(process.pid))
        except StorageError:
            with suppress(OSError):
                worker_file.unlink()
            raise
        finally:
            os.close(descriptor)
        return process

    def _read(self) -> Iterator[list[str]]:
        """Feed and read the child until it has ended; yield the lines of each round."""
        import selectors

        process = self._process
        splitter = LineSplitter(self._cap)
        unfed = memoryview(self._stdin)
        last_output = self._started
        ended: float | None = None
        with selectors.DefaultSelector() as selector:
            for pipe, capture in ((process.stdout, self._stdout), (process.stderr, self._stderr)):
                selector.register(_open(pipe), selectors.EVENT_READ, capture)
            if unfed:
                selector.register(_open(process.stdin), selectors.EVENT_WRITE)
            while selector.get_map() or process.poll() is None:
                lines: list[str] = []
                for key, _ in _wait(selector, process):
                    if key.data is None:
                        unfed = _feed(key.fd, unfed)
                        if not unfed:
                            selector.unregister(key.fileobj)
                            _open(process.stdin).close()
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    last_output = self._now()
                    key.data.add(chunk)
                    if key.data is self._stdout:
                        lines += splitter.feed(chunk)
                    if not chunk:
                        selector.unregister(key.fileobj)
                if lines:
                    yield lines
                if process.poll() is None:
                    self._end_if_overdue(last_output)
                elif ended is None:
                    ended = self._now()
                elif self._now() - ended > _DRAIN:
                    break
        yield splitter.rest()

    def _now(self) -> float:
        return time.monotonic() - self._reader_time

    def _end_if_overdue(self, last_output: float) -> None:
        if self._wall is not None and time.monotonic() - self._started > self._wall:
            self._end("wall")
        elif self._idle is not None and self._now() - last_output > self._idle:
            self._end("idle")
        elif cancel_requested():
            self._end("stop")

    def _end(self, why: Literal["wall", "idle", "stop"]) -> None:
        """End the group unless its leader has ended; another thread may be doing so already."""
        with self._ending:
            if self._process.poll() is not None:
                return
            self.stopped_by = why
            group = self._process.pid
            signal_group(group, SIGTERM)
            # Reap the leader first: as a zombie it would count as a living member.
            if not until(
                lambda: self._process.poll() is not None and not group_alive(group), GRACE
            ):
                signal_group(group, SIGKILL)
                until(lambda: self._process.poll() is not None, PATIENCE)


# ── a child's pipes ─────────────────────────────────────────────────────────────────────────


def _spawn(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None,
    *,
    feed: bool,
    inherited: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    import subprocess

    try:
        return subprocess.Popen(
            list(argv) or [""],
            cwd=cwd,
            env=_without_pointers(os.environ if env is None else env),
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            close_fds=True,
            pass_fds=inherited,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL, or a lone surrogate
        if not cwd.is_dir():
            raise StorageError(
                "PB-IO-READ", f"the folder {cwd} is gone", where=str(cwd), cause=str(error)
            ) from error
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise StorageError(
            "PB-IO-PROGRAM",
            f"cannot start {(*argv, '')[0]!r}: {reason}",
            guidance="" if isinstance(error, FileNotFoundError) else _NOT_STARTABLE,
            cause=reason,
        ) from error


def _without_pointers(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in POINTERS}


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - `_spawn` asked for it
    return pipe


def _wait(
    selector: BaseSelector, process: subprocess.Popen[bytes]
) -> list[tuple[SelectorKey, int]]:
    """The pipes that are ready within a tick; once all are closed, wait for the process instead."""
    import subprocess

    if selector.get_map():
        return selector.select(_TICK)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_TICK)
    return []


def _feed(descriptor: int, unfed: memoryview) -> memoryview:
    """Write some input; return the rest, empty once the child has stopped reading."""
    try:
        return unfed[os.write(descriptor, unfed[:_FED_AT_ONCE]) :]
    except BrokenPipeError:
        return unfed[:0]
