"""The fleet as the inbox shows it: the list from the database, a session's page from git."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

from playbook_supervisor.commands import overview
from playbook_supervisor.commands.fleet import opening
from playbook_supervisor.commands.fleet.overview import FleetSession, fleet
from playbook_supervisor.commands.fleet.viewing import Views
from playbook_supervisor.commands.inbox.repository import Row
from playbook_supervisor.commands.progress import progress_of, steps_of
from playbook_supervisor.drivers.fleet.storage.rows import OPEN, State
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.manifest import SESSION_ID
from playbook_supervisor.sessions.session_clock import system_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.database import FleetDatabase

KEY = "fleet"
"""Stands for the fleet in links, where other sessions have their repository's key."""
_FRESH = 2.0  # seconds
_PLACES = {
    State.WAITING: "waiting",
    State.STUCK: "stuck",
    State.RUNNING: "working",
    State.QUEUED: "queued",
}


class FleetRow(Record):
    """A session of the fleet. This machine's clock is `later` than the database's by so many ms."""

    session: FleetSession
    later: int
    key: str = KEY

    @property
    def fleet(self) -> FleetRow:
        """Itself: other rows have none."""
        return self

    @property
    def session_id(self) -> str:
        return self.session.row.id

    @property
    def since(self) -> int:
        """When its state last changed, in ms by this machine's clock."""
        return self.session.row.changed_at + self.later

    @property
    def topic(self) -> str:
        """What changes of this session are told about."""
        return f"{KEY}/{self.session_id}"

    @property
    def repository(self) -> str:
        """The last part of its repository's address."""
        from playbook_supervisor.drivers.fleet.remotes import repository_name

        return repository_name(self.session.row.repository)

    @property
    def state(self) -> State:
        return self.session.row.state

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.state in OPEN

    @property
    def place(self) -> str:
        """What it is among: `waiting`, `stuck`, `working`, `queued` or `ended`."""
        return _PLACES.get(self.state, "ended")

    @property
    def gate(self) -> str:
        """The gate at which it waits; empty if it does not."""
        return self.session.row.gate if self.state is State.WAITING else ""

    @property
    def told(self) -> object:
        """All that a page shows of it and that does not change by itself, for comparison."""
        row = self.session.row
        return replace(self.session, row=replace(row, lease_until=0, changed_at=0))


class FleetFeed:
    """The fleet that `cwd` belongs to. Any thread may ask.

    `rows` are the sessions as last read, `problem` why they could not be read or is empty.
    """

    def __init__(self, cwd: Path | None = None) -> None:
        self._cwd = cwd
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._known: FleetDatabase | None = None
        self._views = Views(lambda: self.database().now())
        self._read_at = float("-inf")
        self._stamp: tuple[int, ...] | None = None
        self.rows: tuple[FleetRow, ...] = ()
        self.problem = ""

    def poll(self, *, unless_fresh: bool = False) -> None:
        """Read the sessions, or not if that was done a moment ago. Nothing is raised."""
        if unless_fresh and time.monotonic() - self._read_at < _FRESH:
            return
        try:
            self._read(self.database())
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
        known = {row.session_id: row for row in self.rows}
        made = (FleetRow(each, later) for each in sessions)
        self.rows = tuple(_as_before(known.get(row.session_id), row) for row in made)
        self.problem, self._stamp = " ".join(seen.notices), stamp

    def find(self, session_id: str) -> Row | None:
        """The session as its newest snapshot has it; None if the fleet does not have it.

        Errors as `Views.store`; FleetError PB-FLEET-DATABASE.
        """
        database = self.database()
        row = database.row(session_id) if SESSION_ID.match(session_id) else None
        if row is None:
            return None
        store = self._views.store(row)
        seen = overview.in_tree(overview.sessions(store), session_id)
        if seen is None:
            raise StateError("PB-STATE-NO-SESSION", "its snapshot does not have the session")
        shown = FleetRow(FleetSession(row), system_clock() - database.now())
        return Row(KEY, shown.repository, progress_of(seen, steps_of(seen)), shown)

    def database(self) -> FleetDatabase:
        """The database, opened if it is not. Errors as `opening.opened`."""
        with self._lock:
            if self._known is None:
                self._known = self._open.enter_context(opening.opened(self._cwd))
            return self._known

    def sweep(self) -> None:
        """Remove what no one looks at any more."""
        self._views.sweep()

    def close(self) -> None:
        """Close the database and remove what was fetched to look at."""
        self._views.close()
        self._close_database()

    def _close_database(self) -> None:
        with self._lock:
            self._known = None
            self._open.close()


def _as_before(known: FleetRow | None, row: FleetRow) -> FleetRow:
    """The row that was there if it is the same, which is then not compared any further."""
    return known if known is not None and known.session == row.session else row
