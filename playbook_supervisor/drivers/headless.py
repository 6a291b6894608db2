"""The headless runner: drives a session to its end or to a gate.

Each step is carried out by an agent, or by the executor of its namespace. The main thread decides
and journals; worker threads wait. Signals and requests from other terminals arrive in the queue of
the workers' outcomes, so that nothing interrupts a write. A program that the main thread waits for
is stopped when a signal arrives.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from playbook_supervisor.agents import protocol as agents
from playbook_supervisor.agents.protocol import Agent, Budget
from playbook_supervisor.drivers import budget, driver_lock, full_disk
from playbook_supervisor.drivers.asking import LOOK, Asking
from playbook_supervisor.drivers.drive_result import DriveResult
from playbook_supervisor.drivers.driver_lock import Request
from playbook_supervisor.drivers.jobs import Assignment, can_continue, job_of
from playbook_supervisor.drivers.observers import Observer, Prompter, showing_check
from playbook_supervisor.drivers.workers import WorkerEvent, WorkerPool
from playbook_supervisor.formats.timestamps import duration
from playbook_supervisor.kernel.directives import Ask, Attempt, Check, Finish, Outcome, Run
from playbook_supervisor.kernel.model import Limits
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import Mode
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.attempt_log import secret_values
from playbook_supervisor.sessions.principal import Principal
from playbook_supervisor.sessions.snapshot import Snapshot, at_work, due_children
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system.cancellation import Interrupted, cancelled_by
from playbook_supervisor.system.process_groups import kill_worker, worker_alive

_QUIET = 0.05  # seconds without an event after which there is time to write copies
_ORPHAN_INTERVAL = 0.25  # seconds between two looks at a worker of an earlier runner
_ORPHAN = "is still running; waiting for it (--kill ends it instead)"

_Progress = tuple[Snapshot, DriveResult | None]
"""What is outstanding now, and the drive's result once it has ended."""


class Runner(Record, frozen=False):
    """Drives one session; without an `agent`, one whose steps need none.

    `wall` and `idle` are a step's deadlines in seconds, and `max_output_bytes` caps its output,
    unless the playbook sets others. `kill` ends workers that an earlier runner left behind, instead
    of waiting for them; `by` names the person who answers here. Without a terminal, an agent that
    asks waits for `patience` seconds. `before_launch` is called when a launch is journaled and
    copied; it may take until what it is given returns true, and what it raises ends the drive.
    `choose` gives the agent under the settings of now: a person may take others over at a gate.
    """

    supervisor: Supervisor
    agent: Agent | None
    observer: Observer
    prompter: Prompter | None = None
    mode: Mode = Mode.MANUAL
    wall: float | None = None
    idle: float | None = None
    max_output_bytes: int | None = None
    limits: Budget = budget.NO_LIMITS
    kill: bool = False
    by: Principal = Principal("")
    patience: float = 0.0
    before_launch: Callable[[Callable[[], bool]], None] | None = None
    choose: Callable[[Snapshot], Agent | None] | None = None
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
            self.supervisor,
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
                    self.supervisor.store.checkout, self.supervisor.private, self._on_request
                ),
                cancelled_by(self._is_interrupted),
            ):
                self.supervisor.engine.watch = self._watch_check
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
                self.supervisor.copy()
            self.observer.on_end(result.snapshot)
        except BaseException:
            self._workers.abandon()  # this process can no longer take their outcomes
            raise
        else:
            return result
        finally:
            self._workers.close()

    def _interruptible(self, move: Callable[[], _Progress]) -> _Progress:
        """Make the move; if something ends a program that it waits for, handle that."""
        try:
            return move()
        except Interrupted:
            return self._handle_interruption(self.supervisor.look())

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
                self.supervisor.copy()
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
                return self._await(snapshot, self.supervisor.delay(snapshot) or None)
            case _ if self._pending_signal:
                return self._handle_signal(snapshot, self._pending_signal)
            case Ask() as gate:
                return self._ask(snapshot, gate)
            case Check(members=members) if delay := self.supervisor.delay(snapshot):
                names = ", ".join(attempt.id for attempt in members)
                self.observer.on_notice(f"{names}: retry in {duration(round(delay * 1000))}")
                return self._await(snapshot, delay)
            case _:
                return self.supervisor.advance(), None

    # ── work ────────────────────────────────────────────────────────────────────────────────

    def _launch(self, snapshot: Snapshot, attempt: Attempt) -> None:
        if self.choose is not None:
            self.agent = self.choose(snapshot)
        assignment = self._assignment(snapshot, attempt)
        continues = self._continues(snapshot, attempt)
        job = job_of(assignment, self.agent, self.limits, continues=continues)
        self._workers.launch(attempt, job, self.supervisor.log_file(attempt))

    def _assignment(self, snapshot: Snapshot, attempt: Attempt) -> Assignment:
        limits = Limits(self.wall, self.idle, self.max_output_bytes)
        ends = self.before_launch is not None  # another machine may take over
        return Assignment(self.supervisor, snapshot, attempt, limits, self._secrets, ends)

    def _continues(self, snapshot: Snapshot, attempt: Attempt) -> bool:
        """Whether the attempt has asked, has the answer, and its conversation is here."""
        run = at_work(snapshot.directive)
        if self.agent is None or run is None or attempt.id not in run.continues:
            return False
        return can_continue(self._assignment(snapshot, attempt), self.agent)

    def _await(self, snapshot: Snapshot, timeout: float | None = None) -> _Progress:
        event = self._next_event(timeout)
        if event is None:
            return self.supervisor.advance(), None
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
        journal = self.supervisor.note_return if self._pausing else self.supervisor.report
        snapshot = full_disk.journaled(
            attempt,
            partial(journal, attempt.id, outcome),
            session=self.supervisor.id,
            warn=self.observer.on_notice,
            interrupted=self._is_interrupted,
        )
        paused = self._pausing and not self._workers.active
        return snapshot, DriveResult(snapshot, "paused") if paused else None

    def _next_event(self, timeout: float | None) -> WorkerEvent | None:
        """Wait for the next event; copies are written as soon as that takes a moment."""
        if event := self._workers.next(_QUIET):
            return event
        self.supervisor.copy()
        return self._workers.next(timeout)

    # ── gates ───────────────────────────────────────────────────────────────────────────────

    def _ask(self, snapshot: Snapshot, gate: Ask) -> _Progress:
        if self._workers.has_news(self.observer.on_output):
            return self._await(snapshot)
        if (after := self._asking.ask(snapshot, gate)) is not None:
            return after, None
        self._asking.put_off()
        if self._workers.active:  # the others of the group go on
            return self._await(snapshot, LOOK)
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
        """A signal or a request has ended a program that this thread waited for."""
        if self._pending_signal or not self._requested:
            return self._handle_signal(snapshot, self._pending_signal)
        return self._handle_request(snapshot, self._requested.pop(0))

    def _handle_signal(self, snapshot: Snapshot, number: int) -> _Progress:
        commits = bool(self._workers.active)  # without workers, git itself may be hanging
        self._stop_workers()
        self._pending_signal = 0
        snapshot = self.supervisor.interrupt(commits=commits)
        return snapshot, DriveResult(snapshot, "interrupted", number)

    def _handle_request(self, snapshot: Snapshot, request: Request) -> _Progress:
        if request.what == "abort":
            self._stop_workers()
            self.supervisor.end_workers()  # those of an earlier runner
            return self.supervisor.abort(request.text, Principal(request.by, "request")), None
        if request.what == "proof":
            if evidence := self.supervisor.engine.keep_proof(request.text):
                self.observer.on_notice(evidence)
            return snapshot.without_events(), None
        self._pausing = True
        if not self._workers.active:
            return snapshot, DriveResult(snapshot, "paused")
        names = ", ".join(self._workers.active)
        self.observer.on_notice(f"pausing: {names} may finish, nothing else is launched")
        return snapshot.without_events(), None

    def _stop_workers(self) -> None:
        """Stop all workers; those that had succeeded by then are journaled as returned."""
        for attempt, outcome in self._workers.stop():
            self.supervisor.note_return(attempt.id, outcome)

    def _recover(self, snapshot: Snapshot, attempt: Attempt) -> _Progress:
        """Wait for an earlier runner's worker, or end it; then continue or judge its attempt."""
        worker_file = self.supervisor.worker_file(attempt)
        if worker_alive(worker_file):
            if self.kill:
                kill_worker(worker_file)
            else:
                self.observer.on_notice(f"{attempt.id} {_ORPHAN}")
        while worker_alive(worker_file):
            event = self._workers.next(_ORPHAN_INTERVAL)
            if event is None:
                continue
            snapshot = self.supervisor.advance()
            if event.request is not None:
                return self._handle(snapshot, event)
            return snapshot, DriveResult(snapshot, "interrupted", event.signal)
        if self._continues(snapshot, attempt):
            self._launched.add(attempt.id)
            return snapshot.without_events(), None
        try:
            return self.supervisor.lose(attempt), None
        except Interrupted:  # the next runner checks whether the attempt had finished
            snapshot = self.supervisor.look()
            if not self._pending_signal:
                return self._handle_interruption(snapshot)
            return snapshot, DriveResult(snapshot, "interrupted", self._pending_signal)
