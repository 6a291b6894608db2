"""The live view: what is written in the repositories, told to every browser that listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from watchfiles import awatch

from playbook_supervisor.commands.inbox import register
from playbook_supervisor.commands.inbox.feed import Feed
from playbook_supervisor.system import user_state

_GROUPED, _QUIET = 300, 50  # ms: changes that come together are told together
_LOOK = 15.0  # seconds between two looks at what no file tells, such as the death of a runner
_RETRY = 2.0  # seconds until the folders are looked for again
_ALIVE = 20.0  # seconds between two signs of life to a browser
_MOST_LISTENERS = 300


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
        """Tell everyone that these sessions have changed."""
        for news, untold in self._listeners.items():
            untold.update(topics)
            if topics:
                news.set()

    def look_again(self) -> None:
        """End the streams of browsers that may not listen any more."""
        for news in self._listeners:
            news.set()

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self.closed = True
        for news in self._listeners:
            news.set()

    async def stream(self, may_listen: Callable[[], bool]) -> AsyncIterator[str]:
        """The text of one browser's event stream, which ends when it may not listen any more."""
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
    """Read what changes, until cancelled. `on_look` is called in a thread every few seconds."""
    while True:
        places = await run_in_threadpool(_places, feed)
        with suppress(FileNotFoundError):  # a folder was removed meanwhile
            await _watch(feed, broker, places, on_look)
        await asyncio.sleep(0 if places else _RETRY)


async def _watch(
    feed: Feed, broker: Broker, places: tuple[Path, ...], on_look: Callable[[], None]
) -> None:
    """Watch these folders, until others have to be watched."""
    broker.tell(await run_in_threadpool(feed.poll))
    if not places:
        return
    own = user_state.path(register.FILE).parent
    watching = awatch(
        *places,
        watch_filter=None,
        debounce=_GROUPED,
        step=_QUIET,
        rust_timeout=int(_LOOK * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    async for changes in watching:
        written = [Path(path) for _, path in changes]
        people = any(path.parent == own for path in written)
        again = not written or people
        if people:  # one of them may have been revoked
            broker.look_again()
        if written or len(broker):
            broker.tell(await run_in_threadpool(feed.poll, None if again else written))
        if not written:
            await run_in_threadpool(on_look)
        if await run_in_threadpool(_places, feed) != places:
            return


def _places(feed: Feed) -> tuple[Path, ...]:
    own = user_state.path(register.FILE).parent
    return (*feed.places(), *((own,) if own.is_dir() else ()))
