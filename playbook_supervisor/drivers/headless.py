"""The headless runner: drives a session to its end or to a gate, each step by an agent.

The main thread decides and journals; hands (threads) wait for workers. Signals and requests from
other terminals arrive in the same queue as the workers' returns, so nothing ever happens in the
middle of a write; a program that the main thread waits for itself ends when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Empty

from playbook_supervisor.agents.protocol import Agent, Budget, Call
from playbook_supervisor.drivers import budget, driver_lock, full_disk
from playbook_supervisor.drivers.observers import Observer, Prompter
from playbook_supervisor.drivers.workers import WorkerEvent, WorkerPool
from playbook_supervisor.errors import PolicyError, StateError
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.directives import Ask, Attempt, Finish, Outcome, Run
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import GateReason, Mode, Resolution
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.snapshot import Snapshot, Work
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system.cancellation import Interrupted, heeding
from playbook_supervisor.system.process_groups import kill_worker, worker_alive

_CALL = driver_lock.call()
_SOON = 0.05  # seconds without news after which somebody is being waited for
_ORPHAN = 0.25  # seconds between two looks at a worker that is not ours


class DriveResult(Record):
    """How a drive ended: the session's status, or `waiting`, `paused` or `interrupted`."""

    outlook: Snapshot
    why: str
    signal: int = 0
    context: tuple[str, ...] = ()  # what helps to answer the gate that nobody was asked

    @property
    def exit_code(self) -> int:
        """0 completed or paused, 2 failed or aborted, 4 waiting, 128 + signal interrupted."""
        if self.why == "interrupted":
            return 128 + self.signal
        return {"completed": 0, "paused": 0, "failed": 2, "aborted": 2}.get(self.why, 4)


_Moved = tuple[Snapshot, DriveResult | None]
"""What is outstanding now, and how the drive ended, if it has."""


class Runner(Record, frozen=False):
    """Drives one session with one agent. `wall` and `idle` are a step's deadlines in seconds.

    `kill` ends workers that an earlier runner left behind, instead of waiting for them; `by`
    names the person who answers here.
    """

    supervisor: Supervisor
    agent: Agent
    watcher: Observer
    person: Prompter | None = None
    mode: Mode = Mode.MANUAL
    wall: float | None = None
    idle: float | None = None
    limits: Budget = budget.NO_LIMITS
    kill: bool = False
    by: str = ""
    _hands: WorkerPool = field(init=False)
    _ours: set[str] = field(default_factory=set)
    _last_words: dict[str, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _pausing: bool = False
    _unheeded: int = 0  # the signal that nothing has followed from yet

    def __post_init__(self) -> None:
        self._hands = WorkerPool(self.agent)

    def drive(self, first: Callable[[], Snapshot]) -> DriveResult:
        """From the first outlook to the end, a gate that nobody answers here, or an interruption.

        `first` is asked for when signals are listened to already: it may launch a step.
        """
        try:
            with (
                driver_lock.listening(self._called_by, self.supervisor.private),
                heeding(self._is_called),
            ):
                outlook, ending = self._unless_called(lambda: (first(), None))
                while ending is None:
                    for event in outlook.events:
                        if event.change is Change.LAUNCHED:
                            self._ours.add(event.entry.id)
                        self.watcher.happened(event, outlook)
                    self._tell_notices(outlook)
                    outlook, ending = self._unless_called(partial(self._carry_out, outlook))
                if ending.why == "interrupted":  # what that led to, nobody has been told
                    self._tell_notices(ending.outlook)
                self._keep_copies()
            self.watcher.ended(ending.outlook)
        except BaseException:
            for _ in self._hands.stop():  # nobody would be there when they come back
                pass
            raise
        else:
            return ending
        finally:
            self._hands.dismiss()

    def _unless_called(self, move: Callable[[], _Moved]) -> _Moved:
        """Make the move. One that a signal cuts off, while a program is asked, is not made."""
        try:
            return move()
        except Interrupted:
            return self._called(self.supervisor.look(), self._unheeded)

    def _tell_notices(self, outlook: Snapshot) -> None:
        """Each once: what git refuses after every step is told again only at the end."""
        for notice in outlook.notices:
            if notice not in self._told or isinstance(outlook.directive, Finish):
                self.watcher.notice(notice)
            self._told.add(notice)

    def _carry_out(self, outlook: Snapshot) -> _Moved:
        """One directive, or as much of it as there is news of."""
        match outlook.directive:
            case Finish(status=status):
                return outlook, DriveResult(outlook, status.value)
            case Ask():
                return self._ask(outlook)
            case Run(members=members):
                for attempt in members:
                    if attempt.id not in self._ours:
                        return self._recover(attempt)
                    if attempt.id not in self._hands.at_work:
                        if self._unheeded:  # while the session went into git, say
                            return self._called(outlook, self._unheeded)
                        self._launch(outlook, attempt)
                return self._await(outlook)
            case _ if self._unheeded:
                return self._called(outlook, self._unheeded)
            case _:
                return self.supervisor.outlook(), None

    # ── work ────────────────────────────────────────────────────────────────────────────────

    def _launch(self, outlook: Snapshot, attempt: Attempt) -> None:
        call = self._call(outlook, self.supervisor.work(outlook, attempt))
        self._hands.launch(attempt, call)

    def _call(self, outlook: Snapshot, work: Work) -> Call:
        attempt = work.attempt
        return Call(
            session=self.supervisor.id,
            directive=attempt.id,
            step=attempt.step.id,
            attempt=attempt.number,
            command=work.command,
            args=work.args,
            feature=outlook.manifest.feature,
            prompt=work.typed,
            cwd=self.supervisor.root,
            model=attempt.step.model,
            env=self.supervisor.environment(outlook, work),
            worker_file=self.supervisor.worker_file(attempt),
            wall=self.wall,
            idle=self.idle,
            budget=budget.left(self.limits, self.supervisor, outlook),
        )

    def _await(self, outlook: Snapshot) -> _Moved:
        news = self._next_news()
        if news.signal:
            return self._called(outlook, news.signal)
        if news.attempt is not None and news.outcome is not None:
            return self._returned(news.attempt, news.outcome)
        if news.attempt is not None and news.notice:
            self.watcher.notice(f"{news.attempt.id}: {news.notice}")
        elif news.attempt is not None:
            self._last_words[news.attempt.id] = news.line
            self.watcher.said(news.attempt, news.line)
        return outlook.without_events(), None

    def _returned(self, attempt: Attempt, outcome: Outcome) -> _Moved:
        self._hands.came_back(attempt)
        if not self._pausing:
            return self._kept(attempt, partial(self.supervisor.report, attempt.id, outcome)), None
        outlook = self._kept(attempt, partial(self.supervisor.note_return, attempt.id, outcome))
        return outlook, None if self._hands.at_work else DriveResult(outlook, "paused")

    def _kept(self, attempt: Attempt, journal: Callable[[], Snapshot]) -> Snapshot:
        """Journal what a worker brought, which is dear: on a full disk there may soon be room."""
        tell, called = self.watcher.notice, self._is_called
        session = self.supervisor.id
        return full_disk.journaled(attempt, journal, session=session, tell=tell, called=called)

    def _next_news(self) -> WorkerEvent:
        """What happens next; copies are written as soon as it takes a while."""
        try:
            return self._hands.news.get(timeout=_SOON)
        except Empty:
            self._keep_copies()
            return self._hands.news.get()

    def _keep_copies(self) -> None:
        with self.supervisor.store.open(self.supervisor.id) as opened:
            opened.copy()

    # ── gates ───────────────────────────────────────────────────────────────────────────────

    def _ask(self, outlook: Snapshot) -> _Moved:
        asked = outlook.directive
        assert isinstance(asked, Ask)  # noqa: S101 - the caller's match says so
        if self._unheeded:
            return self._called(outlook, self._unheeded)
        guards_nothing = asked.reason is GateReason.GATE_ALWAYS and not outlook.answered_by
        if self.mode is Mode.AUTONOMOUS and guards_nothing:
            word = Resolution.CONTINUE
            return self._answer(asked, word, word.value, Mode.AUTONOMOUS.value), None
        self._keep_copies()
        context = self.supervisor.context(outlook, self._last_words.get(asked.member.id, ""))
        self.watcher.waits(outlook)
        if self.person is None:
            return outlook, DriveResult(outlook, "waiting", context=context)
        return self._listen(outlook, asked, self.person, context)

    def _listen(
        self, outlook: Snapshot, asked: Ask, person: Prompter, context: tuple[str, ...]
    ) -> _Moved:
        """Ask until there is an answer, here or elsewhere; an end of file is never one."""
        while True:
            said = person.ask(outlook, context, self._overtaken)
            if said.overtaken:
                if self._hands.news.empty():
                    return self.supervisor.outlook(), None
                return self._called(outlook, self._hands.news.get().signal)
            if said.text is None:
                return outlook, DriveResult(outlook, "waiting")
            text = said.text
            if not text.strip() and asked.reason is GateReason.GATE_ALWAYS:
                text = Resolution.CONTINUE.value  # Catalyst's ENTER
            reply = read_answer(text, asked.choices)
            question = reply.question
            if reply.resolution is not None:
                try:
                    return self._answer(asked, reply.resolution, text, self.by), None
                except PolicyError as refused:
                    question = f"{refused.message}; the gate stays open."
                    self.supervisor.look()  # else it would seem to have changed meanwhile
            person.not_understood(outlook, question)

    def _answer(self, asked: Ask, resolution: Resolution, text: str, by: str) -> Snapshot:
        """Record it, and what follows; somebody else may have been quicker by a moment."""
        try:
            before = self.supervisor.answer(asked.id, resolution, text, by)
        except StateError as error:
            if error.code != "PB-STATE-REFUSED":
                raise
            self.watcher.notice(f"too late: {asked.id} was answered elsewhere")
            return self.supervisor.outlook()
        return self.supervisor.outlook().after(before)

    def _overtaken(self) -> bool:
        return not self._hands.news.empty() or self.supervisor.changed()

    def _called_by(self, number: int) -> None:
        if number != _CALL:
            self._unheeded = number
        self._hands.news.put(WorkerEvent(signal=number))

    def _is_called(self) -> bool:
        return self._unheeded != 0

    # ── interruptions ───────────────────────────────────────────────────────────────────────

    def _called(self, outlook: Snapshot, number: int) -> _Moved:
        """A signal: an interruption, or somebody else's request."""
        if number != _CALL:
            in_git = not self._hands.at_work  # and not once more, for that may be what hangs
            self._stop_workers()
            self._unheeded = 0
            outlook = self.supervisor.interrupt(commits=not in_git)
            return outlook, DriveResult(outlook, "interrupted", number)
        request = driver_lock.requested(self.supervisor.private)
        if request is None:
            return outlook.without_events(), None
        if request.what == "abort":
            self._stop_workers()
            self.supervisor.end_workers()  # those that an earlier runner left behind
            return self.supervisor.abort(request.text, request.by), None
        self._pausing = True
        if not self._hands.at_work:
            return outlook, DriveResult(outlook, "paused")
        names = ", ".join(self._hands.at_work)
        self.watcher.notice(f"pausing: {names} may return, nothing else is launched")
        return outlook.without_events(), None

    def _stop_workers(self) -> None:
        """End what runs. A worker that had ended well by then has returned, and is journaled."""
        for attempt, outcome in self._hands.stop():
            self.supervisor.note_return(attempt.id, outcome)

    def _recover(self, attempt: Attempt) -> _Moved:
        """An attempt that an earlier runner launched: wait for its worker or end it, then judge."""
        worker_file = self.supervisor.worker_file(attempt)
        if worker_alive(worker_file):
            if self.kill:
                kill_worker(worker_file)
            else:
                self.watcher.notice(
                    f"{attempt.id} is still at work; waiting for it (--kill ends it instead)"
                )
        while worker_alive(worker_file):
            try:
                number = self._hands.news.get(timeout=_ORPHAN).signal
            except Empty:
                continue
            outlook = self.supervisor.outlook()
            if number == _CALL:
                return self._called(outlook, number)
            return outlook, DriveResult(outlook, "interrupted", number)
        try:
            return self.supervisor.lose(attempt), None
        except Interrupted:  # whether it had finished is not known, and asked the next time
            outlook = self.supervisor.look()
            return outlook, DriveResult(outlook, "interrupted", self._unheeded)
