"""Advance one session until it waits or ends: take it, claim it, drive it, push it, let it go.

The database says who may try, git who did: nothing is written to the database that is not in the
repository already. What this worker cannot do now is put off; what no worker can do is stuck.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.drivers.fleet import child, outcome
from playbook_supervisor.drivers.fleet.database import FleetDatabase
from playbook_supervisor.drivers.fleet.lease import LeaseKeeper, Term, overtaken
from playbook_supervisor.drivers.fleet.remotes import mirror_name, normalised, repository_name
from playbook_supervisor.drivers.fleet.session_clone import SessionClone
from playbook_supervisor.drivers.fleet.session_ref import Mirror, Tip
from playbook_supervisor.drivers.fleet.storage.rows import State, StoredAnswer
from playbook_supervisor.errors import (
    FleetError,
    GitError,
    PlaybookError,
    StateError,
    StorageError,
)
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.versions import is_newer
from playbook_supervisor.project.worker_settings import WorkerSettings
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system.files import ensure_folder, remove, require_space
from playbook_supervisor.system.leash_process import now

_CLAIMS = 3  # a former worker's last push may come before a claim
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0  # seconds between two tries to push
_NOT_TAKEN = 5.0  # seconds until a job whose session could not be taken is given back
_UNFIT = 30.0  # seconds that a worker leaves sessions to others, if it cannot write to its disk
_HINDERED = 30.0  # seconds to try again to make a snapshot: a full disk may have room again
_DATABASE_AWAY = 600.0  # seconds to try to write what git knows already
_STOPPING = 15.0  # the same once the worker is asked to stop


class Station(Record):
    """What a worker has on this machine. `folder` is its own, `mirrors` all workers' of this user.

    `tell` is given a session and a sentence for the person who watches, `log` what its child says.
    """

    name: str
    database: FleetDatabase
    settings: WorkerSettings
    term: Term
    folder: Path
    mirrors: Path
    stopping: threading.Event
    tell: Callable[[str, str], None]
    log: Callable[[str, str], None]

    def mirror(self, url: str) -> Mirror:
        """The mirror of a repository. FleetError PB-FLEET-REPOSITORY if it is not served here."""
        accepted = normalised(url, self.settings.transports)
        if not self.settings.admits(accepted):
            raise FleetError(
                "PB-FLEET-REPOSITORY",
                f"the settings of worker {self.name} do not name the repository",
                guidance="Add it to `repositories` in worker.yaml.",
            )
        return Mirror(self.mirrors / mirror_name(accepted), accepted, self.settings.transports)


def advance(station: Station, session_id: str, job: int) -> bool:
    """Take the session, unless another worker holds it, and advance it; whether its job has ended.

    It has once the session's row says what comes next. If this worker has lost the session, or
    cannot write to the row, the job must stay, or the session would have none. Only an error of
    the database that keeps the session from being taken is raised, after a pause.
    """
    asked = now()
    try:
        lease = station.database.take(session_id, job, station.name, station.term.seconds)
    except PlaybookError as error:
        station.tell(session_id, f"not taken: {error.message}")
        station.stopping.wait(_NOT_TAKEN)
        raise
    if lease is None:
        return True

    def tell(sentence: str) -> None:
        station.tell(session_id, sentence)

    tell(f"taken (epoch {lease.epoch}): {lease.row.playbook} {lease.row.feature}".rstrip())
    with LeaseKeeper(station.database, lease, station.term, asked, tell) as keeper:
        take_up = _TakeUp(station, keeper)
        try:
            take_up.carry_out()
        except PlaybookError as error:
            take_up.give_up(error)
        except Exception as error:  # whatever it is, the session is not lost
            take_up.give_up(outcome.unexpected(error))
        finally:
            take_up.clean_up()
    take_up.tidy_up()
    return take_up.written


class _TakeUp:
    """One take-up of a session under a lease."""

    def __init__(self, station: Station, keeper: LeaseKeeper) -> None:
        self._station, self._keeper = station, keeper
        self._session = keeper.lease.session
        own = f"{self._session}-{keeper.lease.epoch}-{secrets.token_hex(3)}"
        self._folder = station.folder / own
        self._mirror: Mirror | None = None
        self._clone: SessionClone | None = None
        self._tip: Tip | None = None
        self._refused = ""  # why the last answer does not count
        self._hindrance: PlaybookError | None = None  # why no snapshot could be pushed
        self._cleared = 0  # launches of the child: all but the first follow a settled attempt
        self.written = False  # the row says what became of the session

    def carry_out(self) -> None:
        row = self._keeper.lease.row
        require_space(self._station.folder)
        if is_newer(row.needs, __version__):
            raise StateError("PB-STATE-NEWER", f"it needs playbook {row.needs}")
        self._mirror = mirror = self._station.mirror(row.repository)
        self._tip = self._claim(mirror)
        ensure_folder(self._folder)
        self._clone = mirror.checkout(self._tip, self._folder / repository_name(row.repository))
        DiskStore(self._clone.here()).clock.follow(self._station.database.now())
        driven = child.Driven(self._clone, self._session, self._station, self._keeper)
        answer = self._station.database.answer_due(self._keeper.lease)
        if answer is not None:
            self._journal(driven, answer)
        driven.drive(self._clearance)
        self._settle(driven)

    def _journal(self, driven: child.Driven, answer: StoredAnswer) -> None:
        database, lease = self._station.database, self._keeper.lease
        self._refused = driven.journal(answer)
        if self._refused:
            self._tell(self._refused)
        else:
            self._push()
        settle = database.refuse_answer if self._refused else database.journaled
        with suppress(FleetError):  # then the next take-up finds it again
            settle(lease, answer.gate)

    def _claim(self, mirror: Mirror) -> Tip:
        """The claim, which makes the remote refuse every former worker of the session."""
        for _ in range(_CLAIMS):
            tip = mirror.tip(self._session)
            if tip.epoch >= self._keeper.lease.epoch:  # the database is older than the repository
                self._keeper.lift(tip.epoch + 1)
            self._keeper.require()
            try:
                return mirror.claim(tip, self._keeper.lease.epoch, self._station.name)
            except FleetError as error:
                if error.code != "PB-FLEET-OVERTAKEN":
                    raise
        raise overtaken(self._session)

    # ── pushing ─────────────────────────────────────────────────────────────────────────────

    def _clearance(self) -> str:
        """Whether the child may launch its next steps: empty, or why not."""
        try:
            self._push()
            self._cleared += 1
        except PlaybookError as error:
            self._hindrance = error
        except Exception as error:
            self._hindrance = outcome.unexpected(error)
        return self._hindrance.message if self._hindrance else ""

    def _push(self, *, branch: bool = False) -> None:
        """Push a snapshot. As long as the lease holds, it is tried again: work is expensive.

        What does not concern the remote, such as a full disk, is given less time.
        """
        assert self._clone is not None  # noqa: S101 - it was checked out
        assert self._tip is not None  # noqa: S101 - it was claimed
        pause, until = _FIRST_PAUSE, 0.0
        while True:
            self._keeper.require()
            try:
                self._tip = self._clone.snapshot(
                    self._tip, branch=branch, children=self._clone.other_sessions(self._session)
                )
            except (GitError, StorageError) as error:
                if self._station.stopping.is_set():
                    until = until or time.monotonic() + _STOPPING
                elif error.code != "PB-GIT-REMOTE":
                    until = until or time.monotonic() + _HINDERED
                if 0 < until < time.monotonic():
                    raise
                self._tell(f"not pushed yet: {error.message}")
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return

    def _push_result(self, *, branch: bool) -> None:
        """Push the last snapshot, with the branch if it goes there; else without, and say so."""
        try:
            self._push(branch=branch)
        except FleetError as error:
            if error.code == "PB-FLEET-BRANCH":
                self._push()
            raise

    # ── the end of the take-up ──────────────────────────────────────────────────────────────

    def _settle(self, driven: child.Driven) -> None:
        """Push what has become of the session, and then let the database know it."""
        database, lease = self._station.database, self._keeper.lease
        self._keeper.require()
        became = driven.became()
        if became.retry is not None and self._hindrance is None:
            raise became.retry
        self._push_result(branch=became.state is not State.QUEUED)
        if became.retry is not None and self._hindrance is not None:
            raise self._hindrance
        if became.state is State.WAITING:
            gate, choices, said = became.gate, became.choices, self._refused
            self._persist(lambda: database.wait(lease, gate, choices, said))
            how = f"playbook answer {self._session} {'|'.join(became.choices)}"
            self._tell(f"waits at gate {became.gate}: {how}")
        elif became.state is State.QUEUED:
            seconds = 0.0 if self._station.stopping.is_set() else None
            self._put_off(became.code, became.said, seconds)
            self._tell(f"put back: {became.said}")
        else:
            self._persist(lambda: database.finish(lease, became.state))
            self._tell(became.state.value)

    def give_up(self, error: PlaybookError) -> None:
        """Put the session off, or back, or say that it is stuck, after an error."""
        database, lease = self._station.database, self._keeper.lease
        said = outcome.sentence(error)
        for line in (error.message, *error.cause.splitlines()):
            self._station.log(self._session, line)
        if error.code == "PB-FLEET-OVERTAKEN":
            self._tell(f"given up: {first_line(error.message)}")
            return
        needs = self._needs(error)
        if needs:
            self._tell(f"left to a newer worker: {said}")
            self._persist(lambda: database.need(lease, needs))
        elif outcome.lasts(error):
            became = "ended, not in its journal" if self._keeper.cancelled[0] else "stuck"
            self._tell(f"{became}: {said} [{error.code}]")
            self._persist(lambda: database.stick(lease, error.code, said))
        else:
            self._tell(f"put off: {said} [{error.code}]")
            self._put_off(error.code, said)
            if isinstance(error, StorageError):  # it would fail with every session
                self.clean_up()
                self._station.stopping.wait(_UNFIT)

    def _put_off(self, code: str, said: str, seconds: float | None = None) -> None:
        database, lease, progressed = self._station.database, self._keeper.lease, self._cleared > 1
        self._persist(
            lambda: database.put_off(lease, code, said, seconds=seconds, progressed=progressed)
        )

    def _needs(self, error: PlaybookError) -> str:
        """The version that the session needs; empty if this error, or this program, is none."""
        if error.code != "PB-STATE-NEWER":
            return ""
        needs = self._keeper.lease.row.needs or (self._tip.version if self._tip else "")
        return needs if is_newer(needs, __version__) else ""

    def _persist(self, write: Callable[[], object]) -> None:
        """Write to the database; while it is away, try again. If it stays away, the next worker
        that takes the session finds in git what was not written."""
        until, pause = time.monotonic() + _DATABASE_AWAY, _FIRST_PAUSE
        while True:
            try:
                self.written = bool(write())
            except FleetError as error:
                limit = until
                if self._station.stopping.is_set():
                    until = min(until, time.monotonic() + _STOPPING)
                if error.code != "PB-FLEET-DATABASE" or time.monotonic() > limit:
                    self._tell(f"not written to the database: {error.message}")
                    return
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return

    def clean_up(self) -> None:
        try:
            if self._clone is not None:
                self._clone.remove()
            remove(self._folder)
        except PlaybookError as error:  # the next start of a worker here removes it
            self._tell(f"its clone is not removed: {error.message}")

    def tidy_up(self) -> None:
        """Keep the mirror small, once the session has been let go."""
        if self._mirror is not None and not self._station.stopping.is_set():
            try:
                self._mirror.tidy()
            except PlaybookError as error:
                self._station.log(self._session, f"its mirror is not packed: {error.message}")

    def _tell(self, sentence: str) -> None:
        self._station.tell(self._session, sentence)
