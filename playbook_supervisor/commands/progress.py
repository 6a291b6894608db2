"""The progress of all sessions, polled by `status --watch`.

Takes no lock. A poll costs three `stat` calls per session and a few more per open one; unchanged
files are not read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.commands import overview
from playbook_supervisor.commands.overview import SessionOverview
from playbook_supervisor.commands.pinned import pinned_playbook
from playbook_supervisor.drivers import driver_lock, notifications
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.live_output import NAME, last_lines
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.state import Entry, last_entries
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions.step_runs import steps_settled
from playbook_supervisor.sessions.store import SESSIONS, DiskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.gate_context import GateContext

_Place = tuple[Path, str]

_CONTEXT_INTERVAL = 5.0  # seconds between two looks at what a gate is about


class Progress(Record):
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


def progress_of(seen: SessionOverview) -> Progress:
    """The session's progress, as far as it can be read."""
    latest: dict[str, Entry] = {}
    with suppress(PlaybookError):
        latest = last_entries(seen.store.journal(seen.session_id).entries)
    playbook = pinned_playbook(seen.store, seen.session_id, seen.manifest)
    private = seen.store.runtime(seen.session_id)
    driven = seen.open and seen.driver is not None
    return Progress(
        seen,
        done=steps_settled(latest.values()),
        total=len(playbook.steps) if playbook else 0,
        at_work=dict(_at_work(seen, latest)) if driven else {},
        lines=last_lines(private) if driven else {},
        notify_error=notifications.last_failure(private) if seen.open else "",
    )


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
        self._worktrees: object = ()
        self._stamps: dict[_Place, object] = {}
        self._known: dict[_Place, tuple[object, Progress]] = {}
        self._shown: tuple[Progress, ...] = ()
        self._contexts: dict[object, tuple[float, GateContext | None]] = {}

    def poll(self) -> tuple[Progress, ...]:
        """The progress of all sessions, in the order of `overview.sessions`."""
        stamps = dict(self._stamps_now())
        if stamps != self._stamps:
            self._stamps = stamps
            self._shown = tuple(self._progress(seen) for seen in overview.sessions(self._store))
        shown = map(_with_output, self._shown)
        return tuple(map(self._with_context, shown) if self._contexts_wanted else shown)

    def _with_context(self, progress: Progress) -> Progress:
        """The context of its gate, which is about files that change without the session."""
        seen = progress.seen
        if (waiting := seen.gate) is None:
            return progress
        gate, now = (_place(seen), waiting.id), time.monotonic()
        read_at, context = self._contexts.get(gate, (float("-inf"), None))
        if now - read_at >= _CONTEXT_INTERVAL:
            context = seen.gate_context()
            self._contexts[gate] = now, context
        return replace(progress, context=context)

    def _stamps_now(self) -> Iterator[tuple[_Place, object]]:
        """For every session a value that changes whenever the session does."""
        worktrees = _changed(self._store.checkout.common_dir / "worktrees")
        if worktrees != self._worktrees:
            self._worktrees, self._stores = worktrees, overview.stores(self._store)
        ended = {_place(each.seen) for each in self._shown if not each.seen.open}
        for store in self._stores:
            here = store.checkout
            for name in {*_names(here.root / SESSIONS), *_names(here.runtime)}:
                folder, private = here.root / SESSIONS / name, here.runtime / name
                ours = () if (here.root, name) in ended else _stamp(private)
                files = (folder, folder / "session.yaml", folder / "journal.yaml")
                yield (here.root, name), (*map(_changed, files), ours)

    def _progress(self, seen: SessionOverview) -> Progress:
        place = _place(seen)
        stamp, known = self._known.get(place, (None, None))
        now = [self._stamps.get(each) for each in _places(seen)]
        if known is None or stamp != now:
            known = progress_of(seen)
            self._known[place] = now, known
        return known


def _places(seen: SessionOverview) -> Iterator[_Place]:
    """Those of the session and of all below it."""
    yield _place(seen)
    for child in seen.children:
        yield from _places(child)


def _with_output(progress: Progress) -> Progress:
    if not progress.at_work:
        return progress
    seen = progress.seen
    return replace(progress, lines=last_lines(seen.store.runtime(seen.session_id)))


def _place(seen: SessionOverview) -> _Place:
    return seen.root, seen.session_id


def _stamp(private: Path) -> object:
    """The driver and the private files' times, except the output file, which is always read."""
    with suppress(OSError, PlaybookError), os.scandir(private) as files:
        times = {file.name: _changed(file) for file in files if file.name != NAME}
        bound = binding.load(private)
        return times, driver_lock.living(private) if bound is None else binding.lives(bound)
    return None


def _changed(path: Path | os.DirEntry[str]) -> int:
    """Its modification time in ns since the epoch; 0 if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
