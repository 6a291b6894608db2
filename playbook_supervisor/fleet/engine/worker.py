"""A worker: takes jobs from the queue until it is asked to stop, and puts back what others left.

The queue calls `advance` in threads, one for each slot. The main thread sweeps: it puts back the
jobs of leases that have lapsed.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.engine.advance import LocalWorker, advance
from playbook_supervisor.fleet.engine.lease import Term
from playbook_supervisor.fleet.storage.rows import State
from playbook_supervisor.fleet.worker_settings import WorkerSettings
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import ensure_folder, locked, remove
from playbook_supervisor.system.process.process_groups import worker_alive

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.database import FleetDatabase

_MOST_BETWEEN_SWEEPS = 5.0  # seconds
_DRAIN_INTERVAL = 0.5  # seconds between two looks at whether the queue is empty
_PRIVATE = 0o700
_LOCK = "lock"


def new_name() -> str:
    """The name of a worker: its machine, and what tells its starts apart."""
    machine = re.sub(r"[^a-z0-9-]", "-", os.uname().nodename.partition(".")[0].lower()) or "worker"
    return f"{machine[:40]}-{secrets.token_hex(3)}"


def work(
    database: FleetDatabase,
    settings: WorkerSettings,
    *,
    name: str = "",
    drain: bool = False,
    tell: Callable[[str, str], None],
    log: Callable[[str, str], None],
) -> int:
    """Work until a signal comes, or, to `drain`, until nothing is queued; return the signal or 0.

    `tell` is given a session, or nothing, and a sentence. A second signal changes nothing: agents
    end within seconds. Errors of the folder and of the database at the start are raised.
    """
    tell, log = _until_deaf(tell), _until_deaf(log)
    stopping = threading.Event()
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        stopping.set()

    with ExitStack() as stack:
        stack.enter_context(driver_lock.handling_signals(stop))
        name = name or new_name()
        own, mirrors = stack.enter_context(_folders(name))
        term = Term(settings.lease)
        worker = LocalWorker(name, database, settings, term, own, mirrors, stopping, tell, log)
        jobs = _Jobs(worker)
        taking = stack.enter_context(
            database.queue.work(settings.pools, settings.slots, jobs.carry_out, name)
        )
        _Sweeper(worker, jobs).run(drain=drain)
        taking.stop()
        if jobs.active:
            tell("", f"stopping: {counted(jobs.active, 'session')} put back or pushed first")
    return received[0] if received else 0


def _until_deaf(say: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """A session goes on if no one listens, such as after a terminal was closed."""

    def said(session_id: str, sentence: str) -> None:
        with suppress(OSError):
            say(session_id, sentence)

    return said


class _Jobs:
    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker
        self._turn = threading.Lock()
        self.active = 0

    def carry_out(self, session_id: str, job: int) -> bool:
        with self._turn:
            self.active += 1
        try:
            if not self._worker.stopping.is_set():
                return advance(self._worker, session_id, job)
            self._put_back(session_id, job)
            return False
        finally:
            with self._turn:
                self.active -= 1

    def _put_back(self, session_id: str, job: int) -> None:
        try:
            self._worker.database.queue.put_back(session_id, job)
        except PlaybookError as error:  # then a sweep puts it back
            self._worker.log(session_id, f"not put back: {error.message}")


class _Sweeper:
    """Puts back what no worker holds any more, and notices when a drain is over."""

    def __init__(self, worker: LocalWorker, jobs: _Jobs) -> None:
        self._worker, self._jobs = worker, jobs
        self._away = False

    def run(self, *, drain: bool) -> None:
        every = min(self._worker.term.seconds / 4, _MOST_BETWEEN_SWEEPS)
        due = 0.0
        while not self._worker.stopping.is_set():
            if due <= 0:
                self._guarded(self._sweep)
                due = every
            if drain and not self._jobs.active and self._guarded(self._drained):
                self._worker.stopping.set()
                return
            pause = min(due, _DRAIN_INTERVAL) if drain else due
            self._worker.stopping.wait(pause)
            due -= pause

    def _sweep(self) -> bool:
        swept = self._worker.database.sweep(self._worker.term.seconds)
        for session_id in swept.put_back:
            self._worker.tell(session_id, "put back: its worker's lease has lapsed")
        for session_id in swept.lost:
            self._worker.tell(session_id, "put back: its job was lost")
        return True

    def _drained(self) -> bool:
        pools, busy = self._worker.settings.pools, (State.QUEUED, State.RUNNING)
        rows = self._worker.database.rows(open_only=True)
        return not any(row.pool in pools and row.state in busy and row.job for row in rows)

    def _guarded(self, look: Callable[[], bool]) -> bool:
        """The result of `look`; False while the database is away, which is told once."""
        try:
            found = look()
        except PlaybookError as error:
            if not self._away:
                self._worker.tell("", f"{error.message}; trying again")
            self._away = True
            return False
        if self._away:
            self._worker.tell("", "the database is back")
        self._away = False
        return found


# ── the folders ─────────────────────────────────────────────────────────────────────────────


@contextmanager
def _folders(name: str) -> Iterator[tuple[Path, Path]]:
    """This worker's own folder, and that of the mirrors; removes what killed workers left."""
    top = user_state.path("fleet")
    workers, mirrors = top / "workers", top / "mirrors"
    own = workers / name
    for folder in (mirrors, own):
        ensure_folder(folder)
    for folder in (top, workers, own, mirrors):
        folder.chmod(_PRIVATE)
    with locked(own / _LOCK, timeout=0):
        remove_abandoned(but=own)
        yield own, mirrors
    remove(own)


def remove_abandoned(*, but: Path | None = None) -> tuple[str, ...]:
    """Remove the folders of this user's workers that have ended, unless something of them runs."""
    workers = user_state.path("fleet") / "workers"
    found = sorted(workers.iterdir()) if workers.is_dir() else []
    return tuple(left.name for left in found if left != but and _removed(left))


def _removed(left: Path) -> bool:
    try:
        with locked(left / _LOCK, timeout=0):
            if any(worker_alive(child) for child in left.glob("*/child")):
                return False
            remove(left)
    except PlaybookError:
        return False
    return True
