"""The live view: what is written in the repositories, told to every browser that listens."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from watchfiles import watch

from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.inbox.commands import register
from playbook_supervisor.inbox.commands.feed import Feed
from playbook_supervisor.system.disk import user_state

_GROUPED, _QUIET = 300, 50  # ms: changes that come together are told together
_LOOK = 15.0  # seconds between two looks at what no file tells, such as the death of a runner
_TICK = 1.0  # seconds between two looks for folders that did not exist
_POLLED = 2.0  # seconds between two looks while the system watches no files
_UNWATCHED = 60.0  # seconds until it is asked again to watch them
_ENDING = 1.0  # seconds that a look may go on after the server's end
_ALIVE = 20.0  # seconds between two signs of life to a browser
_MOST_LISTENERS = 300

_LATE = "Changes are shown some seconds late, because the system watches no more files"
_CURE = "On Linux, raise fs.inotify.max_user_watches and fs.inotify.max_user_instances."


class Broker:
    """The browsers that listen, each with the topics that it was not told yet."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Event, set[str]] = {}
        self.closed = False

    @property
    def full(self) -> bool:
        return len(self._listeners) >= _MOST_LISTENERS

    def __len__(self) -> int:
        return len(self._listeners)

    def tell(self, topics: Collection[str]) -> None:
        for news, untold in self._listeners.items():
            untold.update(topics)
            if topics:
                news.set()

    def look_again(self) -> None:
        """End the streams of browsers that may not listen any more."""
        for news in self._listeners:
            news.set()

    def close(self) -> None:
        self.closed = True
        self.look_again()

    async def stream(self, may_listen: Callable[[], bool]) -> AsyncIterator[str]:
        """The text of one browser's event stream, which ends when it may not listen any more."""
        if self.full:  # others began meanwhile
            yield "retry: 30000\n\n"
            return
        news, untold = asyncio.Event(), set[str]()
        self._listeners[news] = untold
        try:
            yield "retry: 2000\n\n"
            while not self.closed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ALIVE):
                        await news.wait()
                if not await run_in_threadpool(may_listen):
                    return
                if not news.is_set():
                    yield ": alive\n\n"
                news.clear()
                topics = sorted(untold)
                untold.clear()
                if topics:
                    yield f"data: {json.dumps(topics)}\n\n"
        finally:
            del self._listeners[news]


async def follow(feed: Feed, broker: Broker, on_look: Callable[[], None]) -> None:
    """Read what changes and tell the browsers, until cancelled.

    `on_look` is called every few seconds. It and the reading have a thread each, so that neither
    waits for the other.
    """
    stop = threading.Event()
    reader = _Reader(feed, broker, asyncio.get_running_loop(), stop)
    reading = threading.Thread(target=reader.run, name="reading", daemon=True)
    looking = threading.Thread(target=_repeat, args=(on_look, stop), name="looking", daemon=True)
    reading.start()
    looking.start()
    if feed.places:
        threading.Thread(target=reader.follow_places, name="places", daemon=True).start()
    try:
        await asyncio.Event().wait()
    finally:
        stop.set()
        reading.join(_ENDING)


def _repeat(act: Callable[[], None], stop: threading.Event) -> None:
    while not stop.wait(_LOOK):
        act()


class _Reader:
    """Reads the feed where something was written, and all of it every few seconds."""

    def __init__(
        self, feed: Feed, broker: Broker, loop: asyncio.AbstractEventLoop, stop: threading.Event
    ) -> None:
        self._feed, self._broker, self._loop, self._stop = feed, broker, loop, stop
        self._register = user_state.path(register.FILE)
        self._unwatched = ""  # why the system does not watch the folders

    def run(self) -> None:
        """Until `stop` is set."""
        while not self._stop.is_set():
            self._read_changes()
            if self._unwatched:
                self._read_often()

    def follow_places(self) -> None:
        """Ask other places what has changed, while someone looks, until `stop` is set."""
        while not self._stop.wait(_POLLED):
            if len(self._broker):
                self._tell(self._feed.poll_places())

    def _read_changes(self) -> None:
        """Until other folders have to be watched."""
        folders, look_at, first = self._folders(), 0.0, True
        if not folders:
            self._read()
            self._stop.wait(_TICK)
        for written in self._changes(folders):
            self._feed.note("")
            now, people = time.monotonic(), str(self._register) in written
            if people:  # one of them may have been revoked
                self._call(self._broker.look_again)
            missed = False
            if people or now >= look_at:
                found, look_at = self._read(), now + _LOOK
                missed = bool(found) and not (written or first)
            elif written:
                self._read(written)
            if missed or self._folders() != folders:
                return
            first = False

    def _read_often(self) -> None:
        self._feed.note(f"{_LATE}: {first_line(self._unwatched, 200)}. {_CURE}")
        until = time.monotonic() + _UNWATCHED
        while not self._stop.wait(_POLLED) and time.monotonic() < until:
            self._call(self._broker.look_again)
            self._read()

    def _changes(self, folders: Sequence[Path]) -> Iterator[frozenset[str]]:
        """The files written below the folders; empty sets in between, at least one each second."""
        self._unwatched = ""
        try:
            try:
                yield from self._watch(folders)
            except PermissionError:  # a folder is another user's
                yield from self._watch(folders, closed=True)
        except FileNotFoundError:  # a folder was removed meanwhile
            return
        except (OSError, RuntimeError) as error:
            self._unwatched = str(error)

    def _watch(self, folders: Sequence[Path], *, closed: bool = False) -> Iterator[frozenset[str]]:
        """The changes. `closed` leaves out all that cannot be watched, whatever the reason."""
        for changes in watch(
            *folders,
            watch_filter=None,
            debounce=_GROUPED,
            step=_QUIET,
            rust_timeout=int(_TICK * 1000),
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            ignore_permission_denied=closed,
        ):
            yield frozenset(path for _, path in changes)

    def _folders(self) -> tuple[Path, ...]:
        own = self._register.parent
        return (*self._feed.folders(), *((own,) if own.is_dir() else ()))

    def _read(self, written: Collection[str] | None = None) -> tuple[str, ...]:
        topics = self._feed.poll(written)
        self._tell(topics)
        return topics

    def _tell(self, topics: Collection[str]) -> None:
        if topics:
            self._call(self._broker.tell, topics)

    def _call(self, tell: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(tell, *arguments)
