"""Measures `playbook inbox` over 200 sessions in 20 repositories, with and without browsers.

PYTHONPATH=tests:tools python benchmarks/inbox_load.py FOLDER [SECONDS [EVENTS]]

Prints one JSON object. Of ten sessions in each repository four wait at a gate, four have ended, and
two run, driven by a process of ours. The inbox is observed for SECONDS (60) without a change, for
as long with one journal write each second, and while EVENTS (3000) more follow at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import httpx
import sample
from cli.terminal import Terminal
from inbox.serving import Served
from support.scratch_project import Project

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.inbox.commands import register
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.sessions.tree.session_tree import SessionTree

REPOSITORIES, WAITING, ENDED, RUNNING = 20, 4, 4, 2
BROWSERS, STEPS = 50, 200
LIMIT = 15.0  # seconds after which a browser that was not told counts as never told
PAUSE = 0.5  # seconds between two fetches of a browser, as in live.js
TICKS = os.sysconf("SC_CLK_TCK")


# ── the sessions ────────────────────────────────────────────────────────────────────────────


def sessions(folder: Path) -> tuple[list[Path], list[SessionTree]]:
    """The repositories, and the sessions that run."""
    roots, running = [], []
    for number in range(REPOSITORIES):
        root = sample.repository(folder / f"repository-{number:02}")
        roots.append(root)
        for _ in range(WAITING):
            advance(sample.session(root, 8, gated=3), 3).report("s3#1", failed())
        for _ in range(ENDED):
            advance(sample.session(root, 3), 3)
        running += [advance(sample.session(root, STEPS), 0) for _ in range(RUNNING)]
    return roots, running


def advance(tree: SessionTree, steps: int) -> SessionTree:
    tree.begin()
    for number in range(steps):
        tree.report(f"s{number}#1", Outcome(output="nothing"))
    return tree


def failed() -> Outcome:
    return Outcome(Failure("PB-AGENT-FAILED", "the agent failed", "Look at its output."))


def run(folder: Path, asked: Connection) -> None:
    """Drive the running sessions, in a process of its own: one journal write for each request.

    The answer is when it began, and the id of its session.
    """
    roots, running = sessions(folder)
    with ExitStack() as stack:
        for each in running:
            stack.enter_context(driver_lock.driving(each.private, "script"))
        asked.send(roots)
        due = ((each, f"s{step}#1") for step in range(STEPS) for each in running)
        while asked.recv():
            tree, attempt = next(due)
            began = time.perf_counter()
            tree.report(attempt, Outcome(output="nothing"))
            asked.send((began, tree.private.name))


class Writer:
    """The process that drives the sessions, and their repositories."""

    def __init__(self, folder: Path) -> None:
        spawn = get_context("spawn")
        self._ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=run, args=(folder, theirs), daemon=True)
        self._process.start()
        self.roots: list[Path] = self._ours.recv()

    def write(self) -> tuple[float, str]:
        """One journal write: when it began, and the id of its session."""
        self._ours.send(True)
        found: tuple[float, str] = self._ours.recv()
        return found

    def end(self) -> None:
        self._ours.send(False)
        self._process.join()


# ── the browsers ────────────────────────────────────────────────────────────────────────────


class Browser:
    """Listens, and fetches the list at each event. `shown` tells since when a change is shown."""

    def __init__(self, url: str, cookies: httpx.Cookies) -> None:
        self._client = httpx.AsyncClient(
            base_url=url, cookies=cookies, trust_env=False, timeout=httpx.Timeout(30, read=None)
        )
        self.shown: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self.fetched = 0
        self._untold: set[str] = set()
        self._news = asyncio.Event()
        self.listens = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with self._client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._fetch())

    async def _listen(self) -> None:
        async with self._client.stream("GET", "/events") as events:
            assert events.status_code == 200, events.status_code
            async for line in events.aiter_lines():
                self.listens.set()
                if line.startswith("data: "):
                    topics = [each.partition("/")[2] for each in json.loads(line[6:])]
                    self.told |= dict.fromkeys(topics, time.perf_counter())
                    self._untold.update(topics)
                    self._news.set()

    async def _fetch(self) -> None:
        while await self._news.wait():
            self._news.clear()
            topics = set(self._untold)
            self._untold.clear()
            page = await self._client.get("/")
            assert page.status_code == 200, page.status_code
            assert b"</html>" in page.content[-20:]
            self.fetched += 1
            self.shown |= dict.fromkeys(topics, time.perf_counter())
            if self._news.is_set():
                await asyncio.sleep(PAUSE)


@asynccontextmanager
async def browsing(served: Served) -> AsyncIterator[list[Browser]]:
    """Fifty people with browsers of their own."""
    known = []
    for _ in range(BROWSERS):
        visitor = served.visitor()
        known.append(visitor.cookies)
        visitor.close()
    browsers = [Browser(served.url, cookies) for cookies in known]
    running = [asyncio.create_task(each.run()) for each in browsers]
    await asyncio.gather(*(each.listens.wait() for each in browsers))
    try:
        yield browsers
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


# ── the process ─────────────────────────────────────────────────────────────────────────────


def processor(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def size(pid: int) -> dict[str, float]:
    """Its resident memory in MiB, threads and descriptors."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return {
        "memory": int(status["VmRSS"].split()[0]) / 1024,
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - only their number
    }


async def share(pid: int, seconds: float) -> float:
    """The percentage of a core that it uses during these seconds."""
    before, began = processor(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    return (processor(pid) - before) / (time.perf_counter() - began) * 100


# ── what is measured ────────────────────────────────────────────────────────────────────────


async def load(pid: int, writer: Writer, browsers: list[Browser], seconds: int) -> dict[str, float]:
    """One write each second: seconds until the last browser was told and shows it."""
    told, shown = [], []
    before, began = processor(pid), time.perf_counter()
    for number in range(seconds):
        at, session = await asyncio.to_thread(writer.write)
        while not all(each.shown.get(session, 0) > at for each in browsers):
            if time.perf_counter() - at > LIMIT:
                break
            await asyncio.sleep(0.01)
        told.append(max(each.told.get(session, at + LIMIT) - at for each in browsers))
        shown.append(max(each.shown.get(session, at + LIMIT) - at for each in browsers))
        await asyncio.sleep(max(began + number + 1 - time.perf_counter(), 0))
    took = processor(pid) - before
    return {
        "load": took / (time.perf_counter() - began) * 100,
        "told": median(told),
        "shown": median(shown),
        "shown_most": max(shown),
    }


async def storm(pid: int, writer: Writer, browsers: list[Browser], events: int) -> dict[str, float]:
    """Many writes at once: what the process has grown by since the first third of them."""
    first: dict[str, float] = {}
    fetched = sum(each.fetched for each in browsers)
    for number in range(events):
        if number == events // 3:
            first = size(pid)
        await asyncio.to_thread(writer.write)
    await asyncio.sleep(2)
    grown = {f"{name}_grown": value - first[name] for name, value in size(pid).items()}
    return grown | {"pages": sum(each.fetched for each in browsers) - fetched}


async def measured(served: Served, writer: Writer, seconds: int, events: int) -> dict[str, float]:
    """All figures; percentages are of a core."""
    pid = served.terminal.process.pid
    await asyncio.sleep(3)
    found = {"idle_alone": await share(pid, seconds)}
    async with browsing(served) as browsers:
        await asyncio.sleep(3)
        found["idle"] = await share(pid, seconds)
        found |= await load(pid, writer, browsers, seconds)
        found |= size(pid)
        if events:
            found |= await storm(pid, writer, browsers, events)
        began = time.perf_counter()
        served.terminal.interrupt()
        code = await asyncio.to_thread(served.terminal.end)
        assert code == 130, served.terminal.shown
        found["end"] = time.perf_counter() - began
    return found


@contextmanager
def inbox(folder: Path) -> Iterator[tuple[Served, Writer]]:
    """A running inbox, and the process that writes."""
    home = folder / "home"
    home.mkdir(parents=True)
    os.environ["HOME"] = str(home)
    for name in ("PYTHONDONTWRITEBYTECODE", "XDG_STATE_HOME", "CLAUDECODE"):
        os.environ.pop(name, None)
    writer = Writer(folder)
    for root in writer.roots[1:]:
        register.add(root)
    with Terminal(Project(writer.roots[0], home), "inbox", "--port", "0") as terminal:
        yield Served(Project(writer.roots[0], home), terminal), writer
    writer.end()


def main(folder: Path, seconds: int = 60, events: int = 3000) -> None:
    with inbox(folder) as (served, writer):
        print(json.dumps(asyncio.run(measured(served, writer, seconds, events))))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:]))
