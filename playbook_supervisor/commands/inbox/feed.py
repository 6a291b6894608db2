"""What waits, runs and has ended in all repositories of the inbox, read again where it changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.overview import SessionOverview
from playbook_supervisor.commands.progress import Poller, Progress
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system import checkout

_MOST_ENDED = 50  # sessions that have ended today


class Row(Record):
    """One session that a person began. `key` and `repository` name its repository, in links and
    to people.
    """

    key: str
    repository: str
    progress: Progress

    @property
    def seen(self) -> SessionOverview:
        return self.progress.seen

    @property
    def session_id(self) -> str:
        return self.seen.session_id

    @property
    def topic(self) -> str:
        """What changes of this session are told about."""
        return f"{self.key}/{self.session_id}"


class Listing(Record):
    """The sessions by what they need. `problems` name repositories that cannot be read.

    `version` grows with each change.
    """

    version: int = 0
    waiting: tuple[Row, ...] = ()
    working: tuple[Row, ...] = ()
    idle: tuple[Row, ...] = ()
    ended: tuple[Row, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        return (*self.waiting, *self.working, *self.idle, *self.ended)


class Repository:
    """One repository and its poller. `name` is its folder's."""

    def __init__(self, root: Path) -> None:
        self.store = locate.store(root)
        self.key, self.name = self.store.checkout.key, self.store.checkout.main_root.name
        self.places = list(_places(self.store))
        self._poller = Poller(self.store, contexts=False)

    def rows(self) -> list[Row]:
        """Its sessions now."""
        self.places = list(_places(self.store))
        return [Row(self.key, self.name, each) for each in self._poller.poll()]


class Feed:
    """The sessions of several repositories. Any thread may ask; one at a time reads."""

    def __init__(self, roots: Callable[[], Collection[Path]]) -> None:
        self._roots = roots
        self._lock = threading.Lock()
        self._repositories: dict[Path, Repository] = {}
        self._problems: dict[Path, str] = {}
        self._rows: dict[str, list[Row]] = {}
        self._said: dict[str, object] = {}
        self.listing = Listing()

    def poll(self, changed: Collection[Path] | None = None) -> tuple[str, ...]:
        """Read what has changed, and return the topics of the sessions that differ.

        `changed` are paths below which something was written; None reads every repository.
        """
        with self._lock:
            if changed is None:
                self._find_repositories()
            for root, repository in self._repositories.items():
                if changed is None or any(_below(each, repository.places) for each in changed):
                    self._read(root, repository)
            return self._arrange()

    def find(self, key: str, session_id: str) -> Row | None:
        """The session as it is now, read from its files."""
        with self._lock:
            for root, repository in self._repositories.items():
                if repository.key == key:
                    self._read(root, repository)
            self._arrange()
            rows = self._rows.get(key, ())
            return next((row for row in rows if row.session_id == session_id), None)

    def one_of_each(self) -> list[Row]:
        """A session of each repository that has any."""
        with self._lock:
            return [rows[0] for rows in self._rows.values() if rows]

    def places(self) -> tuple[Path, ...]:
        """The folders in which something is written when a session changes."""
        with self._lock:
            found = (place for each in self._repositories.values() for place in each.places)
            return tuple(dict.fromkeys(place for place in found if place.is_dir()))

    def _find_repositories(self) -> None:
        roots, keys = dict.fromkeys(self._roots()), set[str]()
        self._problems.clear()
        for root in roots:
            try:
                known = self._repositories.get(root) or Repository(root)
            except PlaybookError as error:
                self._problems[root] = f"{root}: {error.message}"
                continue
            if known.key in keys:
                continue
            keys.add(known.key)
            self._repositories[root] = known
        for root, known in list(self._repositories.items()):
            if root not in roots or root in self._problems:
                del self._repositories[root]
                self._rows.pop(known.key, None)

    def _read(self, root: Path, repository: Repository) -> None:
        try:
            self._rows[repository.key] = repository.rows()
        except (PlaybookError, OSError) as error:
            self._problems[root] = f"{root}: {getattr(error, 'message', error)}"
            self._rows.pop(repository.key, None)

    def _arrange(self) -> tuple[str, ...]:
        """Sort all sessions into a new listing; the topics of those that differ from the last."""
        rows = [row for each in self._rows.values() for row in each]
        said: dict[str, object] = {row.topic: _state_of(row.progress) for row in _shown(rows)}
        former = self._said
        changed = [each for each in {**said, **former} if said.get(each) != former.get(each)]
        problems = tuple(sorted(self._problems.values()))
        if changed or problems != self.listing.problems or not self.listing.version:
            self._said = said
            self.listing = _listing(self.listing.version + 1, rows, problems)
        return tuple(changed)


def require(row: Row | None, session_id: str) -> Row:
    """The row. StateError PB-STATE-NO-SESSION if there is none."""
    if row is None:
        raise StateError("PB-STATE-NO-SESSION", f"there is no session {session_id} here")
    return row


def _listing(version: int, rows: Sequence[Row], problems: tuple[str, ...]) -> Listing:
    """The oldest gate comes first; of all others, the latest."""
    waiting = [row for row in rows if row.seen.gate is not None]
    others = [row for row in rows if row.seen.gate is None]
    waiting.sort(key=lambda row: row.seen.gate.opened_at if row.seen.gate else 0)
    others.sort(key=_latest, reverse=True)
    return Listing(
        version,
        tuple(waiting),
        tuple(row for row in others if row.seen.open and row.seen.driver is not None),
        tuple(row for row in others if row.seen.open and row.seen.driver is None),
        tuple(row for row in others if _ended_today(row))[:_MOST_ENDED],
        problems,
    )


def _shown(rows: Sequence[Row]) -> Iterator[Row]:
    return (row for row in rows if row.seen.open or _ended_today(row))


def _ended_today(row: Row) -> bool:
    manifest = row.seen.manifest
    if row.seen.open or manifest is None:
        return False
    ended = (manifest.completed_at or manifest.started_at) / 1000
    return time.localtime(ended)[:3] == time.localtime()[:3]


def _latest(row: Row) -> int:
    manifest = row.seen.manifest
    return (manifest.completed_at or manifest.started_at) if manifest is not None else 0


def _state_of(progress: Progress) -> object:
    """All that a page shows of a session, for comparison."""
    return (
        *_tree(progress.seen),
        progress.done,
        progress.total,
        dict(progress.at_work),
        dict(progress.lines),
        progress.notify_error,
    )


def _tree(seen: SessionOverview) -> tuple[object, ...]:
    below = tuple(_tree(child) for child in seen.children)
    return seen.manifest, seen.problem, seen.driver, seen.client, seen.stale, below


def _places(store: DiskStore) -> Iterator[Path]:
    here = store.checkout
    for root in checkout.worktrees(here):
        yield root / ".playbooks"
    yield here.common_dir / "playbook"
    yield here.common_dir / "worktrees"


def _below(path: Path, places: Sequence[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)
