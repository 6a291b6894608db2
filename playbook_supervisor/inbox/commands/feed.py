"""The sessions of all repositories of the inbox, read again where something has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from playbook_supervisor.commands.places import PlaceReader
from playbook_supervisor.commands.views.progress import progress_of, steps_of
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.inbox.commands import register
from playbook_supervisor.inbox.commands.repository import AnyRow, Repository, Row

_MOST_ENDED = 50  # sessions that have ended today
_OLD = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Listing:
    """The sessions by what they need. `problems` name repositories that cannot be read.

    `stuck` and `queued` are sessions of other places, and so are some of the others. `version`
    grows with each change.
    """

    version: int = 0
    waiting: tuple[AnyRow, ...] = ()
    working: tuple[AnyRow, ...] = ()
    idle: tuple[Row, ...] = ()
    ended: tuple[AnyRow, ...] = ()
    problems: tuple[str, ...] = ()
    stuck: tuple[AnyRow, ...] = ()
    queued: tuple[AnyRow, ...] = ()

    @property
    def rows(self) -> tuple[AnyRow, ...]:
        return (*self.waiting, *self.stuck, *self.working, *self.queued, *self.idle, *self.ended)


class Feed:
    """The sessions of several repositories and `places`. Any thread may ask; one reads."""

    def __init__(
        self, roots: Callable[[], Collection[Path]], places: Mapping[str, PlaceReader] | None = None
    ) -> None:
        self._roots, self.places = roots, places or {}
        self._lock = threading.Lock()
        self._known: dict[Path, Repository] = {}
        self._repositories: dict[str, Repository] = {}
        self._problems: dict[Path | str, str] = {}  # by what cannot be read
        self._note = ""
        self._rows: dict[str, list[Row]] = {}
        self._said: dict[str, AnyRow] = {}
        self._looked_at = float("-inf")
        self.listing = Listing()

    def current(self) -> Listing:
        """The listing, read again if that was not done for long."""
        if time.monotonic() - self._looked_at > _OLD:
            self.poll()
        self.poll_places(unless_fresh=True)
        return self.listing

    def poll_places(self, *, unless_fresh: bool = False) -> tuple[str, ...]:
        """Read the sessions of other places; the topics of those that differ."""
        if not self.places:
            return ()
        for place in self.places.values():
            place.poll(unless_fresh=unless_fresh)
        with self._lock:
            return self._arrange()

    def poll(self, changed: Collection[Path | str] | None = None) -> tuple[str, ...]:
        """Read what has changed, and return the topics of the sessions that differ.

        `changed` are the paths that were written; None reads every repository. An empty topic
        stands for the problems.
        """
        with self._lock:
            if changed is None:
                self._looked_at = time.monotonic()
                self._find_repositories()
            for repository in self._repositories.values():
                sessions = None if changed is None else repository.written(changed)
                if sessions is None or sessions:
                    self._read(repository, sessions)
            return self._arrange()

    def find(self, key: str, session_id: str) -> Row | None:
        """The session as it is now, read from its files. Errors as `PlaceReader.find`."""
        with self._lock:
            known = key in self._repositories
        if not known and self.places:
            return self._find_elsewhere(key, session_id)
        with self._lock:
            if (repository := self._repositories.get(key)) is not None:
                self._read(repository)
            rows = self._rows.get(key, ())
            return next((row for row in rows if row.session_id == session_id), None)

    def _find_elsewhere(self, key: str, session_id: str) -> Row | None:
        """In the place of that name, else in any: a notice's link may name a clone of the place."""
        place = self.places.get(key)
        for each in (place,) if place is not None else self.places.values():
            if (found := each.find(session_id)) is not None:
                session, seen = found
                progress = progress_of(seen, steps_of(seen))
                return Row(session.key, session.repository, progress, session)
        return None

    def one_of_each(self) -> list[Row]:
        with self._lock:
            return [rows[0] for rows in self._rows.values() if rows]

    def folders(self) -> tuple[Path, ...]:
        """The folders in which something is written when a session changes."""
        with self._lock:
            found = (folder for each in self._repositories.values() for folder in each.folders)
            return tuple(dict.fromkeys(folder for folder in found if folder.is_dir()))

    def note(self, problem: str) -> None:
        """Show this problem, too, or none if it is empty, from the next poll on."""
        with self._lock:
            self._note = problem

    def _find_repositories(self) -> None:
        self._problems = {}
        try:
            roots = dict.fromkeys(self._roots())
        except PlaybookError as error:  # the file that names them is damaged
            self._problems[register.FILE] = f"{error.message}. {error.guidance}"
            roots = dict.fromkeys(self._known)
        self._known = {root: known for root, known in self._known.items() if root in roots}
        self._repositories = {}
        for root in roots:
            try:
                known = self._known[root] = self._known.get(root) or Repository(root)
                known.require()
            except PlaybookError as error:
                self._known.pop(root, None)
                self._problems[root] = _said(root, error)
            else:
                self._repositories.setdefault(known.key, known)
        self._rows = {key: each for key, each in self._rows.items() if key in self._repositories}

    def _read(self, repository: Repository, sessions: Collection[str] | None = None) -> None:
        try:
            self._rows[repository.key] = repository.rows(sessions)
            self._problems.pop(repository.key, None)
        except (PlaybookError, OSError) as error:
            self._problems[repository.key] = _said(repository.name, error)
            self._rows.pop(repository.key, None)

    def _arrange(self) -> tuple[str, ...]:
        rows: list[AnyRow] = [row for each in self._rows.values() for row in each]
        rows += [row for place in self.places.values() for row in place.rows]
        rows = [row for row in rows if row.open or _is_of_today(row.since)]
        said = {row.topic: row for row in rows}
        former = self._said
        changed = [each for each in {**said, **former} if _differ(said.get(each), former.get(each))]
        elsewhere = (place.problem for place in self.places.values())
        problems = tuple(sorted(filter(None, (*self._problems.values(), self._note, *elsewhere))))
        if problems != self.listing.problems:
            changed.append("")
        if changed or not self.listing.version:
            self._said = said
            self.listing = _listing(self.listing.version + 1, rows, problems)
        return tuple(changed)


def _listing(version: int, rows: Sequence[AnyRow], problems: tuple[str, ...]) -> Listing:
    """The oldest gate comes first; of all others, the latest; those of a queue in its order."""
    since = attrgetter("since")

    def of(section: str) -> Iterator[AnyRow]:
        return (row for row in rows if row.section == section)

    idle = [row for row in rows if isinstance(row, Row) and row.section == "idle"]
    return Listing(
        version,
        tuple(sorted(of("waiting"), key=since)),
        tuple(sorted(of("working"), key=since, reverse=True)),
        tuple(sorted(idle, key=since, reverse=True)),
        tuple(sorted(of("ended"), key=since, reverse=True)[:_MOST_ENDED]),
        problems,
        tuple(of("stuck")),
        tuple(of("queued")),
    )


def _is_of_today(ms: int) -> bool:
    return time.localtime(ms / 1000)[:3] == time.localtime()[:3]


def _differ(one: AnyRow | None, other: AnyRow | None) -> bool:
    if one is other:
        return False
    return one is None or other is None or one.told != other.told


def _said(where: object, error: PlaybookError | OSError) -> str:
    return f"{where}: {getattr(error, 'message', error)}"
