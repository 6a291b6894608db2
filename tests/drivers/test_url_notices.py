"""Notices to URLs: the real library, a real server, and secrets that stay secret."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.scripts import GATED, WORKS
from support.bound_session import Conversation
from support.controlled_time import wait_until
from support.scratch_project import Project
from support.web_server import Request, Site, served

from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.commands.views import queries
from playbook_supervisor.drivers import notifications, url_notices
from playbook_supervisor.drivers.notifications import Notice, deliver
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.installation import command_for

pytestmark = pytest.mark.measured

INBOX = "https://inbox.example.org"
SECRET = "p@ss/w:r d?#%&{{x}}"
NOTICE = Notice("20260219-a7k", "a#1?1", "It waits.", "A title", "A question?", f"{INBOX}/gate")
SAID = (NOTICE.title, NOTICE.message)


@pytest.fixture
def site() -> Iterator[Site]:
    """`/good` accepts everything, `/bad` answers 500, `/slow` answers when the test is over."""
    over = threading.Event()

    def slow(request: Request) -> None:
        over.wait(60)
        request.answer()

    pages: dict[str, Callable[[Request], None]] = {
        "/": lambda request: request.answer("{}"),
        "/good": lambda request: request.answer(),
        "/bad": lambda request: request.answer(f"no {request.path}", 500),
        "/slow": slow,
    }
    with served(pages) as site:
        try:
            yield site
        finally:
            over.set()


def at(site: Site, page: str, scheme: str = "json", who: str = "") -> str:
    return f"{scheme}://{who}127.0.0.1:{site.server_port}/{page}"


def received(site: Site) -> list[tuple[str, str]]:
    """Title and text of each message that the server got."""
    bodies: list[dict[str, Any]] = [json.loads(request.body) for request in site.requests]
    return [(body["title"], body["message"]) for body in bodies]


def to(*urls: str, **settings: Any) -> Config:
    return Config(notify=urls, **settings)


def test_a_message_has_a_title_a_text_and_the_link(site: Site, tmp_path: Path) -> None:
    assert deliver(to(at(site, "good")), NOTICE, tmp_path) == ""
    assert received(site) == [("A title", f"A question?\n{INBOX}/gate")]


def test_what_agents_wrote_is_sent_as_plain_text(site: Site, tmp_path: Path) -> None:
    notice = Notice("s", "a", "t", "<b>${HOME}</b>", "{{x}} \\n <a href='x'>:smile:</a> *b*")
    assert deliver(to(at(site, "good")), notice, tmp_path) == ""
    assert received(site) == [(notice.title, notice.body)]


def test_a_secret_is_put_into_the_url_when_it_is_sent(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NTFY_PASSWORD", SECRET)
    url = at(site, "topic", "ntfy", "ada:{{secret:NTFY_PASSWORD}}@")
    assert deliver(to(url), NOTICE, tmp_path) == ""
    (request,) = site.requests
    assert json.loads(request.body)["topic"] == "topic"
    method, _, given = request.headers["Authorization"].partition(" ")
    assert (method, base64.b64decode(given).decode()) == ("Basic", f"ada:{SECRET}")


def test_a_missing_secret_keeps_only_its_own_url_from_being_sent(
    site: Site, tmp_path: Path
) -> None:
    urls = (at(site, "good", who="{{secret:NO_SUCH_TOKEN}}@"), at(site, "good"))
    assert deliver(to(*urls), NOTICE, tmp_path) == (
        "the notification failed: the secret NO_SUCH_TOKEN is not there: no such environment "
        "variable is set"
    )
    assert len(site.requests) == 1


def test_each_failure_is_told_without_the_url(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    who = "ada:{{secret:TOKEN}}@"
    config = to(
        at(site, "bad", who=who),
        at(site, "good", who=who),
        f"xml://{who}127.0.0.1:1/{{{{secret:TOKEN}}}}",
        "nfty://{{secret:TOKEN}}@push.example/topic",
    )
    said = deliver(config, NOTICE, tmp_path)
    assert said == (
        "the notification failed: json (URL 1) answered with HTTP status 500; xml could not be "
        "reached, or refused it; apprise does not understand the nfty URL"
    )
    assert sorted(request.path for request in site.requests) == ["/bad", "/good"]
    assert capfd.readouterr() == ("", "")


def test_a_server_that_hangs_does_not_delay_the_others(site: Site, tmp_path: Path) -> None:
    config = to(at(site, "slow"), at(site, "good", "xml"))
    said = url_notices.send_to_urls(config, *SAID, tmp_path, 3.0)
    assert said == "the notification failed: json took longer than 3 s"
    assert "/good" in [request.path for request in site.requests]


def test_without_the_library_a_sentence_says_how_to_install_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    assert deliver(to(at(site, "good")), NOTICE, tmp_path) == (
        f"the notification failed: apprise is not installed (`{command_for('notify')}`)"
    )
    assert site.requests == []


# ── in a session ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def gated(project: Project) -> Project:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    return project


def settings(project: Project, *urls: str, **others: object) -> None:
    data = {"notify": urls, "inbox": {"url": INBOX}, **others}
    project.write(".playbooks/config.yaml", json.dumps(data))


def messages(project: Project, ending: str) -> list[tuple[str, str]]:
    """The messages of the playbook `gated`: of its gate, and of its end."""
    key, session = checkout.find(project.root).key, project.session.name
    return [
        (
            "gated on 013-playbook-create waits for you at publish#1?1",
            "Run /feature.pr (step publish) now: continue, skip it, or abort? 0/1 step done.\n"
            "Answer: continue, skip or abort.\n"
            f"{INBOX}/gate/{key}/{session}?id=publish%231%3F1",
        ),
        (f"gated on 013-playbook-create: {ending}", f"{INBOX}/session/{key}/{session}"),
    ]


def test_a_run_sends_a_message_for_each_gate_and_each_end(gated: Project, site: Site) -> None:
    settings(gated, at(site, "good"))
    drive = DriveOptions(agent=gated.script(WORKS))
    assert driving.run("gated", cwd=gated.root, drive=drive).why == "waiting"
    assert driving.resume(cwd=gated.root).why == "waiting"
    driving.answer(["continue"], cwd=gated.root)
    assert driving.resume(cwd=gated.root).why == "completed"
    gate, (title, link) = messages(gated, "completed")
    assert received(site) == [gate, (title, f"1/1 step.\n{link}")]


def test_a_program_is_given_the_link_on_its_line(gated: Project) -> None:
    gated.write("call", "#!/bin/sh\ncat >> called\n").chmod(0o755)
    settings(gated, "./call")
    drive = DriveOptions(agent=gated.script(WORKS))
    assert driving.run("gated", cwd=gated.root, drive=drive).why == "waiting"
    ((title, body), _) = messages(gated, "")
    question, _, link = body.split("\n")
    assert gated.read("called") == f"{title}: {question} {link}\n"


@pytest.mark.long
def test_a_hook_sends_without_waiting(
    gated: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "DEADLINE", 4.0)
    settings(gated, at(site, "slow"), at(site, "bad"))
    with Conversation(gated) as conversation:
        conversation.types("run", "gated")
        conversation.hook("Stop", background_tasks=[])
        assert next(queries.watch(cwd=gated.root))[0].notify_error == ""
        wait_until(lambda: len(site.requests) == 2)
        gate, _ = messages(gated, "")
        assert received(site) == [gate] * 2
        conversation.hook("Stop", background_tasks=[])
        wait_until(lambda: next(queries.watch(cwd=gated.root))[0].notify_error)
        said = next(queries.watch(cwd=gated.root))[0].notify_error
        assert "json (URL 2) answered with HTTP status 500" in said
        assert len(site.requests) == 2


def test_a_gate_of_a_child_session_has_its_place_in_the_link() -> None:
    assert notifications.page_path("0123456789ab", "20260219-a7k", "release#1/pr#1?1") == (
        "/gate/0123456789ab/20260219-a7k?id=release%231%2Fpr%231%3F1"
    )
    assert notifications.page_path("0123456789ab", "a/b") == "/session/0123456789ab/a%2Fb"
