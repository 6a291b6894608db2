"""The fleet as pages show it: the list from the database, a session's page from git.

To show a session, its newest snapshot is cloned, and nothing changes the clone. It is removed when
no one has looked for a while. What a process that was killed has left is removed by the next one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbook_supervisor.commands import overview
from playbook_supervisor.commands.overview import pinned_policy
from playbook_supervisor.commands.places import PlacedSession
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.fleet import worker_settings
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.commands.overview import FleetSession, fleet
from playbook_supervisor.fleet.engine.remotes import repository_name
from playbook_supervisor.fleet.engine.session_ref import SessionClone
from playbook_supervisor.fleet.storage.rows import OPEN, Row, State
from playbook_supervisor.kernel.state import Gate
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import ensure_folder, locked, remove
from playbook_supervisor.system.git import checkout

if TYPE_CHECKING:
    from playbook_supervisor.commands.overview import SessionOverview
    from playbook_supervisor.fleet.storage.database import FleetDatabase

KEY = "fleet"
"""Stands for the fleet in links, where other sessions have their repository's key."""

_SECTIONS = {State.RUNNING: "working"}
_FRESH = 2.0  # seconds
_UNUSED = 600.0  # seconds after which a clone is removed
_LOCK = "lock"


class FleetReader:
    """The sessions of the fleet of this folder. Any thread may ask.

    `stands` says where a session stands, at a time of the database's clock.
    """

    after_answer = "A worker of the fleet journals it, and goes on."

    def __init__(self, stands: Callable[[FleetSession, int], str]) -> None:
        self._stands = stands
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._opened: FleetDatabase | None = None
        self._views = Views(lambda: self._database().now())
        self._read_at = float("-inf")
        self._stamp: tuple[int, ...] | None = None
        self._known: Mapping[FleetSession, PlacedSession] = {}
        self.rows: tuple[PlacedSession, ...] = ()
        self.problem = ""

    def poll(self, *, unless_fresh: bool = False) -> None:
        if unless_fresh and time.monotonic() - self._read_at < _FRESH:
            return
        try:
            self._read(self._database())
        except PlaybookError as error:
            self.problem = f"fleet: {error.message}. {error.guidance}".strip()
            self._stamp = None
            self._close_database()
        self._read_at = time.monotonic()

    def _read(self, database: FleetDatabase) -> None:
        """The rows are read only if one has changed: there may be thousands."""
        stamp = database.stamp()
        if stamp == self._stamp:
            return
        seen = fleet(database)
        later = system_clock() - seen.now
        sessions = (*seen.sessions, *(FleetSession(row) for row in seen.ended))
        known = self._known  # the same row is not compared again
        self._known = {each: known.get(each) or self._placed(each, later) for each in sessions}
        self.rows = tuple(self._known.values())
        self.problem, self._stamp = " ".join(seen.notices), stamp

    def find(self, session_id: str) -> tuple[PlacedSession, SessionOverview] | None:
        """The session as its newest snapshot has it; None if the fleet does not have it."""
        database = self._database()
        row = database.row(session_id) if SESSION_ID.match(session_id) else None
        if row is None:
            return None
        store = self._views.store(row)
        seen = overview.in_tree(overview.sessions(store), session_id)
        if seen is None:
            raise StateError("PB-STATE-NO-SESSION", "its snapshot does not have the session")
        former = database.row(row.after) if row.after else None
        session = FleetSession(row, after=former.state if former else None)
        return self._placed(session, system_clock() - database.now()), seen

    def answer(
        self, seen: SessionOverview, gate: Gate, decided: Resolution, text: str, by: str
    ) -> None:
        """Store the answer, and queue the session: its worker journals it, if it counts then.

        FleetError PB-FLEET-ANSWERED after another person's answer; the errors of policies.
        """
        assert seen.gate is not None  # noqa: S101 - it is what the person has answered
        database, at = self._database(), seen.gate_at
        policy = pinned_policy(at.store, at.session_id)
        policy.admit(gate.id.partition("#")[0], gate.reason, decided, by, database.role)
        database.answer(seen.session_id, seen.gate.id, text, by, via="inbox")

    def _placed(self, session: FleetSession, later: int) -> PlacedSession:
        row = session.row
        ended = row.state not in OPEN
        return PlacedSession(
            key=KEY,
            session_id=row.id,
            repository=repository_name(row.repository),
            playbook=row.playbook,
            feature=row.feature,
            section="ended" if ended else _SECTIONS.get(row.state, row.state.value),
            state=row.state.value,
            since=session.since + later,
            gate=row.gate if row.state is State.WAITING else "",
            said=row.said,
            stands=lambda now: self._stands(session, now - later),
            told=replace(session, row=replace(row, lease_until=0, changed_at=0)),
        )

    def sweep(self) -> None:
        self._views.sweep()

    def close(self) -> None:
        self._views.close()
        self._close_database()

    def _database(self) -> FleetDatabase:
        with self._lock:
            if self._opened is None:
                self._opened = self._open.enter_context(opening.opened())
            return self._opened

    def _close_database(self) -> None:
        with self._lock:
            self._opened = None
            self._open.close()


# ── clones to look at ───────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _View:
    """`used` is when someone last looked, in seconds of the monotonic clock."""

    clone: SessionClone
    used: float


class Views:
    """The clones that one process looks at. Any thread may ask.

    `now` tells the time of the fleet's database, in ms, which the sessions have.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, _View] = {}  # by the commit of a snapshot
        self._folder = user_state.path("fleet") / "views" / f"{os.getpid()}-{os.urandom(4).hex()}"
        self._held = ExitStack()

    def store(self, row: Row) -> DiskStore:
        with self._lock:
            own = self._locks.setdefault(row.id, threading.Lock())
        with own:
            return DiskStore(checkout.find(self._view(row).path))

    def sweep(self) -> None:
        now = time.monotonic()
        with self._lock:
            old = [name for name, each in self._known.items() if now - each.used > _UNUSED]
            gone = [self._known.pop(name) for name in old]
        for each in gone:
            _remove(each)

    def close(self) -> None:
        with self._lock:
            gone, self._known = [*self._known.values()], {}
        for each in gone:
            _remove(each)
        self._held.close()
        with suppress(PlaybookError):
            remove(self._folder)

    def _view(self, row: Row) -> SessionClone:
        settings = worker_settings.load()
        mirror = opening.mirror(row.repository, settings)
        settings.require_admitted(mirror.url)
        tip = mirror.tip(row.id)
        with self._lock:
            if (known := self._known.get(tip.commit)) is not None:
                known.used = time.monotonic()
                return known.clone
        self._begin()
        place = self._folder / f"{row.id}-{tip.commit[:12]}" / repository_name(mirror.url)
        clone = mirror.checkout(tip, place)
        DiskStore(checkout.find(clone.path)).clock.follow(self._now())
        with self._lock:
            self._known[tip.commit] = _View(clone, time.monotonic())
        return clone

    def _begin(self) -> None:
        """Hold our folder, and remove those that no process holds."""
        with self._lock:
            if (self._folder / _LOCK).exists():
                return
            ensure_folder(self._folder)
            self._held.enter_context(locked(self._folder / _LOCK))
        for other in self._folder.parent.iterdir():
            if other != self._folder:
                with suppress(PlaybookError, OSError), locked(other / _LOCK, timeout=0):
                    remove(other)


def _remove(view: _View) -> None:
    with suppress(PlaybookError, OSError):  # the next process tries again
        view.clone.remove()
        remove(view.clone.path.parent)
