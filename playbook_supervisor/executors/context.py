"""The context of one task: its folder, its deadlines, its programs, and what it says."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.project.bounds import admit_program
from playbook_supervisor.project.config import Config
from playbook_supervisor.project.secrets import forms
from playbook_supervisor.records import Record, field
from playbook_supervisor.system.capture import redact
from playbook_supervisor.system.leash import abandoned
from playbook_supervisor.system.processes import Completed, Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Why = Literal["", "wall", "idle", "stop"]

_OURS = frozenset({"git", "gh"})
"""What executors of ours start, with arguments of their own."""
CAP = 1_000_000
"""Bytes of output that are kept unless the step says otherwise."""


class Place(Record, kw_only=True):
    """Where a task runs, and within which limits. `wall` and `idle` are seconds.

    `env` is added to our environment for its programs. Every process of the task inherits
    `worker_file`, open and locked, and ends with the task; with us, too, unless it `outlives` us.
    The values in `secrets` are never shown.
    """

    root: Path
    cwd: Path
    config: Config
    env: Mapping[str, str] = field(default_factory=dict)
    cap: int = CAP
    wall: float | None = None
    idle: float | None = None
    worker_file: Path | None = None
    outlives: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Stopped(Exception):  # noqa: N818 - not an error of the executor
    """The step was stopped while a program ran; let it pass through `execute`."""


class Context:
    """Where a task is carried out. Safe to use from several threads: programs take turns.

    `root` is the top of the checkout; nothing outside it may be written. `cwd` is the working
    directory of the step, inside `root`, and `config` the settings of the session, with `allow` and
    `deny`. `cap` is how many bytes of output are kept. `idle` is how many seconds the step may wait
    in silence, which `run` observes; None for any time.

    `on_line` receives the lines to show, up to `cap` bytes, `log` all of them.
    """

    def __init__(
        self,
        place: Place,
        on_line: Callable[[str], None] = lambda _: None,
        log: Callable[[str], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.place = place
        self.root, self.cwd, self.config = place.root, place.cwd, place.config
        self.cap, self.idle = place.cap, place.idle
        self.secrets = place.secrets
        self.why: Why = ""
        self._on_line, self._log, self._on_notice = on_line, log, on_notice
        self._left = place.cap
        self._began = time.monotonic()
        self._state, self._saying, self._turn = (threading.Lock() for _ in range(3))
        self._ends: list[Callable[[], None]] = []

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline of the step; None for no deadline."""
        if self.place.wall is None:
            return None
        return max(0.0, self._began + self.place.wall - time.monotonic())

    @property
    def stopped(self) -> bool:
        """Whether the step is to end now: its deadline has passed, or a person stopped it."""
        return self.why != ""

    def on_stop(self, end: Callable[[], None]) -> None:
        """Call `end` when the step is stopped; at once if it already is."""
        with self._state:
            if not self.stopped:
                self._ends.append(end)
                return
        end()

    def stop(self, why: Why = "stop") -> None:
        """Stop the task, from any thread; the first reason counts. Returns when its ends have."""
        with self._state:
            if self.stopped:
                return
            self.why = why
            ends, self._ends = self._ends, []
        for end in ends:
            with suppress(Exception):  # a plugin's fault must not keep the others from ending
                end()

    def hide(self, value: str) -> None:
        """Show the value nowhere from now on: it is a secret that the executor has found."""
        self.secrets = (*self.secrets, *forms(value))

    def say(self, line: str) -> None:
        """Show a line of output and log it. It is sanitized, and secrets are removed."""
        for each in printable(line, keep_newlines=True).split("\n"):
            text = redact(each, self.secrets)
            if text.strip():
                self._say(text)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | int = b"",
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        quiet: bool = False,
        on_line: Callable[[str], None] | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run a program to its end and say its lines, those of stderr, too, unless `quiet`.

        To talk with it, let it read a descriptor as `stdin`, which remains yours to close, and
        take the lines of its stdout with `on_line`, in this thread; they are not said then.
        It inherits our environment, and `env` is added to it, or removed where it is None; `cwd` is
        the step's by default.
        After `timeout` seconds it is ended (`timed_out`). All that it started ends with it. At most
        `cap` bytes of each output are returned, as they were printed: secrets are not removed. Exit
        statuses raise nothing; a signal's is negative.
        PolicyError PB-POLICY-DENIED if the project does not let steps run it, StorageError
        PB-IO-PROGRAM if it cannot be started, Stopped once the step is stopped.
        """
        place, folder = self.place, cwd or self.cwd
        asked = {**os.environ, **place.env, **(env or {})}
        ours = argv[0] in _OURS  # `cli git` is admitted by its own executor
        admit_program(place.config, argv, folder, by="us" if ours else "playbook", env=asked)
        with self._turn:
            if self.stopped:
                raise Stopped
            worker = Worker(
                argv,
                cwd=folder,
                env={name: value for name, value in asked.items() if value is not None},
                stdin=stdin,
                worker_file=place.worker_file,
                outlives=place.outlives,
                wall=timeout,
                idle=place.idle,
                cap=place.cap,
            )
            self.on_stop(worker.stop)
            try:
                shown = self.say if not quiet else lambda _: None
                for line in worker.lines(shown):
                    (on_line or shown)(line)
            finally:
                with self._state, suppress(ValueError):
                    self._ends.remove(worker.stop)
        self._tell_left_behind(worker)
        if worker.stopped_by == "idle":
            self.stop("idle")
        timed_out = worker.stopped_by == "wall"
        if self.stopped or (worker.stopped_by and not timed_out):
            raise Stopped
        return Completed(
            returncode=worker.returncode or 0,  # never None: lines() ends with the process
            stdout=worker.stdout,
            stderr=worker.stderr,
            timed_out=timed_out,
            truncated=worker.truncated,
        )

    def _say(self, text: str) -> None:
        with self._saying:
            self._log(text)
            if self._left < 0:
                return
            self._left -= len(text.encode())
            cut = f"… cut: more than {self.cap} bytes of output"
            self._on_line(text if self._left >= 0 else cut)

    def _tell_left_behind(self, worker: Worker) -> None:
        for notice in abandoned(worker.left, worker.kept):
            self._log(notice)
            self._on_notice(printable(notice))
