"""The headless runner: drives a session to its end or to a gate.

Each step is carried out by an agent, or by the executor of its namespace. The main thread decides
and journals; worker threads wait. Signals and requests from other terminals arrive in the queue of
the workers' outcomes, so that nothing interrupts a write. A program that the main thread waits for
is stopped when a signal arrives.

An agent may ask in the middle of its step. Its worker then waits for the reply, and the others of
its group go on. Without an answer here it is put off: the worker ends, and the gate stays open.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from playbook_supervisor.agents import protocol as agents
from playbook_supervisor.agents.protocol import Agent, Budget
from playbook_supervisor.drivers import budget, driver_lock, gate_answer
from playbook_supervisor.drivers.driver_lock import Request
from playbook_supervisor.drivers.jobs import Assignment, can_continue, job_of, reply_of
from playbook_supervisor.drivers.observers import DriveResult, Observer, Prompter, showing_check
from playbook_supervisor.drivers.workers import WorkerEvent, WorkerPool
from playbook_supervisor.errors import (
    ArgumentError,
    CheckError,
    PolicyError,
    StateError,
    StorageError,
)
from playbook_supervisor.formats.timestamps import duration
from playbook_supervisor.kernel.answers import ParsedAnswer, read_answer
from playbook_supervisor.kernel.directives import Ask, Attempt, Check, Finish, Outcome, Run
from playbook_supervisor.kernel.gates import PASSED_ALONE, PLANNED
from playbook_supervisor.kernel.model import Limits, Step
from playbook_supervisor.kernel.state import Change, Entry
from playbook_supervisor.kernel.vocabulary import GateReason, Mode, Place, Resolution
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.sessions.files.principal import AUTONOMOUS, NO_ONE, Principal
from playbook_supervisor.sessions.gate.gate_context import GateContext, gate_context
from playbook_supervisor.sessions.steps.attempt_log import secret_values
from playbook_supervisor.sessions.store.snapshot import Snapshot, at_work, due_children
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.process.cancellation import Interrupted, cancelled_by
from playbook_supervisor.system.process.process_groups import kill_worker, worker_alive

_LOOK = 0.25  # seconds between two looks at a journal that others write
_QUIET = 0.05  # seconds without an event after which there is time to write copies
_ORPHAN_INTERVAL = 0.25  # seconds between two looks at a worker of an earlier runner
_ORPHAN = "is still running; waiting for it (--kill ends it instead)"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PATIENCE, _INTERVAL = 60.0, 0.5  # seconds with a full disk: until giving up, between two tries

_Progress = tuple[Snapshot, DriveResult | None]
"""The snapshot of now, and the drive's result once it has ended."""


@dataclass(slots=True)
class Asking:
    """The gates of one drive. `patience`: seconds to wait for an answer from elsewhere."""

    tree: SessionTree
    observer: Observer
    workers: WorkerPool
    prompter: Prompter | None = None
    mode: Mode = Mode.MANUAL
    patience: float = 0.0
    by: Principal = NO_ONE
    context: GateContext | None = None
    """The context of the gate that waits; None if a person has seen it in the prompt."""
    _shown: str = ""
    _until: float = 0.0
    _waiting: dict[str, Attempt] = field(default_factory=dict)

    # ── requests of agents ──────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> frozenset[str]:
        """The attempts whose agents wait for a reply."""
        return frozenset(self._waiting)

    def journal(self, attempt: Attempt, request: agents.Request) -> Snapshot:
        """Open the gate for a request of the attempt's agent; its worker waits."""
        try:
            reason = GateReason(request.kind)
            snapshot = self.tree.asked(attempt.id, reason, request.shape)
        except StateError as error:
            if error.code != "PB-STATE-REFUSED":
                raise
            self.workers.reply(attempt.id, None)  # the session was ended from elsewhere
            return self.tree.advance()
        self._waiting[attempt.id] = attempt
        return snapshot

    def deliver(self, snapshot: Snapshot) -> None:
        """Give the workers that wait the answers that are in the journal."""
        for attempt in tuple(self._waiting.values()):
            entry: Entry | None = None
            with suppress(KeyError):  # its child session has ended
                entry = snapshot.entry(attempt)
            if entry is not None and entry.gate is not None:
                continue
            del self._waiting[attempt.id]
            answered = entry is not None and not entry.settled  # else the session was ended
            reply = reply_of(entry.gates[-1]) if entry is not None and answered else None
            self.workers.reply(attempt.id, reply)

    def put_off(self) -> None:
        """End the workers that wait: the answers come later."""
        for attempt_id in self._waiting:
            self.workers.reply(attempt_id, None)
        self._waiting.clear()

    # ── people ──────────────────────────────────────────────────────────────────────────────

    def ask(self, snapshot: Snapshot, gate: Ask) -> Snapshot | None:
        """The snapshot after the answer or another event; None if there is no answer here."""
        passable = gate.reason in PASSED_ALONE and not snapshot.answered_by
        if self.mode is Mode.AUTONOMOUS and passable:
            resolution = Resolution.CONTINUE
            return self._answer(gate, ParsedAnswer(resolution), resolution.value, AUTONOMOUS)
        if self._shown != gate.id or self.prompter is not None:
            self.tree.copy()
            self.context = gate_context(snapshot)
            self.observer.on_gate(snapshot)
            self._shown, self._until = gate.id, time.monotonic() + self.patience
        if self.prompter is not None:
            return self._prompt(snapshot, gate, self.prompter)
        return self._wait(snapshot) if gate.place is Place.DURING else None

    def _wait(self, snapshot: Snapshot) -> Snapshot | None:
        """Wait for an answer from elsewhere, as long as a worker does and there is patience."""
        while self._waiting and (left := self._until - time.monotonic()) > 0:
            if self.workers.has_news(self.observer.on_output, min(left, _LOOK)):
                return snapshot.without_events()
            if self.tree.changed():
                return self.tree.advance()
        return None

    def _prompt(self, snapshot: Snapshot, gate: Ask, prompter: Prompter) -> Snapshot | None:
        """Ask until the gate is answered, here or elsewhere; end of input is not an answer."""
        while True:
            typed = prompter.ask(snapshot, self.context, self._overtaken)
            if typed.overtaken:
                news = self.workers.has_news(self.observer.on_output)
                return snapshot.without_events() if news else self.tree.advance()
            if typed.text is None:
                self.prompter = self.context = None
                return None
            text = typed.text
            if not text.strip() and gate.reason in PLANNED:
                text = Resolution.CONTINUE.value  # as in Catalyst, Enter continues
            reply = read_answer(text, gate.choices)
            question = reply.question
            if reply.resolution is not None:
                try:
                    return self._answer(gate, reply, text, self.by)
                except (PolicyError, CheckError, ArgumentError, StateError) as refused:
                    if isinstance(refused, StateError) and refused.code != "PB-STATE-CHANGED":
                        raise
                    question = f"{refused.message}; the gate stays open."
                    if reply.settings is not None:  # now they are shown
                        self.context = gate_context(snapshot)
                        question = f"{question} {refused.guidance}"
                    self.tree.look()  # so that `changed` does not report the refusal
            prompter.not_understood(snapshot, question)

    def _answer(self, gate: Ask, reply: ParsedAnswer, text: str, by: Principal) -> Snapshot:
        """Record the answer and continue; another terminal may have answered a moment earlier."""
        seen = self.context.settings if self.context is not None else None
        shown = seen.digest if seen is not None and seen.lines else ""
        try:
            before = gate_answer.record(self.tree, gate, reply, text, by, shown=shown)
        except StateError as error:
            if error.code != "PB-STATE-REFUSED":
                raise
            self.observer.on_notice(f"too late: {gate.id} was answered elsewhere")
            return self.tree.advance()
        return self.tree.advance().after(before)

    def _overtaken(self) -> bool:
        return self.workers.has_news(self.observer.on_output) or self.tree.changed()


@dataclass(slots=True)
class Runner:
    """Drives one session. `choose` gives the agent of a step under the settings of now, which a
    person may change at a gate; without it, `agent` carries out all steps that need one.

    `wall` and `idle` are a step's deadlines in seconds, and `max_output_bytes` caps its output,
    unless the playbook sets others. `kill` ends workers that an earlier runner left behind, instead
    of waiting for them; `by` names the person who answers here. Without a terminal, an agent that
    asks waits for `patience` seconds. `before_launch` is called when a launch is journaled and
    copied; it may take until what it is given returns true, and what it raises ends the drive.
    """

    tree: SessionTree
    agent: Agent | None
    observer: Observer
    prompter: Prompter | None = None
    mode: Mode = Mode.MANUAL
    wall: float | None = None
    idle: float | None = None
    max_output_bytes: int | None = None
    limits: Budget = budget.NO_LIMITS
    kill: bool = False
    by: Principal = NO_ONE
    patience: float = 0.0
    before_launch: Callable[[Callable[[], bool]], None] | None = None
    choose: Callable[[Step, Config], Agent] | None = None
    _workers: WorkerPool = field(default_factory=WorkerPool)
    _asking: Asking = field(init=False)
    _secrets: tuple[str, ...] = field(default_factory=lambda: secret_values(os.environ))
    _launched: set[str] = field(default_factory=set)
    _shown_notices: set[str] = field(default_factory=set)
    _requested: list[Request] = field(default_factory=list)
    _pausing: bool = False
    _pending_signal: int = 0

    def __post_init__(self) -> None:
        self._asking = Asking(
            self.tree,
            self.observer,
            self._workers,
            self.prompter,
            self.mode,
            self.patience,
            self.by,
        )

    def drive(self, first: Callable[[], Snapshot]) -> DriveResult:
        """Drive to the session's end, to a gate that is not answered here, or to an interruption.

        `first` returns the first snapshot. It is called with signal handlers in place, for it may
        launch a step.
        """
        try:
            with (
                driver_lock.handling_signals(self._on_signal),
                driver_lock.taking_requests(
                    self.tree.store.checkout, self.tree.private, self._on_request
                ),
                cancelled_by(self._is_interrupted),
            ):
                self.tree.engine.watch = self._watch_check
                snapshot, result = self._interruptible(lambda: (first(), None))
                while result is None:
                    for event in snapshot.events:
                        if event.change is Change.LAUNCHED:
                            self._launched.add(event.id)
                        self.observer.on_event(event, snapshot)
                    self._show_notices(snapshot)
                    snapshot, result = self._interruptible(partial(self._carry_out, snapshot))
                if result.why == "interrupted":
                    self._show_notices(result.snapshot)
                self.tree.copy()
            self.observer.on_end(result.snapshot)
        except BaseException:
            self._workers.abandon()  # this process can no longer take their outcomes
            raise
        else:
            return result
        finally:
            self._workers.close()

    def _interruptible(self, move: Callable[[], _Progress]) -> _Progress:
        try:
            return move()
        except Interrupted:
            return self._handle_interruption(self.tree.look())

    def _show_notices(self, snapshot: Snapshot) -> None:
        """Show each notice once, and those of the end again."""
        ended = isinstance(snapshot.directive, Finish)
        new = [each for each in snapshot.store.notices if each not in self._shown_notices]
        new += [each for each in snapshot.notices if ended or each not in self._shown_notices]
        for notice in dict.fromkeys(new):
            self.observer.on_notice(notice)
        self._shown_notices.update(new)

    def _carry_out(self, snapshot: Snapshot) -> _Progress:
        self._asking.deliver(snapshot)
        if (run := at_work(snapshot.directive)) and not due_children(snapshot):
            for attempt in run.members:
                if attempt.id not in self._launched:
                    return self._recover(snapshot, attempt)
            due = [each for each in run.members if each.id not in self._workers.active]
            if self._pausing:
                due.clear()
            elif due and self.before_launch is not None:
                self.tree.copy()
                self.before_launch(self._is_called)
            for attempt in due:
                if self._pending_signal:  # received during a session commit, for instance
                    return self._handle_signal(snapshot, self._pending_signal)
                self._launch(snapshot, attempt)
        match snapshot.directive:
            case Finish(status=status):
                self._workers.abandon()  # an answer from elsewhere has ended the session
                return snapshot, DriveResult(snapshot, status.value)
            case Run() if not due_children(snapshot):
                return self._await(snapshot, self.tree.delay(snapshot) or None)
            case _ if self._pending_signal:
                return self._handle_signal(snapshot, self._pending_signal)
            case Ask() as gate:
                return self._ask(snapshot, gate)
            case Check(members=members) if delay := self.tree.delay(snapshot):
                names = ", ".join(attempt.id for attempt in members)
                self.observer.on_notice(f"{names}: retry in {duration(round(delay * 1000))}")
                return self._await(snapshot, delay)
            case _:
                return self.tree.advance(), None

    # ── work ────────────────────────────────────────────────────────────────────────────────

    def _launch(self, snapshot: Snapshot, attempt: Attempt) -> None:
        assignment = self._assignment(snapshot, attempt)
        continues = self._continues(snapshot, attempt)
        job = job_of(assignment, self._agent_of, self.limits, continues=continues)
        self._workers.launch(attempt, job, self.tree.log_file(attempt))

    def _assignment(self, snapshot: Snapshot, attempt: Attempt) -> Assignment:
        limits = Limits(self.wall, self.idle, self.max_output_bytes)
        ends = self.before_launch is not None  # another machine may take over
        return Assignment(self.tree, snapshot, attempt, limits, self._secrets, ends)

    def _agent_of(self, step: Step, config: Config) -> Agent:
        if self.choose is not None:
            return self.choose(step, config)
        assert self.agent is not None  # noqa: S101 - who makes a runner gives it one
        return self.agent

    def _continues(self, snapshot: Snapshot, attempt: Attempt) -> bool:
        return can_continue(self._assignment(snapshot, attempt), self._agent_of)

    def _await(self, snapshot: Snapshot, timeout: float | None = None) -> _Progress:
        event = self._next_event(timeout)
        if event is None:
            return self.tree.advance(), None
        if event.attempt is None:
            return self._handle(snapshot, event)
        if event.outcome is not None:
            return self._returned(event.attempt, event.outcome)
        if event.asked is not None:
            return self._asked(event.attempt, event.asked)
        if event.put_off:
            return self._was_put_off(snapshot, event.attempt)
        if event.notice:
            self.observer.on_notice(f"{event.attempt.id}: {event.notice}")
        else:
            self.observer.on_output(event.attempt, event.line)
        return snapshot.without_events(), None

    def _returned(self, attempt: Attempt, outcome: Outcome) -> _Progress:
        self._workers.returned(attempt)
        journal = self.tree.note_return if self._pausing else self.tree.report
        snapshot = self._journaled(attempt, partial(journal, attempt.id, outcome))
        paused = self._pausing and not self._workers.active
        return snapshot, DriveResult(snapshot, "paused") if paused else None

    def _journaled(self, attempt: Attempt, journal: Callable[[], Snapshot]) -> Snapshot:
        """Journal a return; on a full disk try again, for a minute or until a signal arrives.

        Only this process knows the outcome, and the step has been paid for.
        """
        deadline, warned = time.monotonic() + _PATIENCE, False
        while True:
            try:
                return journal()
            except StorageError as error:
                reason = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
                if reason not in _FULL:
                    raise
                if self._is_interrupted() or time.monotonic() > deadline:
                    raise _lost(attempt, self.tree.id, error) from error
                if not warned:
                    self.observer.on_notice(
                        f"{attempt.id} returned, but {error.message}: free some disk space; "
                        f"trying again for {_PATIENCE:g} seconds"
                    )
                warned = True
                time.sleep(_INTERVAL)

    def _next_event(self, timeout: float | None) -> WorkerEvent | None:
        """Wait for the next event; copies are written as soon as that takes a moment."""
        if event := self._workers.next(_QUIET):
            return event
        self.tree.copy()
        return self._workers.next(timeout)

    # ── gates ───────────────────────────────────────────────────────────────────────────────

    def _ask(self, snapshot: Snapshot, gate: Ask) -> _Progress:
        if self._workers.has_news(self.observer.on_output):
            return self._await(snapshot)
        if (after := self._asking.ask(snapshot, gate)) is not None:
            return after, None
        self._asking.put_off()
        if self._workers.active:  # the others of the group go on
            return self._await(snapshot, _LOOK)
        return snapshot, DriveResult(snapshot, "waiting", context=self._asking.context)

    def _asked(self, attempt: Attempt, request: agents.Request) -> _Progress:
        snapshot = self._asking.journal(attempt, request)
        if self._pausing:
            self._asking.put_off()
        return snapshot, None

    def _was_put_off(self, snapshot: Snapshot, attempt: Attempt) -> _Progress:
        self._workers.returned(attempt)
        self._launched.discard(attempt.id)
        paused = self._pausing and not self._workers.active
        return snapshot.without_events(), DriveResult(snapshot, "paused") if paused else None

    # ── signals and requests ────────────────────────────────────────────────────────────────

    def _on_signal(self, number: int) -> None:
        self._pending_signal = number
        self._workers.events.put(WorkerEvent(signal=number))

    def _on_request(self, request: Request) -> None:
        self._requested.append(request)
        self._workers.events.put(WorkerEvent(request=request))

    def _is_interrupted(self) -> bool:
        return self._pending_signal != 0

    def _is_called(self) -> bool:
        return self._is_interrupted() or bool(self._requested)

    @contextmanager
    def _watch_check(self, attempt: Attempt, check: str) -> Iterator[Callable[[str], None]]:
        """Show that a check of the project runs, and end it also when a person requests something.

        The workers of other sessions of the tree may run meanwhile; what they say waits.
        """
        with showing_check(self.observer, attempt, check) as hear, cancelled_by(self._is_called):
            yield hear

    def _handle(self, snapshot: Snapshot, event: WorkerEvent) -> _Progress:
        if event.request is None:
            return self._handle_signal(snapshot, event.signal)
        if event.request in self._requested:
            self._requested.remove(event.request)
            return self._handle_request(snapshot, event.request)
        return snapshot.without_events(), None  # it has ended a check, and is handled

    def _handle_interruption(self, snapshot: Snapshot) -> _Progress:
        if self._pending_signal or not self._requested:
            return self._handle_signal(snapshot, self._pending_signal)
        return self._handle_request(snapshot, self._requested.pop(0))

    def _handle_signal(self, snapshot: Snapshot, number: int) -> _Progress:
        commits = bool(self._workers.active)  # without workers, git itself may be hanging
        self._stop_workers()
        self._pending_signal = 0
        snapshot = self.tree.interrupt(commits=commits)
        return snapshot, DriveResult(snapshot, "interrupted", number)

    def _handle_request(self, snapshot: Snapshot, request: Request) -> _Progress:
        if request.what == "abort":
            self._stop_workers()
            self.tree.end_workers()  # those of an earlier runner
            return self.tree.abort(request.text, Principal(request.by)), None
        if request.what == "proof":
            if evidence := self.tree.engine.keep_proof(request.text):
                self.observer.on_notice(evidence)
            return snapshot.without_events(), None
        self._pausing = True
        if not self._workers.active:
            return snapshot, DriveResult(snapshot, "paused")
        names = ", ".join(self._workers.active)
        self.observer.on_notice(f"pausing: {names} may finish, nothing else is launched")
        return snapshot.without_events(), None

    def _stop_workers(self) -> None:
        for attempt, outcome in self._workers.stop():
            self.tree.note_return(attempt.id, outcome)

    def _recover(self, snapshot: Snapshot, attempt: Attempt) -> _Progress:
        worker_file = self.tree.worker_file(attempt)
        if worker_alive(worker_file):
            if self.kill:
                kill_worker(worker_file)
            else:
                self.observer.on_notice(f"{attempt.id} {_ORPHAN}")
        while worker_alive(worker_file):
            event = self._workers.next(_ORPHAN_INTERVAL)
            if event is None:
                continue
            snapshot = self.tree.advance()
            if event.request is not None:
                return self._handle(snapshot, event)
            return snapshot, DriveResult(snapshot, "interrupted", event.signal)
        if self._continues(snapshot, attempt):
            self._launched.add(attempt.id)
            return snapshot.without_events(), None
        try:
            return self.tree.lose(attempt), None
        except Interrupted:  # the next runner checks whether the attempt had finished
            snapshot = self.tree.look()
            if not self._pending_signal:
                return self._handle_interruption(snapshot)
            return snapshot, DriveResult(snapshot, "interrupted", self._pending_signal)


def _lost(attempt: Attempt, session: str, error: StorageError) -> StorageError:
    consequence = "its postconditions decide whether it finished"
    if not attempt.step.postconditions:
        consequence = "it has no postconditions to show that it finished, so it runs again"
    guidance = (
        f"Free some disk space, then `playbook resume {session}`: "
        f"{attempt.id} had returned; {consequence}."
    )
    return StorageError(error.code, error.message, where=error.where, guidance=guidance)
