"""Who may come in: people with links, over TLS and behind a proxy; and no agent."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trustme
from cli.scripts import GATED
from cli.terminal import Terminal
from support.controlled_time import eventually
from support.scratch_project import Project
from test_guards import WITH_TERMINAL
from test_journeys import playbook

from playbook_supervisor.errors import StateError
from playbook_supervisor.inbox.commands import admission, register
from playbook_supervisor.inbox.commands.admission import Answerer
from playbook_supervisor.inbox.commands.feed import Feed
from playbook_supervisor.inbox.commands.repository import Row
from playbook_supervisor.records import replace
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.peer_process import Peer

from .serving import Served, serving

ADA = "Ada <ada@example.org>"
DAY = 24 * 3_600_000
PROGRAM = (sys.executable, "-m", "playbook_supervisor")


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def users(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project; what this process reads of the user is what the program reads, too."""
    monkeypatch.setenv("HOME", str(project.home))
    return project


# ── invited people ──────────────────────────────────────────────────────────────────────────


def test_an_invitation_works_once_within_three_days(users: Project) -> None:
    stale = register.invite(ADA, now() - 3 * DAY - 1000)
    fresh = register.invite(ADA, now() - 3 * DAY + 60_000)
    with serving(users) as served, served.client() as ada, served.client() as other:
        assert served.enter(ada, stale).status_code == 403
        assert served.enter(ada, fresh).status_code == 303
        assert "Ada" in ada.get("/").text
        assert served.enter(other, fresh).status_code == 403
        assert f"{ADA} came in with" in served.terminal.until("came in with")


def test_the_event_stream_of_a_revoked_person_ends_at_once(users: Project) -> None:
    invitation = register.invite(ADA, now())
    with serving(users) as served, served.client() as ada, served.visitor() as owner:
        served.enter(ada, invitation)
        with ada.stream("GET", "/events") as hers, owner.stream("GET", "/events") as others:
            told, untold = hers.iter_text(), others.iter_text()
            assert next(told).startswith("retry:")
            assert next(untold).startswith("retry:")
            assert users.playbook("inbox", "revoke", "Ada").code == 0
            assert list(told) == []
            users.write(".playbooks/playbooks/gated.yaml", GATED)
            users.playbook("run", "gated", "--agent", "exec:echo done")
            assert next(untold).startswith("data:"), "other streams go on"
        assert ada.get("/events").status_code == 401


def test_a_damaged_register_lets_no_one_in_but_the_user_of_the_machine(users: Project) -> None:
    invitation = register.invite(ADA, now())
    file = users.home / ".local/state/playbook/inbox.json"
    with serving(users) as served, served.client() as ada, served.visitor() as owner:
        served.enter(ada, invitation)
        file.write_text("{")
        assert ada.get("/").status_code == 401
        assert served.enter(ada, invitation).status_code == 403
        assert owner.get("/").status_code == 200


# ── TLS, proxies and addresses ──────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def certificate(authority: trustme.CA, tmp_path: Path) -> tuple[str, str]:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    files = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(files[0])
    issued.private_key_pem.write_to_path(files[1])
    return files


@pytest.mark.measured
def test_over_tls_the_cookie_is_of_this_host_alone(
    users: Project, certificate: tuple[str, str], authority: trustme.CA
) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with serving(users, "--tls", *certificate) as served:
        assert served.url.startswith("https://")
        with served.client(verify=context) as client:
            entered = served.enter(client, served.link().partition("token=")[2])
            assert entered.status_code == 303
            cookie = entered.headers["Set-Cookie"]
            assert cookie.startswith("__Host-playbook-inbox=")
            assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Secure"))
            assert "Path=/" in cookie
            assert "Domain" not in cookie
            listed = client.get("/")
            assert listed.status_code == 200
            assert "max-age" in listed.headers["Strict-Transport-Security"]
            plain = served.url.replace("https:", "http:")
            foreign = client.post("/enter", data={"token": "x"}, headers={"Origin": plain})
            assert foreign.status_code == 403
        with httpx.Client(trust_env=False) as stranger, pytest.raises(httpx.ConnectError):
            stranger.get(served.url)
        parts = urlsplit(served.url)
        with (
            socket.create_connection((parts.hostname or "", parts.port or 0), 10) as silent,
            served.client(verify=context) as other,
        ):
            assert other.get("/style.css").status_code == 200, silent


def test_behind_a_proxy_only_the_proxys_name_is_served(users: Project) -> None:
    options = ("--behind-proxy", "--url", "https://inbox.example.org")
    with Terminal(users, "inbox", "--port", "0", *options) as terminal:
        shown = terminal.until("works once: https://inbox.example.org/enter?token=")
        assert "the inbox is at https://inbox.example.org" in shown
        (port,) = listening(terminal.process.pid)
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, trust_env=False) as client:
            own = {"Host": "inbox.example.org", "X-Forwarded-For": "192.0.2.1"}
            assert client.get("/style.css").status_code == 421
            assert client.get("/style.css", headers=own).status_code == 200
            posted = {**own, "Origin": url}
            refused = client.post("/enter", data={"token": "x"}, headers=posted)
            assert "not from a page of the inbox" in refused.text
        terminal.interrupt()
        assert terminal.end() == 130


def listening(pid: int) -> list[int]:
    """The ports at which a process listens on 127.0.0.1."""
    inodes = list[str]()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            inodes.append(str(each.readlink()))
    table = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [
        int(line[1].partition(":")[2], 16)
        for line in table
        if line[3] == "0A" and f"socket:[{line[9]}]" in inodes
    ]


def test_what_others_can_reach_needs_tls_and_invited_people(
    users: Project, certificate: tuple[str, str]
) -> None:
    tls = ("--tls", *certificate)
    proxied = ("--behind-proxy", "--url", "https://inbox.example.org")
    for bind in ("0.0.0.0", "::", "192.0.2.7", "0", "inbox.example.org"):
        refused = users.playbook("inbox", "--bind", bind)
        assert (refused.code, "would not be encrypted" in refused.err) == (1, True), bind
        for secured in (tls, proxied):
            refused = users.playbook("inbox", "--bind", bind, *secured)
            assert (refused.code, "no one is invited" in refused.err) == (1, True), bind
    register.invite(ADA, now())
    for bind in ("0.0.0.0", "::", "0"):
        refused = users.playbook("inbox", "--bind", bind, *tls)
        assert (refused.code, "no address that people can use" in refused.err) == (1, True), bind
    for bind in ("192.0.2.7", "name.invalid"):
        refused = users.playbook("inbox", "--bind", bind, *tls)
        assert (refused.code, "cannot listen at" in refused.err) == (1, True), refused.err


def test_options_that_contradict_each_other_are_refused(
    users: Project, certificate: tuple[str, str]
) -> None:
    both = users.playbook("inbox", "--behind-proxy", "--tls", *certificate)
    assert (both.code, "exclude each other" in both.err) == (1, True)
    for address in ((), ("--url", "http://inbox.example.org")):
        proxied = users.playbook("inbox", "--behind-proxy", *address)
        assert (proxied.code, "needs the address" in proxied.err) == (1, True)
    for url in (
        "inbox.example.org",
        "https://a@b",
        "https://a/b",
        "ftp://a",
        "https://a:x",
        "https://",
    ):
        refused = users.playbook("inbox", "--url", url)
        assert (refused.code, "is no address of an inbox" in refused.err) == (1, True), url


def test_a_certificate_that_cannot_be_used_is_an_error(
    users: Project, certificate: tuple[str, str], tmp_path: Path
) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    cert, key = certificate
    for pair in ((str(tmp_path / "none.pem"), key), (cert, str(nonsense)), (str(nonsense), key)):
        refused = users.playbook("inbox", "--port", "0", "--tls", *pair)
        assert (refused.code, "cannot use the certificate" in refused.err) == (3, True), refused
        assert "in PEM format" in refused.err


# ── agents on the same machine ──────────────────────────────────────────────────────────────

# Tries each of the ways in turn; prints for each the reply, or nothing if it does not wait for it.
AGENT = """\
import ctypes, json, os, pty, socket, struct, subprocess, sys, time

def sent(data, *, wait=True, reset=False):
    peer = socket.create_connection((HOST, PORT), 60)
    if reset:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.sendall(data)
    if reset:
        peer.close()
    said = b""
    while wait and (chunk := peer.recv(65536)):
        said += chunk
    return said.decode("utf-8", "replace")

def once(way, data):
    code = f"HOST, PORT = {HOST!r}, {PORT}\\n" + open(__file__).read().partition("# " + "---")[0]
    return [sys.executable, "-c", code + f"print({way})", data]

def bare(data):
    argv = once("sent(sys.argv[1].encode())", data.decode())
    return subprocess.run(argv, env={}, capture_output=True, text=True, close_fds=True).stdout

def escaped(data):
    '''With a session, a parent and an environment of its own, and none of our descriptors.'''
    argv = once("sent(sys.argv[1].encode())", data.decode())
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(3, 4096)
            said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1)
            while os.getppid() == PARENT: time.sleep(0.01)
            os.execve(argv[0], argv, {})
        os._exit(0)
    os.wait()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        time.sleep(0.1)
        said = open("said").read() if os.path.exists("said") else ""
        if said.endswith("\\n"):
            return said
    return ""

def hidden(data):
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # no one may look at its files
    said = sent(data)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    return said

def gone(data):
    '''It ends before it can be looked at; again and again.'''
    for number in range(40):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                sent(data, wait=False)
                time.sleep(number / 1000)
            os._exit(0)
        os.wait()
    return ""

def reset(data):
    for _ in range(20):
        sent(data, wait=False, reset=True)
    return ""

def handed_over(data):
    '''The socket is open in a process that has not sent anything.'''
    peer = socket.create_connection((HOST, PORT), 60)
    peer.set_inheritable(True)
    child = subprocess.Popen(["sleep", "5"], env={}, close_fds=False, start_new_session=True)
    peer.sendall(data)
    said = b""
    while chunk := peer.recv(65536):
        said += chunk
    child.kill()
    child.wait()
    return said.decode("utf-8", "replace")

def ran(argv):
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    return f"exit {said.returncode}: {said.stdout}{said.stderr}"
# ---
PARENT = os.getpid()
tasks = json.load(open(sys.argv[1]))
HOST, PORT = tasks["host"], tasks["port"]
exec(tasks["before"])
said = []
for way, given in tasks["ways"]:
    said.append(globals()[way](given.encode() if isinstance(given, str) else given))
json.dump(said, open(sys.argv[2], "w"))
"""
WAYS = ("sent", "bare", "escaped", "hidden", "handed_over", "gone", "reset")


class Attacked:
    """An inbox with an open gate in one worktree, and an agent that runs in another."""

    def __init__(self, served: Served, project: Project, there: Project) -> None:
        self.served, self.project, self.there = served, project, there

    def tries(self, ways: list[tuple[str, Any]], *, before: str = "") -> list[str]:
        """What an agent of a running session is told."""
        parts = urlsplit(self.served.url)
        tasks = {"host": parts.hostname, "port": parts.port, "before": before, "ways": ways}
        files = [self.project.root.with_name(name) for name in ("agent.py", "tasks", "heard")]
        files[0].write_text(AGENT)
        files[1].write_text(json.dumps(tasks))
        agent = self.project.root.with_name("agent")
        agent.write_text(
            f"#!/bin/sh\necho done\nexec {sys.executable} {' '.join(map(str, files))}\n"
        )
        agent.chmod(0o755)
        name = playbook(self.project, "plan /speckit.plan auto stop")
        ran = self.project.playbook("run", name, "013", "--agent", f"exec:{agent}")
        assert ran.code == 0, ran.err
        return [str(said) for said in json.loads(files[2].read_text())]

    @property
    def is_open(self) -> bool:
        return "gate" in self.there.manifest()

    def post(self, path: str, form: dict[str, str], cookie: str = "") -> str:
        """A request as a browser on our page sends it."""
        body = str(httpx.QueryParams(form))
        lines = (
            f"POST {path} HTTP/1.1",
            f"Host: {urlsplit(self.served.url).netloc}",
            f"Origin: {self.served.url}",
            "Sec-Fetch-Site: same-origin",
            "Content-Type: application/x-www-form-urlencoded",
            f"Content-Length: {len(body)}",
            f"Cookie: {cookie}",
            "Connection: close",
        )
        return "\r\n".join((*lines, "", body))

    def answer(self, visitor: httpx.Client, cookie: str = "") -> str:
        """The answer that a person would send, with the cookie of that browser or another."""
        (path,) = set(re.findall(r'href="(/gate/[^"]+)"', visitor.get("/").text))
        (state,) = re.findall(r'name="state" value="(\w+)"', visitor.get(path).text)
        own = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
        form = {"choice": "continue", "words": "", "state": state}
        return self.post(path.replace("&amp;", "&"), form, cookie or own)


@pytest.fixture
def attacked(users: Project, tmp_path: Path) -> Iterator[Attacked]:
    users.git("worktree", "add", "-q", str(tmp_path / "there"), "-b", "there")
    there = Project(tmp_path / "there", users.home, users.env)
    there.write(".playbooks/playbooks/gated.yaml", GATED)
    assert there.playbook("run", "gated", "--agent", "exec:echo done").code == 4
    with serving(users) as served:
        yield Attacked(served, users, there)


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who connects")


def assert_refused(heard: list[str]) -> None:
    """The last two ways wait for no reply."""
    for way, said in zip(WAYS, heard, strict=True):
        status = re.search(r"HTTP/1.1 (\d+)", said)
        if way in WAYS[-2:]:
            assert said == ""
        else:
            assert status, (way, said)
            assert (status[1], "only a human may" in said) == ("403", True), (way, said)


@pytest.mark.long
@linux
@pytest.mark.measured
def test_an_agent_answers_with_no_stolen_cookie(attacked: Attacked) -> None:
    """In whatever way it changes its process, hides or ends; a person with the same one does."""
    with attacked.served.visitor() as visitor:
        answer = attacked.answer(visitor)
        heard = attacked.tries([(way, answer) for way in WAYS])
        assert_refused(heard)
        assert attacked.is_open
        path = answer.split(" ")[1]
        form = dict(httpx.QueryParams(answer.rpartition("\r\n")[2]))
        assert attacked.served.post(visitor, path, form).status_code == 303
    assert not attacked.is_open


@linux
def test_an_agent_comes_in_with_no_link(attacked: Attacked) -> None:
    """Its link, which it has read from a terminal, is not used up."""
    token = attacked.served.link().partition("token=")[2]
    entering = attacked.post("/enter", {"token": token})
    assert_refused(attacked.tries([(way, entering) for way in WAYS]))
    with attacked.served.client() as client:
        assert attacked.served.enter(client, token).status_code == 303


@linux
def test_an_agent_answers_as_no_person_that_it_has_invited_itself(attacked: Attacked) -> None:
    cookie, link = register.new_token(), register.new_token()
    person = {
        "name": "Mallory <m@example.org>",
        "invitations": [{"digest": register.digest_of(link), "until": now() + DAY}],
        "browsers": [{"digest": register.digest_of(cookie), "since": now(), "name": "x"}],
    }
    file = attacked.project.home / ".local/state/playbook/inbox.json"
    known = json.dumps({"repositories": [], "people": [person]})
    before = (
        f"os.makedirs({str(file.parent)!r}, exist_ok=True)\n"
        f"with open({str(file)!r}, 'w') as file: file.write({known!r})"
    )
    name = f"playbook-inbox-{urlsplit(attacked.served.url).port}={cookie}"
    with attacked.served.visitor() as visitor:
        answer = attacked.answer(visitor, name)
    entering = attacked.post("/enter", {"token": link})
    ways = [("sent", answer), ("escaped", answer), ("sent", entering), ("escaped", entering)]
    heard = attacked.tries(ways, before=before)
    assert all("only a human may" in said for said in heard), heard
    assert attacked.is_open


def test_an_agent_finds_nothing_that_lets_it_in(attacked: Attacked) -> None:
    """Our command line, our environment and the user's files hold digests at most."""
    invitation = register.invite(ADA, now())
    with attacked.served.visitor() as visitor, attacked.served.client() as ada:
        attacked.served.enter(ada, register.invite(ADA, now()))
        secrets = [invitation, attacked.served.link().partition("token=")[2]]
        secrets += [*visitor.cookies.values(), *ada.cookies.values()]
        inbox = Path(f"/proc/{attacked.served.terminal.process.pid}")
        places = [inbox / "cmdline", inbox / "environ"] if inbox.exists() else []
        state = attacked.project.home / ".local/state"
        git = attacked.project.root / ".git/playbook"
        for folder in (state, git, attacked.there.root / ".playbooks"):
            places += [file for file in folder.rglob("*") if file.is_file()]
        assert len(places) > 3
        for place in places:
            text = place.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in text], place
    assert (state / "playbook/inbox.json").stat().st_mode & 0o777 == 0o600


def test_an_agent_starts_no_inbox_and_invites_no_one(attacked: Attacked) -> None:
    """Not at a terminal of its own either, nor from outside of the repository."""
    register.add(attacked.project.root)
    inbox = [*PROGRAM, "inbox", "--port", "0"]
    invite = [*PROGRAM, "inbox", "invite", ADA, "--url", "http://127.0.0.1:1"]
    ways = [inbox, invite]
    ways += [[sys.executable, "-c", WITH_TERMINAL, *argv] for argv in (inbox, invite)]
    ways += [["sh", "-c", 'cd / && exec "$@"', "sh", *argv] for argv in ways[-2:]]
    ways += [["env", "-i", f"HOME={attacked.project.home}", "PATH=/usr/bin:/bin", *ways[-2]]]
    for argv, said in zip(ways, attacked.tries([("ran", argv) for argv in ways]), strict=True):
        assert said.startswith("exit 3: "), (argv, said)
        assert "PB-STATE-HUMAN-ONLY" in said
    assert register.load().people == ()


@linux
def test_a_process_that_has_ended_is_not_taken_for_a_person(attacked: Attacked) -> None:
    """What it was cannot be told any more."""
    (row,) = rows(attacked.there)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        known = ancestry.process(process.pid)
        assert known is not None
        who = Answerer(ADA, Peer(True, os.getuid(), (known,)))
        admission.require_person(row, who)
        process.communicate(b"\n")
    other = Peer(True, os.getuid(), (replace(known, pid=os.getpid()),))
    for peer in (who.peer, other):
        with pytest.raises(StateError, match="has ended"):
            admission.require_person(row, replace(who, peer=peer))


def test_a_process_that_cannot_be_seen_is_a_proxy_of_another_user_or_refused(
    attacked: Attacked,
) -> None:
    (row,) = rows(attacked.there)
    for proxied in (False, True):
        for user in (os.getuid(), -1):
            unseen = Answerer(ADA, Peer(True, user), proxied)
            with pytest.raises(StateError, match="is unknown"):
                admission.require_person(row, unseen)
    proxy, elsewhere = Peer(True, os.getuid() + 1), Peer(False)
    admission.require_person(row, Answerer(ADA, proxy, proxied=True))
    admission.require_person(row, Answerer(ADA, elsewhere))
    with pytest.raises(StateError, match="belongs to another user"):
        admission.require_person(row, Answerer(ADA, proxy))


@linux
def test_a_process_of_another_user_is_refused_even_if_it_can_be_seen(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the superuser sees it; but not that of the person behind `sudo`."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    (row,) = rows(attacked.there)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        known = ancestry.process(process.pid)
        assert known is not None
        theirs = Answerer(ADA, Peer(True, 65_534, (known,)))
        for require in (partial(admission.require_person, row), admission.require_person_anywhere):
            with pytest.raises(StateError, match="belongs to another user"):
                require(theirs)
            require(replace(theirs, proxied=True))
        monkeypatch.setenv("SUDO_UID", "65534")
        monkeypatch.setattr("os.getuid", lambda: 0)
        admission.require_person(row, theirs)
        process.communicate(b"\n")


def rows(project: Project) -> list[Row]:
    feed = Feed(lambda: [project.root])
    feed.poll()
    return [row for row in feed.listing.rows if isinstance(row, Row)]


def test_what_the_inbox_resumes_imports_no_module_of_the_checkout(
    users: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may have written one, which would then run as a process of the person."""
    users.write(".playbooks/config.yaml", "inbox: {resume: true}\nagent: exec:echo done\n")
    users.write(".playbooks/playbooks/gated.yaml", GATED)
    assert users.playbook("run", "gated").code == 4
    for name in ("json", "yaml", "click", "signal", "playbook_supervisor"):
        users.write(f"{name}.py", "open('imported', 'w').close()\nraise SystemExit(9)\n")
    monkeypatch.setattr(Terminal, "program", (sys.executable, "-P", "-m", "playbook_supervisor"))
    with serving(users) as served, served.visitor() as visitor:
        attacked = Attacked(served, users, users)
        answer = attacked.answer(visitor)
        form = dict(httpx.QueryParams(answer.rpartition("\r\n")[2]))
        reply = served.post(visitor, answer.split(" ")[1], form)
        assert reply.headers["Location"].endswith("after=resumed")
        assert eventually(lambda: users.manifest()["status"] == "completed")
    assert not (users.root / "imported").exists()


def test_a_revoked_person_has_no_link_and_no_browser(users: Project) -> None:
    used, unused = register.invite(ADA, now()), register.invite(ADA, now())
    with serving(users) as served, served.client() as ada:
        assert served.enter(ada, used).status_code == 303
        assert users.playbook("inbox", "revoke", "ADA@example.org").code == 0
        assert ada.get("/").status_code == 401
        assert served.enter(ada, unused).status_code == 403
