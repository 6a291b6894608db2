"""A worker: takes sessions until it is asked to stop, and advances each in a thread.

It looks at the queue again and again, so an idle one costs the database about a statement a second.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.engine.advance import LocalWorker, advance
from playbook_supervisor.fleet.engine.lease import Term
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import SUSPECT, Lease
from playbook_supervisor.fleet.storage.taking import Kept
from playbook_supervisor.fleet.worker_settings import WorkerSettings
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import ensure_folder, locked, remove
from playbook_supervisor.system.process.leash_process import now
from playbook_supervisor.system.process.process_groups import worker_alive

_LOOK = 1.2  # seconds between two looks at the queue
_AWAY = 5.0  # seconds until the database is asked again if it was away
_SOON = 0.1  # seconds at least, for one that was due but was not to be had
_FULL = 0.5  # seconds between two looks at whether a slot is free
_ALONE = "its workers have died: it is taken once the other sessions of this worker have ended"
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
        database.serve(settings.slots)
        slots = _Slots(worker)
        _Taker(worker, slots).run(drain=drain)
        if slots.active:
            tell("", f"stopping: {counted(slots.active, 'session')} put back or pushed first")
        slots.wait_until_empty()
    return received[0] if received else 0


def _until_deaf(say: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """A session goes on if no one listens, such as after a terminal was closed."""

    def said(session_id: str, sentence: str) -> None:
        with suppress(OSError):
            say(session_id, sentence)

    return said


class _Slots:
    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker
        self._turn = threading.Condition()
        self._alone = False
        self.active = 0

    def free(self, seconds: float) -> bool:
        """True if there is room for one more, maybe only after some of these seconds."""
        most = self._worker.settings.slots
        with self._turn:
            return self._turn.wait_for(
                lambda: self.active < (1 if self._alone else most), timeout=seconds
            )

    def carry_out(self, lease: Lease, asked: float) -> None:
        with self._turn:
            self.active += 1
            self._alone = lease.row.deaths >= SUSPECT
        threading.Thread(target=self._advance, args=(lease, asked)).start()

    def wait_until_empty(self) -> None:
        with self._turn:
            self._turn.wait_for(lambda: not self.active)

    def _advance(self, lease: Lease, asked: float) -> None:
        try:
            advance(self._worker, lease, asked)
        finally:
            with self._turn:
                self.active -= 1
                self._alone = False
                self._turn.notify_all()


class _Taker:
    """Takes sessions for the slots that are free, and notices when a drain is over."""

    def __init__(self, worker: LocalWorker, slots: _Slots) -> None:
        self._worker, self._slots = worker, slots
        self._database, self._pools = worker.database, worker.settings.pools
        self._kept, self._kept_at = "", 0.0
        self._away = False

    def run(self, *, drain: bool) -> None:
        stopping = self._worker.stopping
        while not stopping.is_set():
            if self._kept:
                self._keep()
            if not self._slots.free(_FULL):
                continue
            try:
                pause = self._look(drain=drain)
            except PlaybookError as error:
                if not self._away:
                    self._worker.tell("", f"{error.message}; trying again")
                self._away = True
                stopping.wait(_AWAY)
                continue
            if self._away:
                self._worker.tell("", "the database is back")
            self._away = False
            if pause is None:
                return
            stopping.wait(pause)

    def _look(self, *, drain: bool) -> float | None:
        """Take a session if one is due; the seconds to wait then, None if a drain is over."""
        if self._kept and self._slots.active:
            return _FULL
        due = 0.0 if self._kept else self._database.due(self._pools)
        if due is None:
            return None if drain and not self._slots.active else _LOOK
        if due > 0:
            return min(due + _SOON, _LOOK)
        asked = now()
        seconds, busy = self._worker.term.seconds, self._slots.active > 0
        taken = self._database.take_next(self._pools, self._worker.name, seconds, busy=busy)
        self._kept = ""
        match taken:
            case Lease():
                self._slots.carry_out(taken, asked)
                return 0.0
            case Kept():
                self._kept, self._kept_at = taken.session, asked
                self._worker.tell(taken.session, _ALONE)
        return _LOOK

    def _keep(self) -> None:
        """Keep the session that is to be taken alone, until the others have ended."""
        term = self._worker.term
        if now() - self._kept_at < term.renewal:
            return
        self._kept_at = now()
        with suppress(PlaybookError):  # then another worker may take it
            if not self._database.keep(self._kept, self._worker.name, term.seconds):
                self._kept = ""


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
