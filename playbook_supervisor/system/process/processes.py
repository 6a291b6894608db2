"""Child processes: an argv, never a shell; a deadline; the whole group ends together.

Each child leads a session and a group of its own, inherits no descriptor but the standard three and
its worker file, and its captured output is bounded.
"""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol

from playbook_supervisor.errors import PlaybookError, PolicyError, StorageError
from playbook_supervisor.records import Record
from playbook_supervisor.system.process import leash_process
from playbook_supervisor.system.process.cancellation import (
    Interrupted,
    cancel_requested,
    ending_on_signals,
)
from playbook_supervisor.system.process.capture import Capture, LineSplitter
from playbook_supervisor.system.process.child_process import (
    feed_input,
    opened,
    ready_pipes,
    spawn,
    without_pointers,
)
from playbook_supervisor.system.process.process_groups import (
    MARK,
    detach,
    kill_worker,
    signal_group,
    until,
)

if TYPE_CHECKING:
    import subprocess

    from playbook_supervisor.system.process.leash import Leash


class Isolation(Protocol):
    """What keeps powers from a program; `system.isolation.sandbox` is it."""

    def opened(self) -> AbstractContextManager[Isolation]:
        """The same for one program, with what has to run outside while it does."""

    def command(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        """What to start in its place. StorageError PB-IO-PROGRAM if it cannot start."""

    def status(self, returned: int) -> int:
        """The program's exit status; negative if a signal has ended it."""

    def hint(self, output: str) -> str:
        """The setting that would let a program do what it complains about, or nothing."""

    def unprotected(self) -> Mapping[Path, str]:
        """What nothing protects while the program runs."""

    def removed(self, before: Mapping[Path, str], *, runs: bool = False) -> PolicyError | None:
        """Move away what has changed there; the error that says so, if anything has. While the
        program `runs`, only what must not be there for a moment."""


NOTICE = 10.0  # seconds before its deadline that a child is asked to end
_GLANCE = 1.0  # seconds between two looks at what an isolated child must not make
_DRAIN = 0.5  # seconds to go on reading after the leader has ended, if others hold its pipes
_CHUNK, _ENDLESS = 1 << 16, 1 << 27  # bytes read at once, and printed by a short command at most


class Completed(Record):
    """The result of a short command; `truncated` if either output was cut, with a mark there.
    `hint` says which setting of its isolation it may have failed for."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    hint: str = ""


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float | None = None,
    cap: int = 1_000_000,
    isolation: Isolation | None = None,
) -> Completed:
    """Run a short command; after `timeout` seconds, or 128 MB of output, end its whole group.

    It runs in its `isolation`, if there is one. `cap` bytes of each output are kept. StorageError
    PB-IO-PROGRAM if it cannot be started, Interrupted if a person asked to stop. Exit statuses
    raise nothing; a signal's is negative.
    """
    with ending_on_signals():
        worker = Worker(
            argv, cwd=cwd, env=env, stdin=stdin, wall=timeout, cap=cap, isolation=isolation
        )
        read = 0
        for line in worker.lines():
            if (read := read + len(line) + 1) > _ENDLESS:
                break
        if worker.stopped_by == "stop" and read <= _ENDLESS:
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
        os.execvpe(argv[0], [*argv], {**without_pointers(os.environ), "PWD": str(cwd)})  # noqa: S606
    except OSError as error:
        message = f"cannot start {argv[0]!r}: {error.strerror}"
        raise StorageError("PB-IO-PROGRAM", message, cause=str(error)) from error


def run_detached(work: Callable[[], None]) -> None:
    """Do the work in a detached process, if one can start. Call it while there is one thread."""
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
    `POINTERS`. `stdin` is fed to it, or is a descriptor that it reads and that the caller closes.
    `wall` limits its run time and `idle` its silence, in seconds; time that the reader
    of `lines()` spends is not silence. At a deadline, a `stop()` or an abandoned `lines()` the
    whole group ends; if the child ends by itself, processes that it started may keep running.

    With a `worker_file`, the child is on a leash: all that it has started ends with it, and with
    us, unless it `outlives` us. All of them hold a lock on that file while they live
    (`worker_alive`, `kill_worker`), and their environment names it (`MARK`). StateError
    PB-STATE-DRIVEN if others still hold it.

    With a `deadline` on the clock of `leash_process.now`, which only a child on a leash can have,
    all of them have ended by then unless it is put off (`prolong`), even if we are stopped. The
    child is asked to end `notice` seconds before, the others after half of that time.

    With an `isolation`, the child runs in it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: bytes | int = b"",
        worker_file: Path | None = None,
        outlives: bool = False,
        deadline: float | None = None,
        notice: float = NOTICE,
        wall: float | None = None,
        idle: float | None = None,
        cap: int = 1_000_000,
        isolation: Isolation | None = None,
    ) -> None:
        self._stopped_by: Literal["", "wall", "idle", "stop"] = ""
        self._wall, self._idle, self._cap = wall, idle, cap
        self._stdin, self._worker_file = stdin, worker_file
        self._stdout, self._stderr = Capture(cap), Capture(cap)
        self._process: subprocess.Popen[bytes] | Leash
        self._leash: Leash | None = None
        self._ending = threading.Lock()
        self._reader_time = 0.0  # seconds that the reader of lines() spent
        self._started = time.monotonic()
        environment = os.environ if env is None else env
        self._isolation = isolation
        self._unprotected: Mapping[Path, str] = {}
        self._planted: PolicyError | None = None
        self._looked = 0.0
        with ExitStack() as running:
            if isolation is not None:
                self._isolation = isolation = running.enter_context(isolation.opened())
                argv, environment = isolation.command(argv, cwd, environment)
                self._unprotected = isolation.unprotected()
            if worker_file is None:
                self._process = spawn(argv, cwd, environment, stdin=stdin)
            else:
                from playbook_supervisor.system.process import leash

                self._process = self._leash = leash.start(
                    worker_file,
                    argv,
                    cwd,
                    {**without_pointers(environment), MARK: str(worker_file)},
                    stdin,
                    outlives=outlives,
                    deadline=deadline,
                    grace=leash_process.GRACE if deadline is None else notice,
                    isolates=isolation is not None,
                )
            self._opened = running.pop_all()

    @property
    def pid(self) -> int:
        return self._leash.worker if self._leash else self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative if a signal ended it, or its leash."""
        reported = self._leash.returncode if self._leash else None
        found = self._process.poll() if reported is None else reported
        return found if found is None or self._isolation is None else self._isolation.status(found)

    @property
    def stopped_by(self) -> Literal["", "wall", "idle", "stop", "deadline"]:
        """The reason of its end; empty if it ended by itself."""
        overdue = self._leash is not None and self._leash.overdue
        return self._stopped_by or ("deadline" if overdue else "")

    @property
    def left(self) -> tuple[str, ...]:
        """The processes that it left behind and that were ended: name and number."""
        return tuple(self._leash.left) if self._leash else ()

    @property
    def kept(self) -> tuple[str, ...]:
        """The processes that it left behind and that could not be ended."""
        return tuple(self._leash.kept) if self._leash else ()

    @property
    def stdout(self) -> str:
        """Its output; only the beginning and the end if that is more than `cap` bytes."""
        return self._stdout.text()

    @property
    def stderr(self) -> str:
        return self._stderr.text()

    @property
    def hint(self) -> str:
        """If it failed: the setting of its isolation that it may have failed for, or nothing."""
        if self._isolation is None or not self.returncode:
            return ""
        return self._isolation.hint(f"{self.stderr}\n{self.stdout}")

    @property
    def truncated(self) -> bool:
        return self._stdout.cut or self._stderr.cut

    def lines(self, on_error: Callable[[str], None] | None = None) -> Iterator[str]:
        """Its standard output, line by line, invalid UTF-8 replaced. Read it once.

        `on_error` is called with the lines of its standard error. Ends with the child. A line of
        more than `cap` bytes is cut there and marked. If the reader stops early, the group is
        ended. At its end PolicyError PB-POLICY-ISOLATION if it wrote what git or the client would
        read as settings.
        """
        shown = (self._stdout, self._stderr) if on_error else (self._stdout,)
        try:
            for lines in self._read({capture: LineSplitter(self._cap) for capture in shown}):
                left = time.monotonic()
                for capture, line in lines:
                    if on_error is None or capture is self._stdout:
                        yield line
                    else:
                        on_error(line)
                self._reader_time += time.monotonic() - left
        finally:
            self._end("stop")
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
            if self._leash is not None:
                self._leash.close()
            if self._worker_file is not None:
                with suppress(PlaybookError):  # what the leash did not reach, or was killed before
                    kill_worker(self._worker_file)
                with suppress(OSError):
                    self._worker_file.unlink()
            self._opened.close()
            self._look_for_planted()
        if self._planted is not None:
            raise self._planted

    def extend(self, seconds: float) -> None:
        """Give it so many more seconds of run time."""
        if self._wall is not None:
            self._wall += seconds

    def prolong(self, deadline: float) -> None:
        """Put its deadline off, unless it is being ended. Any thread may call it."""
        if self._leash is not None:
            self._leash.prolong(deadline)

    def stop(self) -> None:
        """End the group: SIGTERM, SIGKILL after 2 s or its notice. Any thread may call it."""
        self._end("stop")

    def _read(
        self, splitters: Mapping[Capture, LineSplitter]
    ) -> Iterator[list[tuple[Capture, str]]]:
        process = self._process
        unfed = memoryview(self._stdin if isinstance(self._stdin, bytes) else b"")
        last_output = self._started
        ended: float | None = None
        with selectors.DefaultSelector() as selector:
            for pipe, capture in ((process.stdout, self._stdout), (process.stderr, self._stderr)):
                selector.register(opened(pipe), selectors.EVENT_READ, capture)
            if unfed:
                selector.register(opened(process.stdin), selectors.EVENT_WRITE)
            if self._leash is not None:
                selector.register(self._leash.report, selectors.EVENT_READ, self._leash)
            while selector.get_map() or process.poll() is None:
                lines: list[tuple[Capture, str]] = []
                for key, _ in ready_pipes(selector, process.poll):
                    if key.data is None:
                        unfed = feed_input(key.fd, unfed)
                        if not unfed:
                            selector.unregister(key.fileobj)
                            opened(process.stdin).close()
                        continue
                    if self._leash is not None and key.data is self._leash:
                        if not self._leash.hear():
                            selector.unregister(key.fileobj)
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    last_output = self._now()
                    key.data.add(chunk)
                    if key.data in splitters:
                        lines += [(key.data, line) for line in splitters[key.data].feed(chunk)]
                    if not chunk:
                        selector.unregister(key.fileobj)
                if lines:
                    yield lines
                if self.returncode is None:
                    self._end_if_overdue(last_output)
                elif process.poll() is None:  # its leash ends what it has left behind
                    continue
                elif ended is None:
                    ended = self._now()
                elif self._now() - ended > _DRAIN:
                    break
        yield [(kept, line) for kept, splitter in splitters.items() for line in splitter.rest()]

    def _now(self) -> float:
        return time.monotonic() - self._reader_time

    def _look_for_planted(self, *, runs: bool = False) -> None:
        if self._isolation is not None and self._planted is None:
            self._planted = self._isolation.removed(self._unprotected, runs=runs)

    def _end_if_overdue(self, last_output: float) -> None:
        if self._wall is not None and time.monotonic() - self._started > self._wall:
            self._end("wall")
        elif self._idle is not None and self._now() - last_output > self._idle:
            self._end("idle")
        elif cancel_requested():
            self._end("stop")
        elif self._isolation is not None and time.monotonic() - self._looked > _GLANCE:
            self._looked = time.monotonic()
            self._look_for_planted(runs=True)
            if self._planted is not None:
                self._end("stop")

    def _end(self, why: Literal["wall", "idle", "stop"]) -> None:
        """End the group unless its leader has ended; another thread may be doing so already."""
        with self._ending:
            if self._process.poll() is not None:
                return
            if self.returncode is None:
                self._stopped_by = why
            group = self._process.pid
            if self._leash is None:
                signal_group(group, SIGTERM)
            else:
                self._leash.stop()
            patience = leash_process.PATIENCE
            grace = self._leash.grace + patience if self._leash else leash_process.GRACE
            # Reap the leader first: as a zombie it would count as a living member.
            if not until(
                lambda: self._process.poll() is not None and not signal_group(group, 0), grace
            ):
                signal_group(group, SIGKILL)
                until(lambda: self._process.poll() is not None, patience)
