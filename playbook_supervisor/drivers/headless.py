"""The headless runner: drives a session to its end or to a gate, each step by an agent.

The main thread decides and journals; a hand (a thread) for each running step only waits for its
worker, and is there for the next step then. Signals and requests from other terminals arrive in
the same queue as the workers' returns, so nothing ever happens in the middle of a write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from playbook_supervisor.agents import Agent, Call, Running, carry_out, failed
from playbook_supervisor.answers import read_answer
from playbook_supervisor.drivers import presence
from playbook_supervisor.drivers.people import Person, Watcher
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Ask, Attempt, Finish, Outcome, Run
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.outlook import Outlook, Work
from playbook_supervisor.plain_text import printable
from playbook_supervisor.process_groups import kill_worker, worker_alive
from playbook_supervisor.records import Record, field
from playbook_supervisor.supervisor import Supervisor
from playbook_supervisor.vocabulary import GateReason, Mode, Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_CALL: Final = presence.call()
_SOON: Final = 0.05  # seconds without news after which somebody is being waited for
_ORPHAN: Final = 0.25  # seconds between two looks at a worker that is not ours
_LAST_WORDS: Final = 10.0  # seconds that stopped workers may take to say so


class Ending(Record):
    """How a drive ended: the session's status, or `waiting`, `paused` or `interrupted`."""

    outlook: Outlook
    why: str
    signal: int = 0
    context: tuple[str, ...] = ()  # what helps to answer the gate that nobody was asked

    @property
    def exit_code(self) -> int:
        """0 completed or paused, 2 failed or aborted, 4 waiting, 128 + signal interrupted."""
        if self.why == "interrupted":
            return 128 + self.signal
        return {"completed": 0, "paused": 0, "failed": 2, "aborted": 2}.get(self.why, 4)


class _News(Record):
    """A worker's line or return, or a signal."""

    attempt: Attempt | None = None
    line: str = ""
    outcome: Outcome | None = None
    signal: int = 0


class _Worker(Record, frozen=False):
    """A running step as the main thread sees it."""

    attempt: Attempt
    running: Running | None = None
    stopped: bool = False

    def under_way(self, running: Running) -> None:
        self.running = running
        if self.stopped:
            running.stop()

    def stop(self) -> None:
        self.stopped = True
        if self.running is not None:
            self.running.stop()


class Runner(Record, frozen=False):
    """Drives one session with one agent. `wall` and `idle` are a step's deadlines in seconds.

    `kill` ends workers that an earlier runner left behind, instead of waiting for them; `by`
    names the person who answers here.
    """

    supervisor: Supervisor
    agent: Agent
    watcher: Watcher
    person: Person | None = None
    mode: Mode = Mode.MANUAL
    wall: float | None = None
    idle: float | None = None
    kill: bool = False
    by: str = ""
    _news: SimpleQueue[_News] = field(default_factory=SimpleQueue)
    _jobs: SimpleQueue[tuple[_Worker, Call] | None] = field(default_factory=SimpleQueue)
    _hands: int = 0
    _workers: dict[str, _Worker] = field(default_factory=dict)
    _ours: set[str] = field(default_factory=set)
    _last_words: dict[str, str] = field(default_factory=dict)
    _pausing: bool = False

    def drive(self, first: Callable[[], Outlook]) -> Ending:
        """From the first outlook to the end, a gate that nobody answers here, or an interruption.

        `first` is asked for when signals are listened to already: it may launch a step.
        """
        try:
            with presence.listening(self._called_by, self.supervisor.private):
                outlook, ending = first(), None
                while ending is None:
                    for event in outlook.events:
                        if event.change is Change.LAUNCHED:
                            self._ours.add(event.entry.id)
                        self.watcher.happened(event, outlook)
                    outlook, ending = self._carry_out(outlook)
                self._keep_copies()
                return ending
        finally:
            for _ in range(self._hands):
                self._jobs.put(None)

    def _carry_out(self, outlook: Outlook) -> tuple[Outlook, Ending | None]:
        """One directive, or as much of it as there is news of."""
        match outlook.directive:
            case Finish(status=status):
                return outlook, Ending(outlook, status.value)
            case Ask():
                return self._ask(outlook)
            case Run(members=members):
                for attempt in members:
                    if attempt.id not in self._ours:
                        return self._recover(attempt)
                    if attempt.id not in self._workers:
                        self._launch(outlook, attempt)
                return self._await(outlook)
            case _:
                return self.supervisor.outlook(), None

    # ── work ────────────────────────────────────────────────────────────────────────────────

    def _launch(self, outlook: Outlook, attempt: Attempt) -> None:
        call = self._call(outlook, self.supervisor.work(outlook, attempt))
        worker = _Worker(attempt)
        self._workers[attempt.id] = worker
        if len(self._workers) > self._hands:
            self._hands += 1
            threading.Thread(target=self._lend_a_hand, daemon=True).start()
        self._jobs.put((worker, call))

    def _call(self, outlook: Outlook, work: Work) -> Call:
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
        )

    def _lend_a_hand(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._work(*job)

    def _work(self, worker: _Worker, call: Call) -> None:
        """In a thread of its own. Whatever happens in it, the main thread gets its news."""
        attempt = worker.attempt
        try:
            outcome = carry_out(
                self.agent,
                call,
                lambda line: self._news.put(_News(attempt, line=line)),
                under_way=worker.under_way,
            )
        except Exception as error:  # a plugin's fault is a failed step, never a run that hangs
            said = f"the agent {self.agent.name} raised {type(error).__name__}: {error}"
            outcome = failed("PB-AGENT-CRASHED", printable(said), name=self.agent.name)
        self._news.put(_News(attempt, outcome=outcome))

    def _await(self, outlook: Outlook) -> tuple[Outlook, Ending | None]:
        news = self._next_news()
        if news.signal:
            return self._called(outlook, news.signal)
        if news.attempt is not None and news.outcome is not None:
            return self._returned(news.attempt, news.outcome)
        if news.attempt is not None:
            self._last_words[news.attempt.id] = news.line
            self.watcher.said(news.attempt, news.line)
        return outlook.without_events(), None

    def _returned(self, attempt: Attempt, outcome: Outcome) -> tuple[Outlook, Ending | None]:
        del self._workers[attempt.id]
        if not self._pausing:
            return self.supervisor.report(attempt.id, outcome), None
        outlook = self.supervisor.note_return(attempt.id, outcome)
        return outlook, None if self._workers else Ending(outlook, "paused")

    def _next_news(self) -> _News:
        """What happens next; copies are written as soon as it takes a while."""
        try:
            return self._news.get(timeout=_SOON)
        except Empty:
            self._keep_copies()
            return self._news.get()

    def _keep_copies(self) -> None:
        with self.supervisor.store.open(self.supervisor.id) as opened:
            opened.copy()

    # ── gates ───────────────────────────────────────────────────────────────────────────────

    def _ask(self, outlook: Outlook) -> tuple[Outlook, Ending | None]:
        asked = outlook.directive
        assert isinstance(asked, Ask)  # noqa: S101 - the caller's match says so
        if self.mode is Mode.AUTONOMOUS and asked.reason is GateReason.GATE_ALWAYS:
            word = Resolution.CONTINUE
            return self._answer(asked, word, word.value, Mode.AUTONOMOUS.value), None
        self._keep_copies()
        context = self.supervisor.context(outlook, self._last_words.get(asked.member.id, ""))
        self.watcher.waits(outlook)
        if self.person is None:
            return outlook, Ending(outlook, "waiting", context=context)
        return self._listen(outlook, asked, self.person, context)

    def _listen(
        self, outlook: Outlook, asked: Ask, person: Person, context: tuple[str, ...]
    ) -> tuple[Outlook, Ending | None]:
        """Ask until there is an answer, here or elsewhere; an end of file is never one."""
        while True:
            said = person.ask(outlook, context, self._overtaken)
            if said.overtaken:
                if self._news.empty():
                    return self.supervisor.outlook(), None
                return self._called(outlook, self._news.get().signal)
            if said.text is None:
                return outlook, Ending(outlook, "waiting")
            text = said.text
            if not text.strip() and asked.reason is GateReason.GATE_ALWAYS:
                text = Resolution.CONTINUE.value  # Catalyst's ENTER
            reply = read_answer(text, asked.choices)
            if reply.resolution is not None:
                return self._answer(asked, reply.resolution, text, self.by), None
            person.not_understood(outlook, reply.question)

    def _answer(self, asked: Ask, resolution: Resolution, text: str, by: str) -> Outlook:
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
        return not self._news.empty() or self.supervisor.changed()

    def _called_by(self, number: int) -> None:
        self._news.put(_News(signal=number))

    # ── interruptions ───────────────────────────────────────────────────────────────────────

    def _called(self, outlook: Outlook, number: int) -> tuple[Outlook, Ending | None]:
        """A signal: an interruption, or somebody else's request."""
        if number != _CALL:
            self._stop_workers()
            return outlook, Ending(self.supervisor.interrupt(), "interrupted", number)
        request = presence.requested(self.supervisor.private)
        if request is None:
            return outlook.without_events(), None
        if request.what == "abort":
            self._stop_workers()
            self.supervisor.end_workers()  # those that an earlier runner left behind
            return self.supervisor.abort(request.text, request.by), None
        self._pausing = True
        if not self._workers:
            return outlook, Ending(outlook, "paused")
        names = ", ".join(self._workers)
        self.watcher.notice(f"pausing: {names} may return, nothing else is launched")
        return outlook.without_events(), None

    def _stop_workers(self) -> None:
        """End what runs. A worker that had ended well by then has returned, and is journaled."""
        for worker in self._workers.values():  # all at once: each may take its time to end
            threading.Thread(target=worker.stop).start()
        deadline = time.monotonic() + _LAST_WORDS
        with suppress(Empty):
            while self._workers:
                news = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
                if news.attempt is not None and news.outcome is not None:
                    del self._workers[news.attempt.id]
                    if news.outcome.ok:
                        self.supervisor.note_return(news.attempt.id, news.outcome)
        self._workers.clear()

    def _recover(self, attempt: Attempt) -> tuple[Outlook, Ending | None]:
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
                number = self._news.get(timeout=_ORPHAN).signal
            except Empty:
                continue
            outlook = self.supervisor.outlook()
            if number == _CALL:
                return self._called(outlook, number)
            return outlook, Ending(outlook, "interrupted", number)
        return self.supervisor.lose(attempt), None
