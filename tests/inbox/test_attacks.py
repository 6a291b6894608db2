"""Attacks over HTTP: foreign names and sites, links, floods, slow and large requests, markup."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from html.parser import HTMLParser
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx
import pytest
from cli.scripts import GATED
from cli.terminal import Terminal
from support.scratch_project import Project

from playbook_supervisor.inbox.commands import register

from .serving import Served, serving

MEGABYTE = 1 << 20
IMPATIENT = (
    "from playbook_supervisor.inbox.web import limits; limits.SECONDS = 1.0; "
    "from playbook_supervisor.__main__ import main; raise SystemExit(main())"
)
"""The program, with less patience for slow requests."""


@pytest.fixture(scope="module")
def served(pristine: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("inbox")
    project = Project.copied(pristine, folder / "project", home=folder)  # type: ignore[arg-type]
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    assert project.playbook("run", "gated", "--agent", "exec:echo done").code == 4
    with serving(project) as served:
        yield served


@pytest.fixture(scope="module")
def visitor(served: Served) -> Iterator[httpx.Client]:
    with served.visitor() as visitor:
        yield visitor


@pytest.fixture
def impatient(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """An inbox that gives a request one second."""
    monkeypatch.setattr(Terminal, "program", (sys.executable, "-c", IMPATIENT))
    with serving(project) as served:
        yield served


def connected(served: Served, *, source: str = "127.0.0.1") -> socket.socket:
    parts = urlsplit(served.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), 30, (source, 0))


def sent(served: Served, *lines: str, body: bytes = b"") -> bytes:
    """The reply to a request of these lines; the connection is closed after it."""
    head = "\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1")
    with connected(served) as connection:
        connection.sendall(head + body)
        return received(connection)


def received(connection: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    data = b""
    try:
        while chunk := connection.recv(MEGABYTE):
            data += chunk
    except ConnectionResetError:
        pass
    return data


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


def host_of(served: Served) -> str:
    return urlsplit(served.url).netloc


def gate(visitor: httpx.Client) -> tuple[str, str]:
    """The address of the gate's page, and the state that it shows."""
    (path,) = set(re.findall(r'href="(/gate/[^"]+)"', visitor.get("/").text))
    page = visitor.get(path.replace("&amp;", "&"))
    (state,) = re.findall(r'name="state" value="(\w+)"', page.text)
    return path, state


def is_open(served: Served) -> bool:
    return "gate" in served.project.manifest()


# ── names and sites ─────────────────────────────────────────────────────────────────────────


def test_a_request_that_names_another_host_is_refused(served: Served) -> None:
    """DNS rebinding: a foreign name that leads to this machine."""
    port = urlsplit(served.url).port
    foreign = (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"[::1]:{port}",
        f"user@127.0.0.1:{port}",
        f"127.0.0.1:{port}, evil.example",
        "",
    )
    for host in foreign:
        reply = sent(served, "GET /style.css HTTP/1.1", f"Host: {host}")
        assert status(reply) == 421, (host, reply)
        assert b"This is not the inbox of that name" in reply


def test_its_own_names_are_served_in_any_case(served: Served) -> None:
    port = urlsplit(served.url).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}"):
        assert status(sent(served, "GET /style.css HTTP/1.1", f"Host: {host}")) == 200


def test_a_second_host_or_none_is_refused(served: Served) -> None:
    own = f"Host: {host_of(served)}"
    assert status(sent(served, "GET / HTTP/1.1", own, "Host: evil.example")) == 400
    assert status(sent(served, "GET / HTTP/1.1", "Host: evil.example", own)) == 400
    assert status(sent(served, "GET / HTTP/1.1")) == 400
    assert status(sent(served, "GET / HTTP/1.0")) == 421


def test_a_request_target_with_a_host_leads_nowhere(served: Served) -> None:
    own = host_of(served)
    assert status(sent(served, f"GET http://{own}/style.css HTTP/1.1", "Host: evil")) == 421
    assert status(sent(served, "GET http://evil/style.css HTTP/1.1", f"Host: {own}")) == 404
    assert status(sent(served, f"GET http://{own}/style.css HTTP/1.1", f"Host: {own}")) == 404


def test_a_form_of_another_site_is_refused(served: Served, visitor: httpx.Client) -> None:
    """Also of another port of this machine, for which browsers send our cookie along."""
    path, state = gate(visitor)
    port = urlsplit(served.url).port
    form = {"choice": "continue", "words": "", "state": state}
    foreign: tuple[dict[str, str], ...] = (
        {},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://evil.example"},
        {"Origin": f"https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": f"http://localhost:{port}"},  # a page of ours, but the request names the other
        {"Origin": f"{served.url}/"},
        {"Origin": f"{served.url}.evil.example"},
        {"Referer": f"{served.url}/"},
        {"Origin": served.url, "Sec-Fetch-Site": "cross-site"},
        {"Origin": served.url, "Sec-Fetch-Site": "same-site"},
        {"Origin": served.url, "Sec-Fetch-Site": "none"},
    )
    for headers in foreign:
        for address in (path, "/enter"):
            refused = visitor.post(address, data=form, headers=headers)
            assert refused.status_code == 403, headers
            assert refused.text == "This form is not from a page of the inbox.\n"
    assert is_open(served)


def test_a_form_must_be_one_of_html(served: Served, visitor: httpx.Client) -> None:
    path, _ = gate(visitor)
    headers = {"Origin": served.url}
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        refused = visitor.post(path, content=b"{}", headers={**headers, "Content-Type": kind})
        assert refused.status_code == 415, kind


# ── replies ─────────────────────────────────────────────────────────────────────────────────


def test_every_reply_carries_the_strict_headers(served: Served, visitor: httpx.Client) -> None:
    path, _ = gate(visitor)
    addresses = ("/", path, path.replace("/gate/", "/session/"), "/enter?token=x", "/nothing")
    with served.client() as stranger:
        replies = [client.get(each) for client in (visitor, stranger) for each in addresses]
        replies.append(stranger.post("/enter", data={"token": "x"}))
        replies.append(stranger.request("PUT", "/"))
        replies.append(stranger.get("/", headers={"Host": "evil.example"}))
    for reply in replies:
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["X-Frame-Options"] == "DENY"
        assert reply.headers["Cache-Control"] == "no-store"
        assert "server" not in reply.headers
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_the_page_of_a_link_sends_its_token_to_no_one(served: Served) -> None:
    """`strict-origin`: what the page loads does not learn its address."""
    with served.client() as client:
        page = client.get(served.link())
    assert page.headers["Referrer-Policy"] == "strict-origin"
    assert not re.search(r'(?:href|src|action)="[^"]*token', page.text)
    assert not re.search(r'(?:href|src|action)="(?:\w+:)?//', page.text)


@pytest.mark.measured
def test_what_is_wrong_with_requests_is_not_printed(project: Project) -> None:
    """Strangers cannot fill the terminal, and nothing that they send is shown there."""
    with serving(project) as served:
        own = f"Host: {host_of(served)}"
        for line in ("\x1b[2Jnonsense", "GET / HTTP/1.1\r\nUpgrade: websocket", "GET"):
            sent(served, line, own)
        with served.client() as client:
            client.get("/enter?token=guessed", headers={b"User-Agent": b"\x9b31mevil"})
    shown = served.terminal.shown
    assert not [word for word in ("Invalid", "WebSocket", "guessed", "evil") if word in shown]


# ── links and cookies ───────────────────────────────────────────────────────────────────────


def test_a_guessed_link_is_refused(served: Served) -> None:
    _, _, token = served.link().partition("token=")
    guesses = ("", "x", token[:-1], f"{token}x", f" {token}", token.swapcase(), "-", "é", "\0")
    with served.client() as client:
        for guess in guesses:
            assert served.enter(client, guess).status_code == 403, guess
            assert client.get("/enter", params={"token": guess}).status_code == 403, guess
        assert served.post(client, "/enter", {"x": ""}).status_code == 403
        assert client.get("/").status_code == 401
        assert client.get(served.link()).status_code == 200


def test_a_link_that_a_program_has_previewed_still_works_once(project: Project) -> None:
    with serving(project) as served, served.client() as preview, served.client() as client:
        _, _, token = served.link().partition("token=")
        for method in ("HEAD", "GET", "GET"):
            assert preview.request(method, served.link()).status_code == 200
        entered = served.enter(client, token)
        assert entered.status_code == 303
        cookie = entered.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert token not in cookie
        assert client.get("/").status_code == 200
        assert served.enter(preview, token).status_code == 403, "it was used"
        assert preview.get("/").status_code == 401


def test_of_browsers_that_use_a_link_at_once_one_comes_in(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.home))
    invitation = register.invite("Ada <ada@example.org>", time.time_ns() // 1_000_000)
    with serving(project) as served:
        for token in (served.link().partition("token=")[2], invitation):

            def enter(_: int, token: str = token) -> int:
                with served.client() as client:
                    return served.enter(client, token).status_code

            with ThreadPoolExecutor(8) as threads:
                codes = sorted(threads.map(enter, range(8)))
            assert codes == [303, *[403] * 7]


def test_cookies_of_no_one_are_no_one(served: Served) -> None:
    name = f"playbook-inbox-{urlsplit(served.url).port}"
    values = ("", "x", '"\\400"', "\xe9", "a" * 8000, "=;=;", "\x01")
    for value in values:
        own = f"Host: {host_of(served)}"
        reply = sent(served, "GET / HTTP/1.1", own, f"Cookie: {name}={value}")
        assert status(reply) in (400, 401), value


# ── floods ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.measured
def test_two_thousand_wrong_tokens_are_refused_and_others_are_served(project: Project) -> None:
    """Most are not even looked at, whatever cookies come with them."""
    with serving(project) as served:
        own = served.visitor()
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.9")
        began = time.monotonic()
        codes: list[int] = []

        def guess(part: int) -> None:
            connection = HTTPConnection(host_of(served), timeout=60)
            headers = {"Origin": served.url, "Content-Type": "application/x-www-form-urlencoded"}
            with closing(connection):
                for number in range(500):
                    cookie = {"Cookie": f"playbook-inbox-{part}={number}"}
                    body = f"token={part}-{number}"
                    connection.request("POST", "/enter", body, {**headers, **cookie})
                    with connection.getresponse() as reply:
                        reply.read()
                    codes.append(reply.status)

        threads = [threading.Thread(target=guess, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        slowest = 0.0
        with own, served.client(transport=elsewhere) as other:
            while any(thread.is_alive() for thread in threads):
                asked = time.monotonic()
                assert own.get("/").status_code == 200
                assert other.get(served.link()).status_code == 200
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(0.2)
            took = time.monotonic() - began
            assert served.enter(other, served.link().partition("token=")[2]).status_code == 303
            assert other.get("/").status_code == 200
    assert len(codes) == 2_000
    assert set(codes) == {403, 429}
    # As many as a client may send at once, and those that it may send each second.
    assert codes.count(403) <= 120 + 30 * (took + 1)
    assert slowest < 10


def test_hundreds_of_idle_connections_keep_no_one_out(impatient: Served) -> None:
    idle = [connected(impatient) for _ in range(400)]
    with impatient.client() as client:
        assert client.get(impatient.link()).status_code == 200
    for connection in idle:
        with connection:
            connection.settimeout(20)
            assert received(connection) == b"", "it was closed"


# ── size ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_large_request_is_refused_unread(served: Served, method: str) -> None:
    head = (f"{method} /enter HTTP/1.1", f"Host: {host_of(served)}", f"Origin: {served.url}")
    form = "Content-Type: application/x-www-form-urlencoded"
    for length, code in (
        (f"Content-Length: {100 * MEGABYTE}", 413),
        ("Transfer-Encoding: chunked", 411),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked", 411),
    ):
        expected = 405 if method == "PUT" else code
        reply = sent(served, *head, form, length)
        assert status(reply) == expected, (length, reply)
        assert b"\r\nconnection: close" in reply.lower()
        assert taken(served, *head, form, length) < 40 * MEGABYTE


def taken(served: Served, *lines: str) -> int:
    """How many bytes of 100 MB can be sent, including those that only the system has taken."""
    with connected(served) as connection:
        connection.sendall("\r\n".join((*lines, "", "")).encode())
        chunk, total = b"10000\r\n" + bytes(1 << 16) + b"\r\n", 0
        try:
            while total < 100 * MEGABYTE:
                connection.sendall(chunk)
                total += len(chunk)
        except OSError:
            pass
        return total


def test_a_form_has_a_limit_of_size_and_of_fields(served: Served, visitor: httpx.Client) -> None:
    path, state = gate(visitor)
    long = {"choice": "continue", "words": "a" * MEGABYTE, "state": state}
    assert served.post(visitor, path, long).status_code == 413
    many = {f"field-{number}": "" for number in range(200)}
    assert served.post(visitor, path, {"state": state, **many}).status_code == 400
    headers = {"Origin": served.url, "Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"\xff\xfe", b"choice=\xed\xa0\x80"):
        assert visitor.post(path, content=body, headers=headers).status_code == 400
    assert is_open(served)


# ── slowness ────────────────────────────────────────────────────────────────────────────────


def trickle(served: Served, start: bytes, *, pause: float) -> bytes:
    """Send a byte after each pause, until the other end closes; its reply."""
    with connected(served) as connection:
        connection.sendall(start)
        connection.settimeout(pause)
        reply = b""
        with suppress(OSError):
            while True:
                try:
                    if not (chunk := connection.recv(1 << 16)):
                        break
                    reply += chunk
                except TimeoutError:
                    connection.sendall(b"a")
    return reply


def slow_requests(served: Served) -> dict[str, bytes]:
    own = f"Host: {host_of(served)}\r\n".encode()
    form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 5000\r\n\r\n"
    origin = f"Origin: {served.url}\r\n".encode()
    return {
        "nothing": b"",
        "a header": b"GET / HTTP/1.1\r\n" + own + b"X: ",
        "a form": b"POST /enter HTTP/1.1\r\n" + own + origin + form + b"token=",
        "the next header": b"GET /style.css HTTP/1.1\r\n" + own + b"\r\nGET / HTTP/1.1\r\nX: ",
        "a form that no page takes": b"POST /style.css HTTP/1.1\r\n" + own + form,
    }


@pytest.mark.measured
def test_slow_requests_are_cut_off_while_others_are_served(impatient: Served) -> None:
    requests = slow_requests(impatient)
    with ThreadPoolExecutor(len(requests)) as threads, impatient.client() as client:
        slow = [threads.submit(trickle, impatient, start, pause=0.1) for start in requests.values()]
        while not all(each.done() for each in slow):
            assert client.get("/style.css").status_code == 200
            time.sleep(0.1)
    for name, each in zip(requests, slow, strict=True):
        assert name != "a form" or status(each.result()) == 408


# ── paths, methods and framing ──────────────────────────────────────────────────────────────


def test_no_path_leads_to_a_file(served: Served, visitor: httpx.Client) -> None:
    path, _ = gate(visitor)
    _, _, key, _ = path.split("/")
    (cookie,) = (f"{name}={value}" for name, value in visitor.cookies.items())
    paths = (
        "/../../../../etc/passwd",
        "/style.css/../../pyproject.toml",
        "/style.css%00",
        f"/gate/{key}/..",
        f"/gate/{key}/../../x",
        f"/gate/{key}/..%2f..%2fconfig.yaml",
        "/session/%2e%2e/%2e%2e",
        "/" + "a" * 10_000,
        "/%ff%fe",
        "/layout.html",
        "/live.js/",
        "*",
    )
    for each in paths:
        reply = sent(
            served, f"GET {each} HTTP/1.1", f"Host: {host_of(served)}", f"Cookie: {cookie}"
        )
        assert status(reply) in (307, 400, 404), (each, reply)
        assert b"root:" not in reply
        assert b"evil" not in reply


def test_no_redirect_leaves_the_site(served: Served) -> None:
    for path in ("//evil.example/", "/\\evil.example/", "/gate/..//evil.example/", "/enter/?a=//b"):
        reply = sent(served, f"GET {path} HTTP/1.1", f"Host: {host_of(served)}")
        for location in re.findall(rb"(?i)\r\nlocation: (.*?)\r\n", reply):
            assert location.decode().startswith(f"{served.url}/"), path


@pytest.mark.parametrize("method", ["TRACE", "PUT", "X"])
def test_other_methods_are_refused(served: Served, method: str) -> None:
    secret = "X-Secret: of-the-sender"
    reply = sent(served, f"{method} / HTTP/1.1", f"Host: {host_of(served)}", secret)
    assert status(reply) == 405
    assert b"of-the-sender" not in reply


def test_a_websocket_is_not_opened(served: Served) -> None:
    for upgrade in (
        ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eHg="),
        ("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
    ):
        reply = sent(served, "GET /events HTTP/1.1", f"Host: {host_of(served)}", *upgrade)
        assert status(reply) == 401


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: -1",
        f"Content-Length: {'9' * 5000}",
        "Content-Length: 5, 6",
    ],
)
def test_a_request_with_two_ends_is_refused(served: Served, framing: str) -> None:
    """Smuggling: what follows the refused request is not answered as a second one."""
    hidden = f"GET /style.css HTTP/1.1\r\nHost: {host_of(served)}\r\n\r\n"
    head = ("POST /enter HTTP/1.1", f"Host: {host_of(served)}", f"Origin: {served.url}", framing)
    reply = sent(served, *head, body=f"0\r\n\r\n{hidden}".encode())
    assert status(reply) in (400, 411, 413, 501)
    assert reply.count(b"HTTP/1.1 ") == 1


# ── forms of a person that were changed ─────────────────────────────────────────────────────


def test_hostile_fields_decide_nothing(served: Served, visitor: httpx.Client) -> None:
    path, state = gate(visitor)
    page, _, _ = path.partition("?")
    fine = {"choice": "continue", "words": "", "state": state}
    forms = (
        {**fine, "choice": "destroy"},
        {**fine, "choice": ""},
        {**fine, "choice": "\0"},
        {**fine, "choice": "--session x continue"},
        {**fine, "choice": "allow"},
        {**fine, "choice": "answer"},
        {**fine, "choice": ["destroy", "continue"]},
        {**fine, "state": ""},
        {**fine, "state": "0" * 32},
        {**fine, "state": [state, state]},
        {"choice": "continue"},
        {"x": ""},
    )
    for form in forms:
        refused = visitor.post(path, data=form, headers={"Origin": served.url})
        assert refused.status_code in (409, 422), form
    for other in ("publish%231%3F2", "x%231%3F1", "%3Cscript%3E", "a" * 9_000, ""):
        refused = served.post(visitor, f"{page}?id={other}", fine)
        assert refused.status_code == 409, other
        assert "<script>" not in refused.text
    assert served.post(visitor, page, fine).status_code == 409
    assert is_open(served)


def test_an_event_stream_is_for_known_browsers(served: Served, visitor: httpx.Client) -> None:
    with served.client() as stranger:
        assert stranger.get("/events").status_code == 401
    with visitor.stream("GET", "/events") as events:
        assert events.headers["Content-Type"].startswith("text/event-stream")
        assert next(events.iter_text()).startswith("retry:")


# ── words of agents ─────────────────────────────────────────────────────────────────────────

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b a='"
CONTROL = "\x1b]0;owned\x07\x1b[31m\x9b1m\x08\u202eevil\u2066\u2028"
HOSTILE = f"{CONTROL}{MARKUP}{{% raw %}}{{#`</code>`"
OUR_TAGS = """
html head meta title link script style body nav a span p main h1 h2 h3 ul li section strong small
form input label textarea button div details summary pre code table thead tbody tr th td dl dt dd
article header footer blockquote svg desc line text foreignobject rect fieldset legend br hr em
"""


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self.scripts: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in OUR_TAGS.split() or any(name.startswith("on") for name in given):
            self.foreign.append(self.get_starttag_text() or tag)
        for name in ("href", "src", "action", "formaction"):
            value = given.get(name) or "/"
            if not value.startswith(("/", "#")) or value.startswith("//"):
                self.foreign.append(value)
        if tag == "script":
            self.scripts.append(given.get("src"))


def assert_harmless(page: str) -> None:
    tags = Tags(page)
    assert not tags.foreign
    assert set(tags.scripts) <= {"/live.js"}
    assert page.count("<script") == len(tags.scripts) <= 1
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", page)


BOOK = """\
name: NAME
description: DESCRIBED
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: gate}
steps:
  - {id: build, command: /do.build, title: DESCRIBED}
"""


def hostile(project: Project, name: str, action: str) -> None:
    """Run a playbook whose agent says, writes and asks what is hostile, until its gate opens."""
    quoted = '"' + "".join(f"\\U{ord(each):08x}" for each in HOSTILE) + '"'
    described = '"' + "".join(f"\\U{ord(each):08x}" for each in MARKUP) + '"'
    book = BOOK.replace("NAME", name).replace("DESCRIBED", described)
    project.write(f".playbooks/playbooks/{name}.yaml", book)
    project.write(".claude/commands/do.build.md", "Do it.\n")
    agent = project.script(f"steps:\n  build: {action.replace('HOSTILE', quoted)}\n")
    done = project.playbook("run", name, "--agent", agent)
    assert done.code == 4, done.err


@pytest.mark.parametrize(
    "action",
    [
        "{say: [HOSTILE], fail: HOSTILE}",
        "{ask: {question: [{question: HOSTILE, options: [{label: HOSTILE, description: HOSTILE},"
        " b]}]}}",
        "{ask: {permission: {tool: HOSTILE, input: {command: HOSTILE, description: HOSTILE}}}}",
    ],
    ids=["an error", "a question", "a permission"],
)
def test_markup_and_control_characters_of_agents_are_escaped(project: Project, action: str) -> None:
    folder = "changed <img src=x onerror=alert(3)> \u202e\x1b[31m"
    project.git("branch", "-m", "x<svg/onload=alert(4)>")
    project.write("README.md", f"{HOSTILE}\n")
    hostile(project, "own", action)
    (project.root / folder).mkdir()
    (project.root / folder / "<script>.py").write_text(f"{HOSTILE}\n")
    (project.root / os.fsdecode(b"bad \xff name")).write_bytes(b"\xff\xfe<b>\n")
    with serving(project) as served, served.visitor() as visitor:
        pages = [visitor.get("/").text]
        (path,) = set(re.findall(r'href="(/gate/[^"]+)"', pages[0]))
        session = re.sub("^/gate/([^?]+).*", r"/session/\1", path)
        pages += [visitor.get(path).text, visitor.get(session).text]
        form = {"choice": HOSTILE, "words": f"{HOSTILE}\0", "state": HOSTILE}
        pages.append(served.post(visitor, path, form).text)
        pages.append(visitor.get(f"{session}?id={MARKUP}&after={MARKUP}").text)
        pages.append(visitor.get(f"{path.partition('?')[0]}?id={HOSTILE!r}").text)
        crossed = {"Sec-Fetch-Site": "cross-site"}
        with served.client() as stranger:
            pages.append(stranger.get("/enter", params={"token": HOSTILE}).text)
            pages.append(stranger.get(f"{session}?q={MARKUP}", headers=crossed).text)
            pages.append(stranger.get(f"/gate/{MARKUP}/x?{MARKUP}", headers=crossed).text)
    for page in pages:
        assert_harmless(page)
    assert "&lt;script&gt;alert(1)" in pages[1], "it is shown, as text"
