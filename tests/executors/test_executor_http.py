"""`http` steps send one request and keep the answer (tyr 15)."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.controlled_time import eventually
from support.task_run import Bench
from support.task_run import task as any_task
from support.web_server import Handle, Request, Site, served

from playbook_supervisor.executors import http
from playbook_supervisor.executors.http import HttpExecutor
from playbook_supervisor.executors.protocol import Task
from playbook_supervisor.kernel.vocabulary import OutputFormat
from playbook_supervisor.project.expressions.json_schemas import flaw, mismatch
from playbook_supervisor.project.settings.config import Bounds, Config

HTTP = HttpExecutor()
SECRET = "s3cr3t-t0ken"


@pytest.fixture
def site() -> Iterator[Site]:
    with served({"/": lambda request: request.answer("hello\n", X_From="test")}) as site:
        yield site


def task(*words: str, stdin: str = "", json_output: bool = False, **options: Any) -> Task:
    output = OutputFormat.JSON if json_output else OutputFormat.TEXT
    return any_task(*words, namespace="http", options=options, stdin=stdin, output=output)


def to(page: Handle, site: Site) -> str:
    """The URL of a page that does this."""
    site.pages["/page"] = page
    return f"{site.url}/page"


class TestARequest:
    def test_the_body_of_the_answer_is_the_output(self, bench: Bench, site: Site) -> None:
        outcome = bench.outcome(HTTP, task("GET", site.url))
        assert outcome.ok
        assert outcome.output == "hello\n"
        assert bench.shown == ["200 OK, 6 bytes", "hello"]

    def test_it_says_who_asks_and_asks_for_plain_content(self, bench: Bench, site: Site) -> None:
        bench.outcome(HTTP, task("get", site.url))
        headers = site.requests[0].headers
        assert headers["User-Agent"].startswith("playbook-supervisor/")
        assert headers["Accept-Encoding"] == "identity"
        assert "Content-Length" not in headers

    def test_the_step_s_headers_are_sent(self, bench: Bench, site: Site) -> None:
        bench.outcome(HTTP, task("GET", site.url, headers={"X-Trace": "7", "User-Agent": "ours"}))
        headers = site.requests[0].headers
        assert (headers["X-Trace"], headers["User-Agent"]) == ("7", "ours")

    def test_json_is_sent_as_json(self, bench: Bench, site: Site) -> None:
        bench.outcome(HTTP, task("POST", site.url, json={"title": "Grüße", "tags": [1, None]}))
        request = site.requests[0]
        assert json.loads(request.body) == {"title": "Grüße", "tags": [1, None]}
        assert request.headers["Content-Type"] == "application/json"

    def test_the_output_of_an_earlier_step_is_sent(self, bench: Bench, site: Site) -> None:
        bench.outcome(HTTP, task("POST", site.url, stdin="# Report"))
        assert site.requests[0].body == b"# Report"


class TestTheStatus:
    @pytest.mark.parametrize(
        ("expected", "status"), [(204, 204), ([200, "5xx"], 503), ("3XX", 302)]
    )
    def test_is_as_the_step_expects(
        self, expected: Any, status: int, bench: Bench, site: Site
    ) -> None:
        url = to(lambda request: request.answer(status=status, Location="/"), site)
        assert bench.outcome(HTTP, task("GET", url, expect_status=expected)).ok
        assert len(site.requests) == 1  # an expected redirect is not followed

    def test_any_other_fails_with_the_answer(self, bench: Bench, site: Site) -> None:
        url = to(lambda request: request.answer("\n  no such issue\nmore", status=404), site)
        outcome = bench.outcome(HTTP, task("GET", f"{url}?key=private"))
        assert outcome.error is not None
        assert outcome.error.code == "PB-STEP-HTTP"
        assert outcome.error.message == (f"GET {url} answers 404 Not Found, not 2xx: no such issue")
        assert outcome.error.guidance
        assert outcome.output == "\n  no such issue\nmore"


class TestAnUnusableRequest:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("GET",), "`http` takes a method and a URL, not 1 words"),
            (("GTE", "http://localhost/"), "there is no method 'GTE'; did you mean GET?"),
            (("GET", "localhost/path"), "'localhost/path' is not a URL of http or https"),
            (("GET", "http://localhost:x/"), "'http://localhost:x/' is not a URL: Invalid port"),
            (("GET", "http://localhost/a\r\nX: y"), "is not a URL: Invalid non-printable"),
        ],
    )
    def test_is_refused(self, words: tuple[str, ...], message: str, bench: Bench) -> None:
        error = bench.error(HTTP, task(*words))
        assert error.code == "PB-STEP-INPUT"
        assert message in error.message
        assert error.lasts

    def test_credentials_in_the_url_are_refused_and_not_repeated(self, bench: Bench) -> None:
        error = bench.error(HTTP, task("GET", f"http://me:{SECRET}@localhost:9/"))
        assert error.code == "PB-STEP-INPUT"
        assert "{{secret:NAME}}" in error.message
        assert SECRET not in str(error)

    @pytest.mark.parametrize(
        ("headers", "message"),
        [
            ({"X-A": "a\r\nX-Admin: yes"}, "the value of the header X-A is not one line"),
            ({"X-A": f"{SECRET}\x00"}, "the value of the header X-A is not one line"),
            ({"X-A\nHost": "a"}, "is not the name of a header"),
            ({"transfer-encoding": "chunked"}, "the header transfer-encoding cannot be set"),
        ],
    )
    def test_no_header_changes_the_request(
        self, headers: dict[str, str], message: str, bench: Bench, site: Site
    ) -> None:
        error = bench.error(HTTP, task("GET", site.url, headers=headers))
        assert error.code == "PB-STEP-INPUT"
        assert message in error.message
        assert SECRET not in error.message
        assert not site.requests

    def test_two_bodies_are_refused(self, bench: Bench, site: Site) -> None:
        error = bench.error(HTTP, task("POST", site.url, stdin="earlier", body="text"))
        assert error.message == "the step has both `stdin` and `with.body` to send"
        assert not site.requests


class TestBounds:
    @pytest.mark.parametrize(
        ("config", "why"),
        [
            (Config(deny=Bounds(http=("local*",))), "`deny.http`"),
            (Config(allow=Bounds(http=("api.example.com",))), "`allow.http`"),
        ],
    )
    def test_a_host_that_is_not_allowed_receives_nothing(
        self, config: Config, why: str, bench: Bench, site: Site
    ) -> None:
        """tyr 27, however the address is written."""
        error = bench.error(HTTP, task("GET", site.url.upper()), bench.context(config))
        assert error.code == "PB-POLICY-DENIED"
        assert why in error.message
        assert not site.requests

    def test_an_allowed_host_may_not_send_us_to_another(self, bench: Bench, site: Site) -> None:
        with served({"/": lambda request: request.answer("inside")}) as inside:
            elsewhere = f"http://127.0.0.1:{inside.server_port}/"
            url = to(lambda request: request.redirect(elsewhere), site)
            config = Config(allow=Bounds(http=("localhost",)))
            error = bench.error(HTTP, task("GET", url), bench.context(config))
            assert error.code == "PB-POLICY-DENIED"
            assert "127.0.0.1" in error.message
            assert not inside.requests


class TestRedirects:
    def test_are_followed_and_shown(self, bench: Bench, site: Site) -> None:
        url = to(lambda request: request.redirect("/"), site)
        assert bench.outcome(HTTP, task("GET", url)).output == "hello\n"
        assert bench.shown[0] == f"302 Found → {site.url}/"

    @pytest.mark.parametrize(
        ("status", "method", "body"), [(303, "GET", b""), (307, "POST", b"{}")]
    )
    def test_keep_method_and_body_as_the_status_says(
        self, status: int, method: str, body: bytes, bench: Bench, site: Site
    ) -> None:
        url = to(lambda request: request.redirect("/", status), site)
        bench.outcome(HTTP, task("POST", url, body="{}"))
        assert (site.requests[1].command, site.requests[1].body) == (method, body)

    def test_five_are_followed_and_no_more(self, bench: Bench, site: Site) -> None:
        def hop(request: Request) -> None:
            left = int(request.path.partition("?")[2])
            request.redirect(f"/page?{left - 1}" if left > 1 else "/")

        url = to(hop, site)
        assert bench.outcome(HTTP, task("GET", f"{url}?5")).ok
        error = bench.error(HTTP, task("GET", f"{url}?6"))
        assert error.code == "PB-STEP-HTTP"
        assert error.message.endswith("redirects more than 5 times")

    def test_secrets_do_not_go_to_another_origin(self, bench: Bench, site: Site) -> None:
        with served({"/": lambda request: request.answer("there")}) as other:
            url = to(lambda request: request.redirect(other.url), site)
            headers = {"Authorization": SECRET, "X-Api-Key": SECRET, "Accept": "text/plain"}
            assert bench.outcome(HTTP, task("GET", url, headers=headers)).output == "there"
            assert site.requests[0].headers["X-Api-Key"] == SECRET
            there = other.requests[0].headers
            assert SECRET not in str(there)
            assert there["Accept"] == "text/plain"

    @pytest.mark.parametrize(
        ("target", "code"),
        [
            ("http://me:word@localhost/", "PB-STEP-INPUT"),
            ("http://localhost:x/", "PB-STEP-NETWORK"),
        ],
    )
    def test_to_what_we_refuse_are_refused(
        self, target: str, code: str, bench: Bench, site: Site
    ) -> None:
        url = to(lambda request: request.redirect(target), site)
        assert bench.error(HTTP, task("GET", url)).code == code


class TestTls:
    @pytest.fixture
    def secure(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
        authority = trustme.CA()
        trusted = tmp_path / "authority.pem"
        authority.cert_pem.write_to_path(trusted)
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        ours = authority.issue_cert("localhost")
        with served({"/": lambda request: request.answer("safe")}, ours.configure_cert) as site:
            yield site

    def test_a_trusted_certificate_is_accepted(self, bench: Bench, secure: Site) -> None:
        assert bench.outcome(HTTP, task("GET", secure.url)).output == "safe"

    def test_any_other_is_not(
        self, bench: Bench, secure: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SSL_CERT_FILE")
        error = bench.error(HTTP, task("GET", secure.url))
        assert error.code == "PB-STEP-NETWORK"
        assert "certificate verify failed" in error.message
        assert not secure.requests

    def test_authorities_that_cannot_be_read_are_named(
        self, bench: Bench, secure: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", "missing.pem")
        error = bench.error(HTTP, task("GET", secure.url))
        assert error.code == "PB-STEP-INPUT"
        assert error.message.startswith("the certificates of SSL_CERT_FILE cannot be read: ")

    def test_a_redirect_never_leaves_it(self, bench: Bench, secure: Site, site: Site) -> None:
        secure.pages["/"] = lambda request: request.redirect(site.url)
        error = bench.error(HTTP, task("GET", secure.url))
        assert error.code == "PB-STEP-HTTP"
        assert error.message == f"GET {secure.url}/ redirects to {site.url}/, unsafely"
        assert not site.requests


class TestAnAnswer:
    def test_over_the_cap_is_cut_and_the_rest_not_read(self, bench: Bench, site: Site) -> None:
        ended = threading.Event()

        def flood(request: Request) -> None:
            request.send_response(200)
            request.end_headers()
            while request.write(b"A" * 65536):
                pass
            ended.set()

        outcome = bench.outcome(HTTP, task("GET", to(flood, site)), bench.context(cap=5_000))
        assert outcome.ok
        assert outcome.output.endswith("A\n[… the rest was not read …]")
        assert len(outcome.output.encode()) == 5_000
        assert ended.wait(5)

    @pytest.mark.parametrize(
        ("kind", "body", "text"),
        [
            ("text/plain; charset=latin-1", b"gr\xfc\xdfe", "grüße"),
            ("text/plain", b"gr\xfc\xdfe", "gr\ufffd\ufffde"),
            ("text/plain; charset=rot13", b"hello", "hello"),
            ("text/plain; charset=no-such", b"hello", "hello"),
            ("text/plain; charset=utf-7", b"+AGEAYg-", "+AGEAYg-"),
        ],
    )
    def test_is_decoded_as_it_says(
        self, kind: str, body: bytes, text: str, bench: Bench, site: Site
    ) -> None:
        url = to(lambda request: request.answer(body, Content_Type=kind), site)
        assert bench.outcome(HTTP, task("GET", url)).output == text

    def test_that_is_compressed_is_refused(self, bench: Bench, site: Site) -> None:
        url = to(lambda request: request.answer(b"\x1f\x8b", Content_Encoding="gzip, gzip"), site)
        error = bench.error(HTTP, task("GET", url))
        assert error.code == "PB-STEP-HTTP"
        assert "answers in gzip, gzip" in error.message


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a server whose queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as waiting:
        for _ in range(4):
            line = waiting.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


class TestNoAnswer:
    def test_a_refused_connection(self, bench: Bench) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        error = bench.error(HTTP, task("GET", f"http://127.0.0.1:{port}/health"))
        assert error.code == "PB-STEP-NETWORK"
        place = f"http://127.0.0.1:{port}/health"
        assert error.message == f"{place} cannot be reached: Connection refused"

    @pytest.mark.parametrize(
        "said", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]
    )
    def test_a_connection_that_breaks(self, said: bytes, bench: Bench, site: Site) -> None:
        def hang_up(request: Request) -> None:
            request.write(said)
            request.close_connection = True

        error = bench.error(HTTP, task("GET", to(hang_up, site)))
        assert error.code == "PB-STEP-NETWORK"
        assert error.message.startswith(f"the connection to {site.url}/page failed: ")

    def test_a_host_that_does_not_take_connections(
        self, bench: Bench, deaf: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "CONNECT", 0.2)
        error = bench.error(HTTP, task("GET", deaf))
        assert error.code == "PB-STEP-NETWORK"
        assert error.message == f"{deaf}/ cannot be reached: no connection within 0.2 s"

    def test_the_proxy_of_the_environment_is_not_asked(
        self, bench: Bench, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "")
        assert bench.outcome(HTTP, task("GET", site.url)).ok


class TestAnEnd:
    """A server may take its time in many ways; deadline and stop end each of them."""

    @staticmethod
    def silent(request: Request) -> None:
        request.rfile.read(1)

    @staticmethod
    def dripping(request: Request) -> None:
        request.send_response(200)
        request.end_headers()
        while request.write(b"."):
            time.sleep(0.05)

    @pytest.mark.parametrize("page", [dripping])
    def test_at_the_deadline(self, page: Handle, bench: Bench, site: Site) -> None:
        error = bench.error(HTTP, task("GET", to(page, site)), bench.context(wall=0.5))
        assert error.code == "PB-STEP-TIMEOUT"

    @pytest.mark.parametrize("page", [silent])
    def test_when_it_is_stopped(self, page: Handle, bench: Bench, site: Site) -> None:
        context = bench.context()
        closed = threading.Event()

        def watched(request: Request) -> None:
            page(request)
            closed.set()

        def stop() -> None:
            eventually(lambda: bool(site.requests))
            context.stop()

        url = to(watched, site)
        stopper = threading.Thread(target=stop)
        stopper.start()
        error = bench.error(HTTP, task("GET", url), context)
        stopper.join()
        assert error.code == "PB-STEP-CRASHED"
        assert closed.wait(60)

    def test_during_the_handshake(self, bench: Bench) -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            url = f"https://127.0.0.1:{mute.getsockname()[1]}/"
            error = bench.error(HTTP, task("GET", url), bench.context(wall=0.5))
            assert error.code == "PB-STEP-TIMEOUT"

    def test_when_nothing_is_sent_for_long(self, bench: Bench, site: Site) -> None:
        url = to(self.silent, site)
        error = bench.error(HTTP, task("GET", url), bench.context(wall=60, idle=0.3))
        assert (error.code, error.message) == ("PB-STEP-TIMEOUT", f"{url} sent nothing for 0.3 s")


class TestItsSchema:
    @pytest.mark.parametrize(
        ("given", "fits"),
        [
            ({"headers": {"X-A": "a"}, "json": [1], "expect_status": 201}, True),
            ({"body": "text", "expect_status": ["2xx", 404, "410"]}, True),
            ({"json": {}, "body": ""}, False),
            ({"headers": {"X A": "a"}}, False),
            ({"expect_status": "6xx"}, False),
            ({"expect_status": []}, False),
            ({"timeout": 1}, False),
        ],
    )
    def test_says_what_with_may_contain(self, given: dict[str, Any], fits: bool) -> None:
        assert flaw(HTTP.with_schema) == ""
        assert (mismatch(given, HTTP.with_schema) == "") is fits
