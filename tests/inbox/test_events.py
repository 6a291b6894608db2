"""The live view: what browsers are told while the inbox serves, how soon, and how it ends."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from cli.scripts import GATED, WORKS
from cli.terminal import Terminal
from support.scratch_project import Project

from inbox.serving import Served, serving
from playbook_supervisor.inbox.commands import register
from playbook_supervisor.inbox.commands.feed import Feed
from playbook_supervisor.inbox.web.app import ListPages
from playbook_supervisor.inbox.web.events import Broker

pytestmark = pytest.mark.measured

SOON = 5.0
"""Seconds: the bar is one, on a machine that does nothing else."""


class Listener:
    """A browser that listens: the topics of each message, in turn."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._told: queue.Queue[list[str]] = queue.Queue()
        self._began, self.ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        assert self._began.wait(30)

    def _listen(self) -> None:
        try:
            with self._client.stream("GET", "/events", timeout=60) as events:
                for line in events.iter_lines():
                    self._began.set()
                    if line.startswith("data: "):
                        self._told.put(json.loads(line[6:]))
        except httpx.HTTPError:
            pass  # the server has ended
        finally:
            self.ended.set()

    def hears(self, session: str, within: float = SOON) -> None:
        """Wait until a message names the session."""
        end = time.monotonic() + within
        while not any(topic.endswith(f"/{session}") for topic in self._next(end)):
            pass

    def _next(self, end: float) -> list[str]:
        try:
            return self._told.get(timeout=max(end - time.monotonic(), 0))
        except queue.Empty:
            raise AssertionError("it was not told in time") from None


@contextmanager
def listening(project: Project) -> Iterator[tuple[Served, httpx.Client, Listener]]:
    """A running inbox, and a browser that listens."""
    with serving(project) as served, served.visitor() as client:
        yield served, client, Listener(client)


def gate(project: Project) -> str:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    assert project.playbook("run", "gated", "--agent", project.script(WORKS)).code == 4
    return project.session.name


# ── while it serves ─────────────────────────────────────────────────────────────────────────


def test_a_change_is_told_and_is_then_on_the_list(project: Project) -> None:
    name = gate(project)
    with listening(project) as (_, client, listener):
        assert "1 gate waits for you" in client.get("/").text
        assert project.playbook("answer", "continue").code == 0
        listener.hears(name)
        assert "Nothing waits for you" in client.get("/").text
        assert project.playbook("abort").code == 0
        listener.hears(name)
        assert "Ended today" in client.get("/").text


def test_the_first_session_of_a_repository_is_told(project: Project, tmp_path: Path) -> None:
    """Before, none of its folders for sessions exist."""
    fresh = Project(tmp_path / "fresh", project.home)
    fresh.write(".claude/commands/feature.pr.md", "Publish.\n")
    fresh.write("specs/013-playbook-create/spec.md", "# A feature\n")
    fresh.git("init", "-q")
    fresh.commit("Begin")
    fresh.git("switch", "-q", "-c", "013-playbook-create")
    with listening(fresh) as (_, client, listener):
        assert "No session is open" in client.get("/").text
        name = gate(fresh)
        listener.hears(name)
        assert "1 gate waits for you" in client.get("/").text


def test_a_repository_that_is_added_is_shown_and_one_that_goes_is_a_problem(
    project: Project,
) -> None:
    other = Project.copied(project.root, project.root.with_name("other"), home=project.home)
    name = gate(other)
    with listening(project) as (_, client, listener):
        assert not (project.home / ".local/state/playbook").exists()
        assert project.playbook("inbox", "add", str(other.root)).code == 0
        listener.hears(name)
        assert "1 gate waits for you" in client.get("/").text
        shutil.rmtree(other.root)
        listener.hears(name, within=30)
        page = client.get("/")
        assert page.status_code == 200
        assert "there is no folder" in page.text
        key = re.search(r"href=\"/(?:gate|session)/(\w+)", page.text)
        assert key is None
        assert client.get(f"/session/0123456789ab/{name}").status_code == 404


DRIVES = """\
import sys, time
from pathlib import Path
from playbook_supervisor.drivers.driver_lock import driving
with driving(Path(sys.argv[1]), "script"):
    print("drives", flush=True)
    time.sleep(600)
"""


@pytest.mark.long
def test_a_driver_that_is_killed_is_told_within_seconds_while_others_write(
    project: Project,
) -> None:
    """No file tells of it."""
    other = Project.copied(project.root, project.root.with_name("other"), home=project.home)
    project.playbook("inbox", "add", str(other.root))
    gate(other)
    assert project.playbook("begin", "auto-validate", "013").code == 0
    name = project.session.name
    private = project.root / ".git/playbook" / name
    with (
        listening(project) as (served, client, listener),
        subprocess.Popen([sys.executable, "-c", DRIVES, private], stdout=subprocess.PIPE) as driver,
    ):
        served.until(lambda: "Running" in client.get("/").text)
        driver.kill()
        killed = time.monotonic()
        while "Open, without a driver" not in client.get("/").text:
            assert time.monotonic() < killed + 25
            (other.session / "note.md").write_text(str(time.monotonic()))
            time.sleep(0.2)
        listener.hears(name)


# ── many browsers ───────────────────────────────────────────────────────────────────────────


def test_ctrl_c_ends_fifty_streams_at_once(project: Project) -> None:
    name = gate(project)
    with ExitStack() as stack, Terminal(project, "inbox", "--port", "0") as terminal:
        served = Served(project, terminal)
        client = stack.enter_context(served.visitor())
        limits = httpx.Limits(max_connections=100)
        cookies = client.cookies
        client = stack.enter_context(served.client(cookies=cookies, limits=limits))
        listeners = [Listener(client) for _ in range(50)]
        assert project.playbook("answer", "continue").code == 0
        for each in listeners:
            each.hears(name)
        terminal.interrupt()
        assert terminal.end() == 130
        assert all(each.ended.wait(SOON) for each in listeners)
        assert "Traceback" not in terminal.shown


def allowed() -> bool:
    return True


async def told(stream: AsyncIterator[str]) -> list[str]:
    """The topics of the next message."""
    line = await asyncio.wait_for(anext(stream), 10)
    topics: list[str] = json.loads(line.removeprefix("data: "))
    return topics


def test_several_changes_are_told_together() -> None:
    async def scenario() -> None:
        broker = Broker()
        stream = broker.stream(allowed)
        assert await anext(stream) == "retry: 2000\n\n"
        broker.tell(["a/2", "a/1"])
        broker.tell(["a/2", "b/1"])
        assert await told(stream) == ["a/1", "a/2", "b/1"]
        broker.tell([""])  # the list has other problems
        assert await told(stream) == [""]

    asyncio.run(scenario())


def test_a_browser_that_does_not_read_holds_up_no_other_and_is_told_the_rest_together() -> None:
    async def scenario() -> None:
        broker = Broker()
        slow, quick = broker.stream(allowed), broker.stream(allowed)
        for each in (slow, quick):
            await anext(each)
        for number in range(1000):
            broker.tell([f"a/{number % 7}"])
            assert await told(quick) == [f"a/{number % 7}"]
        assert await told(slow) == [f"a/{number}" for number in range(7)]

    asyncio.run(scenario())


def test_there_are_300_listeners_at_most_and_one_that_leaves_makes_room() -> None:
    async def scenario() -> None:
        broker = Broker()
        streams = [broker.stream(allowed) for _ in range(301)]
        for each in streams[:300]:
            await anext(each)
        assert len(broker) == 300
        assert await anext(streams[300]) == "retry: 30000\n\n"
        with pytest.raises(StopAsyncIteration):
            await anext(streams[300])
        await streams[0].aclose()  # type: ignore[attr-defined]
        assert len(broker) == 299
        broker.close()
        for each in streams[1:300]:
            with pytest.raises(StopAsyncIteration):
                await anext(each)
        assert len(broker) == 0

    asyncio.run(scenario())


def test_the_list_is_rendered_once_for_each_version_and_person(project: Project) -> None:
    feed, pages = Feed(lambda: [project.root]), ListPages()
    gate(project)
    feed.poll()
    first = pages.page(feed.listing, "you", 1)
    assert pages.page(feed.listing, "you", 1) is first
    assert pages.page(feed.listing, "Ada", 1) is not first
    assert project.playbook("answer", "continue").code == 0
    feed.poll()
    assert "Nothing waits for you" in pages.page(feed.listing, "you", 1)


# ── where the system watches no more files ──────────────────────────────────────────────────


def namespace(*program: str) -> tuple[str, ...]:
    """What starts a program in a user namespace; it is skipped where none can be made."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("only Linux has user namespaces")
    start = ("unshare", "--user", *program)
    if subprocess.run((*start, "true"), check=False, capture_output=True).returncode != 0:
        pytest.skip("a user namespace cannot be made here")
    return start


@contextmanager
def within(
    namespace: tuple[str, ...], project: Project
) -> Iterator[tuple[Served, httpx.Client, Listener]]:
    """As `listening`, with an inbox in a user namespace.

    It cannot look at processes outside, so no link can be used: Ada is let in before.
    """
    admitted = register.admit(register.invite("Ada <ada@example.org>", 0), "a browser", 0)
    assert admitted is not None
    terminal_of = type("Within", (Terminal,), {"program": (*namespace, *Terminal.program)})
    with terminal_of(project, "inbox", "--port", "0") as terminal:
        served = Served(project, terminal)
        cookie = f"playbook-inbox-{served.url.rpartition(':')[2]}"
        with served.client(cookies={cookie: admitted[0]}) as client:
            yield served, client, Listener(client)
        terminal.interrupt()
        assert terminal.end() == 130


@pytest.mark.long
def test_without_watches_changes_are_told_some_seconds_late_and_the_page_says_so(
    project: Project,
) -> None:
    setting = 'echo 3 > /proc/sys/user/max_inotify_watches && exec "$@"'
    limited = namespace("--map-root-user", "sh", "-c", setting, "sh")
    waits = gate(project)
    with within(limited, project) as (served, client, listener):
        served.until(lambda: "raise fs.inotify.max_user_watches" in client.get("/").text)
        assert "Changes are shown some seconds late" in client.get("/").text
        assert project.playbook("answer", "continue").code == 0
        listener.hears(waits, within=10)
        assert "Nothing waits for you" in client.get("/").text


def test_a_closed_folder_does_not_keep_the_others_from_being_watched(project: Project) -> None:
    """Root can read it, but not root without its rights in a namespace."""
    closed = project.root / ".playbooks/closed"
    closed.mkdir()
    closed.chmod(0)
    name = gate(project)
    with within(namespace(), project) as (_, client, listener):
        assert project.playbook("answer", "continue").code == 0
        listener.hears(name)
        assert "Nothing waits for you" in client.get("/").text
        assert "some seconds late" not in client.get("/").text
    closed.chmod(0o700)
