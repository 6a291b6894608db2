"""The progress of all sessions, polled by `status --watch` and the inbox.

Takes no lock. A poll costs three `stat` calls per session and a few more per open one; unchanged
sessions are not read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.commands import overview
from playbook_supervisor.commands.overview import SessionOverview, pinned_playbook
from playbook_supervisor.drivers import driver_lock, notifications
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.observers import LAST_LINES, last_lines
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.state import Entry, last_entries
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.steps.step_runs import steps_settled
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.system.git import checkout

_Place = tuple[Path, str]

_CONTEXT_INTERVAL = 5.0  # seconds between two looks at what a gate is about


@dataclass(frozen=True, slots=True)
class Progress:
    """A session's progress. `total` is 0 if its playbook cannot be read.

    `at_work` are the attempts in progress by their ids, those of child sessions instead of the ones
    that they work for: `release#1/plan#1`. `lines` has the last output line of each.
    `notify_error` says why the last notification failed, or is empty. `context` helps to answer its
    gate.
    """

    seen: SessionOverview
    done: int = 0
    total: int = 0
    at_work: Mapping[str, Entry] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
    notify_error: str = ""
    context: GateContext | None = None


def progress_of(seen: SessionOverview, total: int) -> Progress:
    """The session's progress, as far as it can be read, in a playbook of so many steps."""
    latest: dict[str, Entry] = {}
    try:
        latest = last_entries(seen.store.journal(seen.session_id).entries)
    except PlaybookError as error:
        said = f"{error.message} ({error.where})" if error.where else error.message
        seen = seen if seen.problem else replace(seen, problem=said, code=error.code)
    private = seen.store.runtime(seen.session_id)
    driven = _driven(seen)
    return Progress(
        seen,
        done=steps_settled(latest.values()),
        total=total,
        at_work=dict(_at_work(seen, latest)) if driven else {},
        lines=last_lines(private) if driven else {},
        notify_error=notifications.last_failure(private) if seen.open else "",
    )


def said_by(seen: SessionOverview) -> Mapping[str, str]:
    """The last line of each worker and check that runs for the session, by the attempt."""
    return last_lines(seen.store.runtime(seen.session_id)) if _driven(seen) else {}


def _driven(seen: SessionOverview) -> bool:
    private = seen.store.runtime(seen.session_id)
    return seen.open and (seen.driver is not None or driver_lock.detached_works(private))


def steps_of(seen: SessionOverview) -> int:
    """The number of steps of its playbook; 0 if that cannot be read."""
    playbook = pinned_playbook(seen.store, seen.session_id, seen.manifest)
    return len(playbook.steps) if playbook else 0


def _at_work(
    seen: SessionOverview, latest: Mapping[str, Entry], above: str = ""
) -> Iterator[tuple[str, Entry]]:
    for entry in latest.values():
        if entry.settled or entry.gate:
            continue
        child = next((each for each in seen.children if each.session_id == entry.session), None)
        if child is None:
            yield f"{above}{entry.id}", entry
            continue
        below: dict[str, Entry] = {}
        with suppress(PlaybookError):
            below = last_entries(child.store.journal(child.session_id).entries)
        yield from _at_work(child, below, f"{above}{entry.id}/")


class Poller:
    """Polls the sessions of all worktrees. `contexts`: also what helps to answer their gates."""

    def __init__(self, store: DiskStore, *, contexts: bool = True) -> None:
        self._store, self._contexts_wanted = store, contexts
        self._stores: list[DiskStore] = []
        self._checkouts: object = None
        self._stamps: dict[_Place, object] = {}
        self._overviews: dict[str, tuple[object, SessionOverview]] = {}
        self._known: dict[_Place, tuple[object, Progress]] = {}
        self._totals: dict[_Place, tuple[object, int]] = {}
        self._lines: dict[_Place, tuple[object, Mapping[str, str]]] = {}
        self._shown: tuple[Progress, ...] = ()
        self._contexts: dict[_Place, tuple[str, float, GateContext | None]] = {}

    def poll(self, changed: Collection[str] | None = None) -> tuple[Progress, ...]:
        """The progress of all sessions, in the order of `overview.sessions`.

        `changed` are the ids of the only sessions whose files may differ; by default, any may. What
        has not changed is the same object as before.
        """
        stamps = self._stamps_now(changed)
        if stamps != self._stamps:
            self._stamps = stamps
            seen = overview.sessions(self._store, self._look)
            self._forget_all_but(seen)
            self._shown = tuple(map(self._progress, seen))
        self._shown = tuple(map(self._with_output, self._shown))
        return tuple(map(self._with_context, self._shown)) if self._contexts_wanted else self._shown

    def _look(self, session_id: str, copies: list[DiskStore]) -> SessionOverview:
        roots = [each.checkout.root for each in copies]
        stamps = [(root, self._stamps.get((root, session_id))) for root in roots]
        stamp, seen = self._overviews.get(session_id, (None, None))
        # There is no stamp of what a worktree that was removed has left.
        if seen is None or stamp != stamps or any(each is None for _, each in stamps):
            seen = overview.of_copies(session_id, copies)
            self._overviews[session_id] = stamps, seen
        return seen

    def _forget_all_but(self, seen: Iterable[SessionOverview]) -> None:
        kept = {place for each in seen for place in _places(each)}
        ids = {session_id for _, session_id in kept}
        self._overviews = {id_: each for id_, each in self._overviews.items() if id_ in ids}
        for known in (self._known, self._totals, self._lines, self._contexts):
            for place in known.keys() - kept:
                del known[place]

    def _with_context(self, progress: Progress) -> Progress:
        """The context of its gate, which is about files that change without the session."""
        seen = progress.seen
        if (waiting := seen.gate) is None:
            return progress
        place, now = _place(seen), time.monotonic()
        gate, read_at, context = self._contexts.get(place, ("", 0.0, None))
        if gate != waiting.id or now - read_at >= _CONTEXT_INTERVAL:
            context = seen.gate_context()
            self._contexts[place] = waiting.id, now, context
        return replace(progress, context=context)

    def _stamps_now(self, changed: Collection[str] | None) -> dict[_Place, object]:
        if self._find_stores() or changed is None:
            return dict(self._stamps_of(None))
        stamps = {place: each for place, each in self._stamps.items() if place[1] not in changed}
        return stamps | dict(self._stamps_of(changed))

    def _find_stores(self) -> bool:
        common = self._store.checkout.common_dir
        heads = [_changed(f"{each.checkout.git_dir}/HEAD") for each in self._stores]
        checkouts = _changed(common / "worktrees"), heads
        if self._stores and checkouts == self._checkouts:
            return False
        with suppress(PlaybookError):  # its folder is gone
            here = checkout.refreshed(self._store.checkout)
            self._store = DiskStore(here, clock=self._store.clock, seen_from=self._store.seen_from)
        self._stores = overview.stores(self._store)
        heads = [_changed(f"{each.checkout.git_dir}/HEAD") for each in self._stores]
        self._checkouts = checkouts[0], heads
        self._overviews.clear()
        self._stamps.clear()
        return True

    def _stamps_of(self, named: Collection[str] | None) -> Iterator[tuple[_Place, object]]:
        ended = {_place(each.seen) for each in self._shown if not each.seen.open}
        for store in self._stores:
            root, sessions = store.checkout.root, f"{store.checkout.root}/{SESSIONS}"
            there = {*_names(sessions), *_names(store.checkout.runtime)}
            for name in there if named is None else there.intersection(named):
                folder, private = f"{sessions}/{name}", f"{store.checkout.runtime}/{name}"
                ours = () if (root, name) in ended else _stamp(private)
                files = (folder, f"{folder}/session.yaml", f"{folder}/journal.yaml")
                yield (root, name), (*map(_changed, files), ours)

    def _progress(self, seen: SessionOverview) -> Progress:
        place = _place(seen)
        stamp, known = self._known.get(place, (None, None))
        now = [self._stamps.get(each) for each in _places(seen)]
        if known is None or stamp != now or known.seen != seen:
            known = progress_of(seen, self._total(seen))
            self._known[place] = now, known
        return known

    def _total(self, seen: SessionOverview) -> int:
        place = _place(seen)
        now = _changed(f"{seen.root}/{SESSIONS}/{seen.session_id}/playbook.yaml")
        stamp, total = self._totals.get(place, (None, 0))
        if stamp != now or not total:
            total = steps_of(seen)
            self._totals[place] = now, total
        return total

    def _with_output(self, progress: Progress) -> Progress:
        if not progress.at_work:
            return progress
        seen = progress.seen
        place, private = _place(seen), seen.store.runtime(seen.session_id)
        now = _changed(private / LAST_LINES)
        stamp, lines = self._lines.get(place, (None, progress.lines))
        if stamp != now:
            lines = last_lines(private)
            self._lines[place] = now, lines
        if lines != progress.lines:
            progress = replace(progress, lines=lines)
            self._known[place] = self._known[place][0], progress
        return progress


def _places(seen: SessionOverview) -> Iterator[_Place]:
    yield _place(seen)
    for child in seen.children:
        yield from _places(child)


def _place(seen: SessionOverview) -> _Place:
    return seen.root, seen.session_id


def _stamp(private: str) -> object:
    """The driver and the private files' times, except the output file, which is always read."""
    with suppress(OSError, PlaybookError), os.scandir(private) as files:
        times = {file.name: _changed(file) for file in files if file.name != LAST_LINES}
        bound = binding.load(Path(private))
        return times, driver_lock.living(Path(private)) if bound is None else binding.lives(bound)
    return None


def _changed(path: Path | str | os.DirEntry[str]) -> object:
    """A value that differs after the file was changed or replaced; None if it does not exist.

    A clock's tick can be longer than the time between two writes, so the time alone is too little.
    """
    try:
        found = path.stat() if isinstance(path, os.DirEntry) else os.stat(path)  # noqa: PTH116 - fast
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _names(folder: Path | str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return []
