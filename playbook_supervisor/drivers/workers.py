"""A runner's worker threads: one for each running step, which waits for its agent or executor.

Lines, requests, outcomes and signals reach the main thread through one queue; only the main thread
decides and journals. A thread whose agent asks a person waits until `reply`.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from playbook_supervisor.agents import protocol as agents
from playbook_supervisor.drivers.driver_lock import Request
from playbook_supervisor.drivers.jobs import Channels, Job
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Attempt, Outcome
from playbook_supervisor.system.disk.log_file import LogFile
from playbook_supervisor.system.process.process_groups import kill_worker

_FILES_PER_WORKER, _OTHER_FILES = 16, 64  # descriptors: 12 while it starts, 6 later; the rest
_STOP_TIMEOUT = 10.0  # seconds that stopped workers have to return


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """A worker's line, notice, question or outcome; a signal, or a request of a person elsewhere.

    `put_off`: the worker has ended, because its question was not answered in time.
    """

    attempt: Attempt | None = None
    line: str = ""
    notice: str = ""
    asked: agents.Request | None = None
    outcome: Outcome | None = None
    put_off: bool = False
    signal: int = 0
    request: Request | None = None


@dataclass(slots=True)
class _Worker:
    attempt: Attempt
    log: Path
    end: Callable[[], None] | None = None
    stopped: bool = False
    put_off: bool = False
    replies: SimpleQueue[agents.Reply | None] = field(default_factory=SimpleQueue)

    def started(self, end: Callable[[], None]) -> None:
        self.end = end
        if self.stopped:
            end()

    def stop(self) -> None:
        self.stopped = True
        self.reply(None)
        if self.end is not None:
            self.end()

    def reply(self, reply: agents.Reply | None) -> None:
        self.replies.put(reply)

    def ask(self, post: Callable[[], None]) -> agents.Reply | None:
        """Post the request, and wait for the reply; None: it is put off."""
        if self.put_off or self.stopped:
            return None
        post()
        reply = self.replies.get()
        self.put_off = reply is None
        return reply


@dataclass(slots=True)
class WorkerPool:
    """As many threads as were ever needed at once; an idle one takes the next step."""

    events: SimpleQueue[WorkerEvent] = field(default_factory=SimpleQueue)
    _next: WorkerEvent | None = None
    _jobs: SimpleQueue[tuple[_Worker, Job] | None] = field(default_factory=SimpleQueue)
    _threads: int = 0
    _workers: dict[str, _Worker] = field(default_factory=dict)

    @property
    def active(self) -> tuple[str, ...]:
        """The ids of the attempts whose outcome has not been taken from the queue."""
        return tuple(self._workers)

    def launch(self, attempt: Attempt, job: Job, log: Path) -> None:
        """Start the job; its lines and its outcome arrive as events, all that it says in `log`."""
        worker = _Worker(attempt, log)
        _raise_file_limit(len(self._workers) + 1)
        if len(self._workers) >= self._threads:
            threading.Thread(target=self._serve, daemon=True).start()
            self._threads += 1
        self._workers[attempt.id] = worker
        self._jobs.put((worker, job))

    def next(self, timeout: float | None) -> WorkerEvent | None:
        """The next event; None if there is none for `timeout` seconds."""
        if self._next is not None:
            event, self._next = self._next, None
            return event
        with suppress(Empty):
            return self.events.get(timeout=timeout)
        return None

    def has_news(self, show: Callable[[Attempt, str], None], timeout: float = 0.0) -> bool:
        """True if the next event, within `timeout` seconds, is more than output, which is shown."""
        while self._next is None:
            try:
                event = self.events.get(timeout=timeout) if timeout else self.events.get_nowait()
            except Empty:
                return False
            timeout = 0.0
            if event.attempt is not None and event.line:
                show(event.attempt, event.line)
            else:
                self._next = event
        return True

    def reply(self, attempt_id: str, reply: agents.Reply | None) -> None:
        """The reply to the worker's request; None puts it off, and the worker ends."""
        self._workers[attempt_id].reply(reply)

    def returned(self, attempt: Attempt) -> None:
        """Its outcome has been taken from the queue."""
        del self._workers[attempt.id]

    def stop(self) -> Iterator[tuple[Attempt, Outcome]]:
        """Stop all workers and yield the outcomes of those that had succeeded by then.

        Read it to the end. A worker that does not end in time is found again by its worker file.
        """
        for worker in self._workers.values():  # at once: each may take its time to end
            try:
                threading.Thread(target=worker.stop).start()
            except RuntimeError:  # the system allows no more threads
                worker.stop()
        deadline = time.monotonic() + _STOP_TIMEOUT
        while self._workers and (event := self.next(max(0.0, deadline - time.monotonic()))):
            if event.attempt is None or not (event.outcome or event.put_off):
                continue
            self.returned(event.attempt)
            if event.outcome is not None and event.outcome.ok:
                yield event.attempt, event.outcome
        self._workers.clear()

    def abandon(self) -> None:
        """Stop all workers, whatever they have done."""
        for _ in self.stop():
            pass

    def close(self) -> None:
        """End the idle threads."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._run(*job)

    def _run(self, worker: _Worker, job: Job) -> None:
        attempt = worker.attempt
        log = LogFile(worker.log)
        channels = Channels(
            log=log.add,
            on_line=lambda line: self.events.put(WorkerEvent(attempt, line=line)),
            on_notice=lambda line: self.events.put(WorkerEvent(attempt, notice=line)),
            on_start=worker.started,
            ask=lambda request: worker.ask(
                lambda: self.events.put(WorkerEvent(attempt, asked=request))
            ),
        )
        try:
            outcome = job.run(channels)
        except Exception as error:  # a plugin's fault is a failed step, never a run that hangs
            outcome = job.crashed(error)
        log.close()
        if job.worker_file is not None:  # a plugin may start its processes without a leash
            with suppress(PlaybookError):
                kill_worker(job.worker_file)
        if worker.put_off:
            self.events.put(WorkerEvent(attempt, put_off=True))
        else:
            self.events.put(WorkerEvent(attempt, outcome=outcome))


def _raise_file_limit(workers: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OTHER_FILES + _FILES_PER_WORKER * workers
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # the step that runs out of files reports it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
