"""The contract of an executor, which carries out one kind of step, and how it carries out a task.

An executor knows nothing of sessions, of the journal or of other steps. It is a plain
function of a task and a context; a plugin need not know asyncio. Deadlines, exceptions, control
characters, secrets and caps are handled here, so that no executor needs to.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from playbook_supervisor.errors import CODES, LASTING, PlaybookError, StepError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.kernel.model import NO_REVIEWERS, Reviewers
from playbook_supervisor.kernel.vocabulary import OutputFormat
from playbook_supervisor.project.commit_files import Before
from playbook_supervisor.project.settings import isolation
from playbook_supervisor.project.settings.bounds import admit_program
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.settings.secrets import forms
from playbook_supervisor.records import replace
from playbook_supervisor.system.isolation.sandbox import Sandbox
from playbook_supervisor.system.process.capture import capped, harmless, redact
from playbook_supervisor.system.process.leash import abandoned
from playbook_supervisor.system.process.processes import Completed, Worker

INPUT = "PB-STEP-INPUT"
CAP = 1_000_000
"""Bytes of output that are kept unless the step says otherwise."""
GRACE = 15.0
"""Seconds that a stopped executor may take to return; then its thread is abandoned."""
_FAMILIES = ("PB-STEP-", "PB-POLICY-")
_OURS = frozenset({"git", "gh"})
"""The programs that our executors start, with arguments of their own."""

Why = Literal["", "wall", "idle", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One attempt at one step, as an executor receives it, with every `{{arg}}` replaced.

    `directive` is `test#1`. `words` follow the namespace in `command`, split by POSIX quoting
    before interpolation: an arg fills exactly one word. `options` is `with:`, which conforms to
    the executor's schema. `stdin` is the output that the step asked for, or empty. `owner` and
    `reviewers` are those of the playbook. `before` is what was there before the session, for a
    `commit`, and `also` what is taken of it. The values in `secrets` never leave the executor.
    """

    directive: str
    namespace: str
    words: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    stdin: str = ""
    output: OutputFormat = OutputFormat.TEXT
    owner: str = ""
    reviewers: Reviewers = NO_REVIEWERS
    env: Mapping[str, str] = field(default_factory=dict)
    before: Before | None = None
    also: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Project:
    """The future place of a task; `root` and `cwd` are as those of a `Context`."""

    root: Path
    cwd: Path
    config: Config


def failed(
    code: str,
    message: str,
    *,
    guidance: str = "",
    cause: str = "",
    output: str = "",
    lasts: bool = False,
) -> Outcome:
    """The outcome of a task that failed; `lasts` if another attempt would fail in the same way."""
    failure = Failure(code, message, guidance or CODES.get(code, ""), cause, lasts)
    return Outcome(error=failure, output=output)


def input_error(message: str, guidance: str = "") -> StepError:
    """PB-STEP-INPUT: the step is written wrongly."""
    return StepError(INPUT, message, guidance=guidance)


def refuse_words(task: Task, project: Project | None = None) -> None:
    """StepError PB-STEP-INPUT if something follows the namespace of a step that has no words."""
    del project
    if task.words:
        article = "an" if task.namespace[0] in "aeiou" else "a"
        raise input_error(
            f"{article} `{task.namespace}` step has no words", "Write what it needs under `with:`."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place where a task runs, and its limits. `wall` and `idle` are seconds.

    `env` is added to our environment for its programs. Every process of the task inherits
    `worker_file`, open and locked, and ends with the task; with us, too, unless it `outlives` us.
    `outputs` are the files that the step is to write. The values in `secrets` are never shown.
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
    outputs: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Stopped(Exception):  # noqa: N818 - not an error of the executor
    """The step was stopped while a program ran; let it pass through `execute`."""


class Context:
    """The surroundings of a task. Safe to use from several threads: programs take turns.

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
        """True if the step is to end now: its deadline has passed, or a person stopped it."""
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
        of_playbook: bool = False,
    ) -> Completed:
        """Run a program to its end and say its lines, those of stderr, too, unless `quiet`.

        To talk with it, let it read a descriptor as `stdin`, which remains yours to close, and
        take the lines of its stdout with `on_line`, in this thread; they are not said then.
        It inherits our environment, and `env` is added to it, or removed where it is None; `cwd` is
        the step's by default. Isolation lets git and gh have keys to push with, but in a session
        of the fleet not if the command is the playbook's own (`of_playbook`).
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
                isolation=self._isolation(argv, of_playbook=of_playbook),
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
        if hint := worker.hint:
            self._on_notice(hint)
        return Completed(
            returncode=worker.returncode or 0,  # never None: lines() ends with the process
            stdout=worker.stdout,
            stderr=worker.stderr,
            timed_out=timed_out,
            truncated=worker.truncated,
            hint=hint,
        )

    def _isolation(self, argv: Sequence[str], *, of_playbook: bool) -> Sandbox | None:
        place = self.place
        if argv[0] not in _OURS:
            return isolation.of_step(place.config, place.root, place.outputs)
        return isolation.of_ours(
            place.config, place.root, argv, place.outputs, of_playbook=of_playbook
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


class Executor(Protocol):
    """The contract of a plugin, which `playbook_supervisor.testing` checks.

    It may also have a method `check(task, project)`, which foresees: it raises StepError or
    PolicyError if the task cannot succeed, and lets through what is not known. `playbook check`
    asks for the step as it is written: in `words` and `options`, `{{name}}` stands for a value that
    is not known, and a word that is only a reference may become none or several
    (`references.is_known`). A run asks again before it begins, with the args in `words`. `project`
    may be None. Nothing may be started, changed or asked of the network.
    """

    @property
    def namespace(self) -> str:
        """The first word of the commands that it carries out."""

    @property
    def with_schema(self) -> Mapping[str, Any]:
        """The JSON Schema (draft-07) of `with:`, an object."""

    def execute(self, task: Task, context: Context) -> Outcome:
        """Carry out the task.

        What goes wrong is an outcome with an error `PB-STEP-…` or `PB-POLICY-…`, or a PlaybookError
        that is raised; any other exception is a bug of the executor.
        """


# ── carrying out a task ─────────────────────────────────────────────────────────────────────


def carry_out(executor: Executor, task: Task, context: Context) -> Outcome:
    """The outcome of the task, within its deadline even if the executor ignores that.

    An executor that raises has failed with PB-STEP-CRASHED. One that succeeded a moment before it
    was stopped has succeeded.
    """
    outcomes: list[Outcome] = []
    ended, over = threading.Event(), threading.Event()

    def execute() -> None:
        try:
            outcomes.append(_executed(executor, task, context))
        finally:
            ended.set()
            over.set()

    context.on_stop(over.set)
    threading.Thread(target=execute, daemon=True).start()
    over.wait(context.remaining)
    if not ended.is_set():
        context.stop("wall")
        ended.wait(GRACE)
    outcome = outcomes[0] if outcomes else failed("PB-STEP-CRASHED", "it ended without an outcome")
    if context.stopped and not outcome.ok:
        outcome = _ended_early(context, task.namespace, outcome.output)
    return _harmless(outcome, task, context)


def _executed(executor: Executor, task: Task, context: Context) -> Outcome:
    name = task.namespace
    try:
        outcome: object = executor.execute(task, context)
    except Stopped:
        return failed("PB-STEP-CRASHED", f"{name} was stopped before it ended")
    except PlaybookError as error:
        return of_error(error)
    except (Exception, SystemExit) as error:  # a plugin's fault is a failed step, never more
        message = f"the executor {name} raised {type(error).__name__}: {error}"
        return failed("PB-STEP-CRASHED", message)
    if not isinstance(outcome, Outcome):
        return failed("PB-STEP-CRASHED", f"the executor {name} returned no outcome")
    return outcome


def of_error(error: PlaybookError) -> Outcome:
    """The failed outcome of an error that was raised; its code is one of a step's."""
    code, cause = error.code, error.cause
    if code == "PB-IO-PROGRAM":
        code = "PB-STEP-PROGRAM"
    elif not code.startswith(_FAMILIES):
        code, cause = "PB-STEP-FAILED", f"{code}: {cause}" if cause else code
    lasts = code in LASTING
    return failed(code, error.message, guidance=error.guidance, cause=cause, lasts=lasts)


def _ended_early(context: Context, name: str, output: str) -> Outcome:
    wall, idle = context.place.wall or 0, context.place.idle or 0
    if context.why == "wall":
        message = f"{name} ran for more than {wall:g} s"
    elif context.why == "idle":
        message = f"{name} printed nothing for {idle:g} s"
    else:
        message, cure = f"{name} was stopped before it ended", "`playbook resume` runs it again."
        return failed("PB-STEP-CRASHED", message, guidance=cure, output=output)
    return failed("PB-STEP-TIMEOUT", message, output=output)


# ── what an outcome may contain ─────────────────────────────────────────────────────────────


def _harmless(outcome: Outcome, task: Task, context: Context) -> Outcome:
    secrets = (*context.secrets, *task.secrets)
    error = outcome.error
    if error is not None:
        error = replace(
            error,
            message=redact(printable(error.message), secrets),
            guidance=redact(printable(error.guidance), secrets),
            cause=harmless(error.cause, secrets),
        )
    return replace(
        outcome,
        error=error,
        output=capped(harmless(outcome.output, secrets), context.cap),
        data=_redacted(outcome.data, secrets),
        files=tuple(redact(printable(file), secrets) for file in outcome.files),
    )


def _redacted(data: Any, secrets: tuple[str, ...]) -> Any:
    if not secrets:
        return data
    if isinstance(data, str):
        return redact(data, secrets)
    if isinstance(data, dict):
        return {redact(str(key), secrets): _redacted(each, secrets) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return [_redacted(each, secrets) for each in data]
    return data
