"""DBOS in the process of a worker: takes jobs and calls what carries them out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import dbos
from dbos import error as dbos_errors

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.sessions.manifest import SESSION_ID

WORKFLOW = "advance"
"""What DBOS calls a job of ours."""
PROTOCOL = 1
"""What a job means; an argument of each. Those of another protocol are left to other workers."""
_OFFERED_AGAIN = 30.0  # seconds that such a job is kept, so that it is not taken all the time
_LAST_WRITE = 10.0  # seconds to write that a job has ended
_PAUSE = 0.05  # seconds between two looks at whether that is done


class DbosWorker:
    """What one worker takes from the queue: at most `slots` jobs at once, over all its pools."""

    def __init__(
        self,
        put_back: Callable[[str, int], object],
        pools: Sequence[str],
        slots: int,
        advance: Callable[[str, int], bool],
    ) -> None:
        self._put_back, self._pools, self._advance = put_back, pools, advance
        self._free = threading.BoundedSemaphore(slots)
        self._slots = slots
        self._ready, self._stopped = threading.Event(), threading.Event()
        self._active: Any = None

    def register(self) -> None:
        """Tell DBOS what a job does, before it is launched."""

        @dbos.DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
        def carry_out(session: str, protocol: int) -> None:
            self._carry_out(session, protocol)

    def begin(self, runtime: Any) -> None:
        """Take jobs from now on: DBOS has been launched."""
        _require(runtime, "_active_workflows_set", "_sys_db")
        self._active = runtime._active_workflows_set
        self._adapt(runtime._sys_db)
        self._ready.set()

    def stop(self) -> None:
        """Take no further jobs."""
        self._stopped.set()
        self._ready.set()

    def wait(self) -> None:
        """Wait until the jobs at work have returned, and DBOS has written that."""
        for _ in range(self._slots):
            self._free.acquire()
        until = time.monotonic() + _LAST_WRITE
        while self._active is not None and self._active.activeList() and time.monotonic() < until:
            time.sleep(_PAUSE)

    def _carry_out(self, session: str, protocol: int) -> None:
        """The job, in a thread of DBOS. It is put back if it is not for this worker."""
        self._ready.wait()
        job = job_of(dbos.DBOS.workflow_id or "")
        if job is None or job[0] != session:
            return  # it is not one of ours
        if self._stopped.is_set() or not self._free.acquire(blocking=False):
            self._leave(*job)
        try:
            if protocol != PROTOCOL:
                self._stopped.wait(_OFFERED_AGAIN)
                self._leave(*job)
            try:
                ended = self._advance(*job)
            except Exception:
                self._leave(*job)
            if not ended:
                raise _Left
        finally:
            self._free.release()

    def _leave(self, session: str, number: int) -> None:
        with suppress(PlaybookError):  # then a sweep puts it back
            self._put_back(session, number)
        raise _Left

    def _adapt(self, system: Any) -> None:
        """Replace three inner parts of this process's DBOS.

        - A queue has one number of slots for all workers, and each queue of a worker its own. Here
          each worker has a number for all its queues.
        - A job that was taken from this worker would wait in its thread until another has done it,
          and the process could not end before.
        - What cannot be written while the database is away is tried without end; the process could
          not end then, either. A sweep finds what was not written.
        """
        _require(system, "get_queue", "await_workflow_result", "_retry_connection_errors")
        get_queue = system.get_queue

        def limited(name: str, **options: Any) -> Any:
            found = get_queue(name, **options)
            if found is not None and not options:
                found._worker_concurrency = self._room(name)
            return found

        def refuse(*_: Any, **__: Any) -> None:
            raise _OvertakenError

        system.get_queue = limited
        system.await_workflow_result = refuse
        system._retry_connection_errors = False

    def _room(self, pool: str) -> int:
        """How many jobs of this pool may be here, those at work included."""
        if self._stopped.is_set():
            return 0
        others = (self._active.count_for_queue(other) for other in self._pools if other != pool)
        return int(max(0, self._slots - sum(others)))


class _Left(BaseException):
    """The job has not ended. DBOS writes no outcome for what is no `Exception`."""


class _OvertakenError(Exception):
    """Another worker has the job."""


def job_id(session: str, number: int) -> str:
    """What DBOS calls the job."""
    return f"{session}:{number}"


def job_of(name: str) -> tuple[str, int] | None:
    """The session and the number of a job; None if nothing of ours has put it."""
    session, _, number = name.rpartition(":")
    known = SESSION_ID.match(session) and number.isascii() and number.isdigit()
    return (session, int(number)) if known and len(number) < _MOST_DIGITS else None


_MOST_DIGITS = 10


def _require(part: Any, *names: str) -> None:
    missing = [name for name in names if not hasattr(part, name)]
    if missing:
        raise dbos_errors.DBOSException(f"this version of DBOS has no {', '.join(missing)}")
