"""A fleet in the inbox: its list is from the database, its pages from git, answers go to both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from fleet.local_fleet import Fleet

from inbox.serving import Served, serving
from inbox.test_answers import Page
from inbox.test_events import Listener
from playbook_supervisor.commands import places
from playbook_supervisor.commands.places import Place
from playbook_supervisor.errors import FleetError, GitError, StateError
from playbook_supervisor.fleet import place
from playbook_supervisor.fleet.commands.reading import Views
from playbook_supervisor.fleet.storage.rows import Lease, State
from playbook_supervisor.fleet.worker_settings import path as settings_path
from playbook_supervisor.inbox.commands.admission import (
    Answerer,
    require_owner,
    require_person_anywhere,
)
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.user_state import path as state_path
from playbook_supervisor.system.process.process_groups import MARK

pytestmark = pytest.mark.measured


@pytest.fixture
def address(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> str:
    """That of the fleet's database, which the environment has, too."""
    assert fleet.database.address.file is not None
    url = f"sqlite:///{fleet.database.address.file}"
    monkeypatch.setenv("PLAYBOOK_FLEET", url)
    return url


@contextmanager
def visited(fleet: Fleet, *options: str) -> Iterator[tuple[Served, httpx.Client]]:
    with serving(fleet.project, *options) as served, served.visitor() as client:
        yield served, client


@pytest.fixture
def waiting(fleet: Fleet, address: str) -> str:
    assert address
    session = fleet.submit()
    assert fleet.advance(session).state is State.WAITING
    return session


def views() -> list[Path]:
    """The clones that the inboxes of this machine look at."""
    return [each for each in (state_path("fleet") / "views").glob("*/*/*") if each.is_dir()]


# ── what is shown ───────────────────────────────────────────────────────────────────────────


def test_the_fleet_is_the_place_that_is_installed() -> None:
    installed: Place = place
    assert places.offered() == {"fleet": installed}


def test_the_list_comes_from_the_database_alone(fleet: Fleet, waiting: str) -> None:
    queued, stuck = fleet.submit(), fleet.submit()
    lease = fleet.database.take(stuck, "w", 60)
    assert lease
    fleet.database.stick(lease, "PB-FLEET-BRANCH", "someone pushed to the session's branch")
    fleet.origin.root.rename(fleet.origin.root.with_name("gone.git"))
    with visited(fleet) as (_, client):
        shown = client.get("/").text
    assert "1 gate waits for you" in shown
    assert f"/gate/fleet/{waiting}?id=tasks%231%3F1" in shown
    assert "someone pushed to the session&#39;s branch" in shown
    assert re.search(r"Queued <span class=\"count\">1</span>", shown)
    assert f"/session/fleet/{queued}" in shown
    assert views() == []


def test_the_page_of_a_gate_shows_what_a_page_of_this_machine_shows(
    fleet: Fleet, waiting: str
) -> None:
    with visited(fleet) as (served, client):
        page = Page(served, client)
        assert "Run /speckit.tasks (step tasks) now: continue, skip it, or abort?" in page.text
        assert "plan.md" in page.text
        assert "+# Plan" in re.sub(r"<[^>]+>", "", page.text).replace("\n", "")
        assert "Continue" in page.text
        session = client.get(f"/session/fleet/{waiting}").text
        assert "In the fleet, it waits for" in session
        assert "planned" in session
        assert len(views()) == 1  # both pages show one snapshot
        # A link of a notice names the clone of its worker, which no one else knows.
        notice = client.get(f"/gate/0123456789ab/{waiting}?id=tasks%231%3F1")
        assert "Run /speckit.tasks (step tasks) now" in notice.text
        for unknown in ("20260101-zzz", "nothing", "..%2f.."):
            assert client.get(f"/session/fleet/{unknown}").status_code == 404
        fleet.origin.root.rename(fleet.origin.root.with_name("gone.git"))
        gone = client.get(f"/session/fleet/{waiting}")
        assert (gone.status_code, "PB-GIT-REMOTE" in gone.text) == (500, True)
        assert client.get("/").status_code == 200
    assert views() == []


@pytest.mark.long
def test_a_page_follows_the_session_from_snapshot_to_snapshot(fleet: Fleet, waiting: str) -> None:
    with visited(fleet) as (served, client):
        listener = Listener(client)
        client.get(f"/session/fleet/{waiting}")
        fleet.answer(waiting, "continue")
        fleet.advance(waiting)
        listener.hears(waiting, within=10)
        shown = client.get(f"/session/fleet/{waiting}").text
        assert "made" in shown
        assert 'class="badge completed"' in shown
        served.until(lambda: "Ended today" in client.get("/").text)


def test_a_fleet_is_left_out_where_that_is_wanted(fleet: Fleet, waiting: str) -> None:
    with visited(fleet, "--no-fleet") as (_, client):
        assert "Nothing waits for you" in client.get("/").text
        assert client.get(f"/session/fleet/{waiting}").status_code == 404


def test_a_database_that_is_not_there_is_a_problem_on_the_page(
    fleet: Fleet, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waiting
    monkeypatch.setenv("PLAYBOOK_FLEET", f"sqlite:///{fleet.folder}/none.sqlite")
    with visited(fleet, "--fleet") as (_, client):
        shown = client.get("/").text
    assert re.search(r"fleet: .*does not exist", shown)
    assert "playbook fleet up" in shown


def test_the_rows_are_read_again_only_after_a_change(fleet: Fleet, address: str) -> None:
    assert address
    session = fleet.submit()
    feed = place.reader()
    feed.poll()
    rows = feed.rows
    changes: list[Callable[[], object]] = [
        lambda: fleet.database.cancel(session, "no", "Ada"),
        lambda: fleet.submit(),
        lambda: taken.append(fleet.database.take(session, "w", 60)),
    ]
    taken: list[Lease | None] = []
    for change in changes:
        feed.poll()
        assert feed.rows is rows
        change()
        feed.poll()
        assert feed.rows is not rows
        rows = feed.rows
    assert taken[0]
    assert fleet.database.renew(taken[0], 60)
    feed.poll()
    assert feed.rows is rows  # nothing that is shown has changed
    feed.close()


# ── answers ─────────────────────────────────────────────────────────────────────────────────


def test_an_answer_goes_to_the_database_and_a_worker_journals_it(
    fleet: Fleet, waiting: str
) -> None:
    with visited(fleet) as (served, client):
        done = Page(served, client).answer("continue", "read the diff")
        assert done.headers["location"] == f"/session/fleet/{waiting}?after=fleet"
        assert "A worker of the fleet journals it" in client.get(done.headers["location"]).text
        assert fleet.row(waiting).state is State.QUEUED
        assert "Nothing waits for you" in client.get("/").text
    assert fleet.advance(waiting).state is State.COMPLETED
    journal = fleet.journal(waiting)
    assert 'by: "Ada Example <ada@example.org>", via: inbox, role: ' in journal
    assert 'text: "continue: read the diff"' in journal
    assert fleet.audit().code == 0


@pytest.mark.long
def test_an_answer_to_what_has_changed_is_refused(fleet: Fleet, waiting: str) -> None:
    with visited(fleet) as (served, client):
        page = Page(served, client)
        fleet.answer(waiting, "what?")
        assert fleet.advance(waiting).state is State.WAITING  # it meant nothing
        page.state = "0" * 32
        refused = page.answer("continue")
        assert refused.status_code == 409
        assert "something has changed" in refused.text
        served.until(lambda: "does not count" in client.get("/").text)
        page.load()
        assert page.answer("no").status_code == 422
        assert page.answer("continue").status_code == 303


@pytest.mark.long
def test_a_policy_refuses_in_the_inbox_what_the_worker_would_refuse(
    fleet: Fleet, address: str
) -> None:
    assert address
    policy = 'match: {step: tasks}\nanswered_by: ["grace@example.org", "role:other"]\n'
    fleet.project.write(".playbooks/policies/who.yaml", policy)
    fleet.project.commit("Let Grace decide")
    fleet.project.git("push", "-q")
    session = fleet.submit()
    fleet.advance(session)
    with visited(fleet) as (served, client):
        answered = Page(served, client).answer("continue")
    assert answered.status_code == 403
    assert "may not answer for" in answered.text
    assert fleet.row(session).state is State.WAITING


POST = """
import sys, urllib.request
url, origin, cookie, state = sys.argv[1:]
form = f"state={state}&choice=continue&words=".encode()
headers = {"Origin": origin, "Cookie": cookie}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    opener.open(urllib.request.Request(url, form, headers))
except urllib.error.HTTPError as refused:
    print(refused.code, refused.read().decode())
"""


@pytest.mark.long
def test_an_agent_of_another_repository_answers_nothing(fleet: Fleet, waiting: str) -> None:
    with visited(fleet) as (served, client):
        page = Page(served, client)
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        argv = [sys.executable, "-c", POST, served.url + page.path, served.url, cookie, page.state]
        elsewhere = "/elsewhere/.git/playbook/20260101-abc/worker-a#1"
        environment = {**os.environ, MARK: elsewhere}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout.startswith("403"), done.stderr
        assert "only a human may" in done.stdout
    assert fleet.row(waiting).state is State.WAITING


# ── the clones ──────────────────────────────────────────────────────────────────────────────


def test_a_session_has_one_clone_until_it_goes_on(
    fleet: Fleet, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = fleet.row(waiting)
    with closing(Views(fleet.database.now)) as seen:
        first = seen.store(row).checkout.root
        assert seen.store(row).checkout.root == first
        assert views() == [first]
        fleet.answer(waiting, "continue")
        fleet.advance(waiting)
        second = seen.store(row).checkout.root
        assert second != first
        clock = time.monotonic
        assert {*views()} == {first, second}  # a page may still read the first
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 3600)
        seen.sweep()
        assert views() == []


def test_what_an_inbox_that_was_killed_has_left_is_removed(fleet: Fleet, waiting: str) -> None:
    left = state_path("fleet") / "views/1234-abcd/20260101-abc-0123456789ab/widgets"
    left.mkdir(parents=True)
    (left.parent.parent / "lock").touch()
    with closing(Views(fleet.database.now)) as seen:
        seen.store(fleet.row(waiting))
        assert not left.exists()


def test_a_repository_that_the_settings_do_not_name_is_not_fetched(
    fleet: Fleet, waiting: str
) -> None:
    row = fleet.row(waiting)
    settings_path().write_text("transports: [file]\nrepositories: [https://git.example/*]\n")
    with closing(Views(fleet.database.now)) as seen:
        with pytest.raises(FleetError, match=r"not among the repositories of worker\.yaml"):
            seen.store(row)
        settings_path().unlink()
        with pytest.raises(FleetError, match="file is not allowed here"):
            seen.store(row)
        settings_path().write_text("transports: [file]\n")
        with pytest.raises(GitError):
            seen.store(replace(row, repository="file:///nowhere"))


def test_claude_code_decides_nothing_in_the_inbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    someone = Answerer("Ada <ada@example.org>")
    require_person_anywhere(someone)  # whom no process of this machine has brought
    require_owner([tmp_path / "gone"], "invite people")
    monkeypatch.setenv("CLAUDECODE", "1")
    with pytest.raises(StateError, match="not Claude Code"):
        require_person_anywhere(someone)
    with pytest.raises(StateError, match="not Claude Code"):
        require_owner([tmp_path], "invite people")
