"""The sessions of the inbox, and one repository: which sessions written files belong to."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.overview import SessionOverview
from playbook_supervisor.commands.places import PlacedSession
from playbook_supervisor.commands.views.progress import Poller, Progress
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout

_PLAYBOOKS, _SESSIONS, _PRIVATE, _WORKTREES = ".playbooks", "sessions", "playbook", "worktrees"


@dataclass(frozen=True, slots=True)
class Row:
    """One session that a person began. `key` and `repository` name its repository, in links and
    to people. One that is `elsewhere` is shown as its place has last recorded it.
    """

    key: str
    repository: str
    progress: Progress
    elsewhere: PlacedSession | None = None

    @property
    def seen(self) -> SessionOverview:
        return self.progress.seen

    @property
    def session_id(self) -> str:
        return self.seen.session_id

    @property
    def open(self) -> bool:
        return self.seen.open

    @property
    def section(self) -> str:
        if self.seen.gate is not None:
            return "waiting"
        if not self.open:
            return "ended"
        return "idle" if self.seen.driver is None else "working"

    @property
    def told(self) -> object:
        """All that a page shows of it and that does not change by itself, for comparison."""
        now = self.progress
        counted = (now.done, now.total, dict(now.at_work), dict(now.lines), now.notify_error)
        return (*_tree(self.seen), *counted)

    @property
    def since(self) -> int:
        """When its gate opened, else when it ended or began, in ms; 0 if it cannot be read."""
        if (gate := self.seen.gate) is not None:
            return gate.opened_at
        manifest = self.seen.manifest
        return (manifest.completed_at or manifest.started_at) if manifest is not None else 0

    @property
    def topic(self) -> str:
        return f"{self.key}/{self.session_id}"


AnyRow = Row | PlacedSession


def _tree(seen: SessionOverview) -> tuple[object, ...]:
    below = tuple(_tree(child) for child in seen.children)
    return seen.manifest, seen.problem, seen.driver, seen.client, seen.stale, below


class Repository:
    """One repository and its poller. `name` is its folder's."""

    def __init__(self, root: Path) -> None:
        self._store = _main_store(root)
        self.key, self.name = self._store.checkout.key, self._store.checkout.main_root.name
        self.folders: tuple[Path, ...] = ()
        self._poller = Poller(self._store, contexts=False)
        self._rows: dict[str, Row] = {}

    def require(self) -> None:
        """StateError PB-STATE-NO-REPOSITORY if it is no longer there."""
        checkout.refreshed(self._store.checkout)

    def rows(self, changed: Collection[str] | None = None) -> list[Row]:
        """Its sessions now; `changed` are the ids of the only ones that may differ."""
        if changed is None:
            self.folders = tuple(_folders(self._store.checkout))
        seen = self._poller.poll(changed)
        self._rows = {each.seen.session_id: self._row(each) for each in seen}
        return list(self._rows.values())

    def _row(self, progress: Progress) -> Row:
        known = self._rows.get(progress.seen.session_id)
        if known is not None and known.progress is progress:
            return known
        return Row(self.key, self.name, progress)

    def written(self, paths: Collection[Path | str]) -> Collection[str] | None:
        """The sessions that these written files belong to; None if they may be of any."""
        found = set[str]()
        for path in paths:
            for place in self.folders:
                below = _below(os.fspath(path), place)
                if below is not None and (session := _session_of(place, below)) is not None:
                    if not session:
                        return None
                    found.add(session)
        return found


def _main_store(root: Path) -> DiskStore:
    """The sessions as seen from the main checkout: a linked worktree may be removed meanwhile."""
    store = locate.store(root)
    try:
        return locate.store(store.checkout.main_root)
    except PlaybookError:  # of a bare repository
        return store


def _folders(here: Checkout) -> Iterator[Path]:
    for root in checkout.worktrees(here):
        yield root / _PLAYBOOKS
    yield here.common_dir / _PRIVATE
    yield here.common_dir / _WORKTREES


def _below(path: str, place: Path) -> list[str] | None:
    above = str(place)
    if path == above:
        return []
    return path[len(above) + 1 :].split("/") if path.startswith(f"{above}/") else None


def _session_of(place: Path, names: Sequence[str]) -> str | None:
    """The session of a written file; empty if it may be any, None if no session is told by it."""
    if place.name == _PLAYBOOKS:  # sessions/ID/…
        if names and names[0] != _SESSIONS:
            return None
        names = names[1:]
    elif place.name == _WORKTREES:  # NAME/playbook/ID/…
        if len(names) > 1 and names[1] != _PRIVATE:
            return None if names[1] not in ("HEAD", "gitdir") else ""
        names = names[2:]
    if not names:
        return ""
    return names[0] if SESSION_ID.match(names[0]) else None
