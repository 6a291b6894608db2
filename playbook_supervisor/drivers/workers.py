"""The hands of a runner: a thread for each running step, which only waits for its worker.

What workers say and bring back comes through one queue, and so do signals: the main thread alone
decides and journals.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue

from playbook_supervisor.agents.protocol import Agent, Call, Running, carry_out, failed
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Attempt, Outcome
from playbook_supervisor.records import Record, field

_EACH, _OWN = 8, 64  # descriptors: a worker's pipes and what starting it takes; all else here
_LAST_WORDS = 10.0  # seconds that stopped workers may take to say so


class WorkerEvent(Record):
    """A worker's line, a notice of it, its return, or a signal."""

    attempt: Attempt | None = None
    line: str = ""
    notice: str = ""
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


class WorkerPool(Record, frozen=False):
    """As many as were ever needed at once; each is there for the next step when it is free."""

    agent: Agent
    news: SimpleQueue[WorkerEvent] = field(default_factory=SimpleQueue)
    _jobs: SimpleQueue[tuple[_Worker, Call] | None] = field(default_factory=SimpleQueue)
    _number: int = 0
    _workers: dict[str, _Worker] = field(default_factory=dict)

    @property
    def at_work(self) -> tuple[str, ...]:
        """The ids of the attempts whose workers have not come back."""
        return tuple(self._workers)

    def launch(self, attempt: Attempt, call: Call) -> None:
        """Begin it; what comes of it is news."""
        worker = _Worker(attempt)
        self._workers[attempt.id] = worker
        _make_room(len(self._workers))
        if len(self._workers) > self._number:
            self._number += 1
            threading.Thread(target=self._lend, daemon=True).start()
        self._jobs.put((worker, call))

    def came_back(self, attempt: Attempt) -> None:
        """Its outcome has been taken from the news."""
        del self._workers[attempt.id]

    def stop(self) -> Iterator[tuple[Attempt, Outcome]]:
        """End what runs, to be read to the end; the outcomes of those that had ended well by then.

        One that will not end in time is left to whoever finds its worker file.
        """
        for worker in self._workers.values():  # all at once: each may take its time to end
            threading.Thread(target=worker.stop).start()
        deadline = time.monotonic() + _LAST_WORDS
        with suppress(Empty):
            while self._workers:
                news = self.news.get(timeout=max(0.0, deadline - time.monotonic()))
                if news.attempt is not None and news.outcome is not None:
                    self.came_back(news.attempt)
                    if news.outcome.ok:
                        yield news.attempt, news.outcome
        self._workers.clear()

    def dismiss(self) -> None:
        """Nothing more is to be done."""
        for _ in range(self._number):
            self._jobs.put(None)

    def _lend(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._work(*job)

    def _work(self, worker: _Worker, call: Call) -> None:
        """In a thread of its own. Whatever happens in it, the main thread gets its news."""
        attempt = worker.attempt
        try:
            outcome = carry_out(
                self.agent,
                call,
                lambda line: self.news.put(WorkerEvent(attempt, line=line)),
                on_start=worker.under_way,
                on_notice=lambda line: self.news.put(WorkerEvent(attempt, notice=line)),
            )
        except Exception as error:  # a plugin's fault is a failed step, never a run that hangs
            said = f"the agent {self.agent.name} raised {type(error).__name__}: {error}"
            outcome = failed("PB-AGENT-CRASHED", printable(said), name=self.agent.name)
        self.news.put(WorkerEvent(attempt, outcome=outcome))


def _make_room(workers: int) -> None:
    """Let this process have as many files open as so many workers take, if the system lets it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OWN + _EACH * workers
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # then the step that finds none says so
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
