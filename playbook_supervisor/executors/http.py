"""`http METHOD URL`: one request, and the answer to it.

A value that could change the request around it is refused. Hosts are checked against `allow` and
`deny` before anything is sent, those of redirects, too. Nothing is taken from the environment but
the certificates to trust (`SSL_CERT_FILE`, `SSL_CERT_DIR`): no proxy, no `.netrc`.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx

from playbook_supervisor import __version__
from playbook_supervisor.errors import StepError
from playbook_supervisor.executors.protocol import (
    Context,
    Project,
    Stopped,
    Task,
    failed,
    input_error,
)
from playbook_supervisor.formats.sanitize import first_line, one_line, suggestion
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.vocabulary import OutputFormat
from playbook_supervisor.project.expressions.references import is_known, with_any_values
from playbook_supervisor.project.settings.bounds import admit_host
from playbook_supervisor.project.settings.config import Config

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REDIRECTS = 5
"""The most redirects that are followed."""
MARK = "\n[… the rest was not read …]"
CONNECT = 10.0
"""Seconds within which a connection must be made, unless the deadline is sooner."""

_TRUSTED = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_HARMLESS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""The step's headers that another origin may see."""
_ORIGIN = r"(?:[^:/?#]*://)?[^/?#]*"
_NUMBER = r"^\[Errno -?\d+\] "
_TEXT = r"utf|ascii|iso8859|cp\d|mac|koi8|big5|gb|euc|shift|hz|johab"  # what codecs calls charsets
_STATUSES = (
    {"type": "string", "pattern": r"^[1-5](?:[0-9]{2}|[xX]{2})$"},
    {"type": "integer", "minimum": 100, "maximum": 599},
)
_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # a token (RFC 9110)
_VALUE = r"[\x20-\x7e\t]*"
_FRAMING = """
accept-encoding connection content-length expect host keep-alive proxy-authorization
proxy-connection te trailer transfer-encoding upgrade
"""
_OURS = frozenset(_FRAMING.split())
"""Headers that decide where a request goes and where it ends."""


class HttpExecutor:
    """Sends a request with httpx; conforms to `Executor`."""

    namespace = "http"
    with_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "headers": {
                "type": "object",
                "propertyNames": {"pattern": f"^{_NAME}$"},
                "additionalProperties": {"type": "string"},
                "description": "Name → text, in which `{{secret:NAME}}` may stand.",
            },
            "json": {"description": "Sent as JSON."},
            "body": {
                "type": "string",
                "description": "Sent as it is; the step's stdin by default.",
            },
            "expect_status": {
                "anyOf": [
                    *_STATUSES,
                    {"type": "array", "items": {"anyOf": [*_STATUSES]}, "minItems": 1},
                ],
                "default": "2xx",
                "description": "A status, a class such as `4xx`, or a list of both.",
            },
        },
        "not": {"required": ["json", "body"]},
        "additionalProperties": False,
    }

    def check(self, task: Task, project: Project | None) -> None:
        """StepError for a request that cannot be sent; PolicyError for a host that is denied."""
        if len(task.words) == 1 and not is_known(task.words[0]):
            return  # an arg that is all there is
        _, url = _parts(task)
        if (origin := re.match(_ORIGIN, url)) and is_known(origin[0]):
            _admit(_parsed(with_any_values(url)), project.config if project else None)

    def execute(self, task: Task, context: Context) -> Outcome:
        """The body as output. PB-STEP-HTTP for any other status than expected, PB-STEP-NETWORK
        without an answer, PB-STEP-INPUT for a request that cannot be sent."""
        try:
            return _Exchange(task, context).outcome()
        except StepError as error:
            return failed(error.code, error.message, lasts=True)


def _parsed(text: str) -> httpx.URL:
    try:
        return httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise input_error(f"{one_line(text, 80)!r} is not a URL: {error}") from error


def _admit(url: httpx.URL, config: Config | None) -> None:
    if url.scheme not in ("http", "https") or not url.host:
        raise input_error(f"{_place(url)!r} is not a URL of http or https with a host")
    if url.userinfo:
        raise input_error(
            f"the URL of {url.host} contains credentials; send them in a header, "
            "as `{{secret:NAME}}`"
        )
    if config is not None:
        port = url.port or (443 if url.scheme == "https" else 80)
        admit_host(config, url.raw_host.decode("ascii"), port)


def _parts(task: Task) -> tuple[str, str]:
    """The method and the URL; a method that refers to an arg stays so. StepError PB-STEP-INPUT."""
    if len(task.words) != 2:
        raise input_error(f"`http` takes a method and a URL, not {len(task.words)} words")
    method, url = task.words
    if is_known(method) and method.upper() not in METHODS:
        name = one_line(method, 40)
        raise input_error(f"there is no method {name!r}{suggestion(name, METHODS)}")
    return method.upper(), url


def _header(name: str, value: str) -> tuple[str, str]:
    if not re.fullmatch(_NAME, name):
        raise input_error(f"{one_line(name, 40)!r} is not the name of a header")
    if name.lower() in _OURS:
        raise input_error(f"the header {name} cannot be set; it follows from the request")
    if not re.fullmatch(_VALUE, value):
        raise input_error(f"the value of the header {name} is not one line of printable ASCII")
    return name, value.strip()


def _body(task: Task) -> tuple[bytes, str]:
    given = {"json", "body"} & task.options.keys()
    if given and task.stdin:
        raise input_error(f"the step has both `stdin` and `with.{min(given)}` to send")
    if "json" in given:
        return json.dumps(task.options["json"]).encode(), "application/json"
    return task.options.get("body", task.stdin).encode("utf-8", "replace"), ""


class _Exchange:
    def __init__(self, task: Task, context: Context) -> None:
        self._method, self._url = _parts(task)
        given = task.options.get("headers", {})
        self._headers = [_header(name, value) for name, value in given.items()]
        self._body, kind = _body(task)
        if kind and "content-type" not in {name.lower() for name, _ in self._headers}:
            self._headers.append(("Content-Type", kind))
        expected = task.options.get("expect_status", "2xx")
        listed = expected if isinstance(expected, list | tuple) else (expected,)
        self._expected = tuple(str(each).lower() for each in listed)
        self._needs_all = task.output is OutputFormat.JSON
        self._context = context
        self._lock = threading.Lock()
        self._lines: list[socket.socket] = []

    def outcome(self) -> Outcome:
        self._context.on_stop(self._end)
        limits = [
            each for each in (self._context.remaining, self._context.idle) if each is not None
        ]
        client = httpx.Client(
            verify=_authorities(),
            trust_env=False,
            timeout=httpx.Timeout(min(limits, default=None), connect=min([CONNECT, *limits])),
            headers={
                "User-Agent": f"playbook-supervisor/{__version__}",
                "Accept-Encoding": "identity",
            },
        )
        try:
            with client:
                return self._answer(client, self._first(client))
        except httpx.HTTPError as error:
            if self._context.stopped:
                raise Stopped from error
            return self._unanswered(error)
        finally:
            self._forget()

    def _first(self, client: httpx.Client) -> httpx.Request:
        url = _parsed(self._url)
        _admit(url, self._context.config)
        return client.build_request(
            self._method,
            url,
            headers=self._headers,
            content=self._body or None,
            extensions={"trace": self._watch},
        )

    def _answer(self, client: httpx.Client, request: httpx.Request) -> Outcome:
        for _ in range(REDIRECTS + 1):
            response = client.send(request, stream=True)
            try:
                following = response.next_request
                if following is None or self._expects(response.status_code):
                    return self._judged(response)
            finally:
                response.close()
            self._context.say(f"{_status(response)} → {_place(following.url)}")
            if request.url.scheme == "https" and following.url.scheme != "https":
                return self._refused(request.url, f"redirects to {_place(following.url)}, unsafely")
            if _origin(request.url) != _origin(following.url):
                for name in {name for name, _ in self._headers}:
                    if name.lower() not in _HARMLESS:
                        following.headers.pop(name, None)
            _admit(following.url, self._context.config)
            request = following
        return self._refused(request.url, f"redirects more than {REDIRECTS} times")

    def _judged(self, response: httpx.Response) -> Outcome:
        encoding = first_line(response.headers.get("content-encoding", ""), 40)
        if encoding.lower() not in ("", "identity"):
            return self._refused(response.url, f"answers in {encoding}, which was not asked for")
        body, cut = self._read(response)
        text = _decoded(body, response.charset_encoding) + MARK * cut
        self._context.say(f"{_status(response)}, {len(body):,} bytes{' and more' * cut}")
        self._context.say(text)
        if not self._expects(response.status_code):
            said = first_line(text)
            return self._refused(
                response.url,
                f"answers {_status(response)}, not {' or '.join(self._expected)}"
                f"{f': {said}' if said else ''}",
                output=text,
            )
        if cut and self._needs_all:
            message = f"the answer of {_place(response.url)} is longer than {len(body):,} bytes"
            return failed(
                "PB-STEP-OUTPUT", message, guidance="Raise `max_output_bytes`.", output=text
            )
        return Outcome(output=text)

    def _expects(self, status: int) -> bool:
        return bool({str(status), f"{status // 100}xx"} & {*self._expected})

    def _read(self, response: httpx.Response) -> tuple[bytes, bool]:
        """The body, and whether only its beginning was read, because it exceeds the cap."""
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > self._context.cap:
                return bytes(body[: max(0, self._context.cap - len(MARK.encode()))]), True
        if self._context.stopped:  # to end the connection may look like the end of the body
            raise Stopped
        return bytes(body), False

    def _refused(self, url: httpx.URL, why: str, *, output: str = "") -> Outcome:
        return failed("PB-STEP-HTTP", f"{self._method} {_place(url)} {why}", output=output)

    def _unanswered(self, error: httpx.HTTPError) -> Outcome:
        place = _place(error.request.url)
        why = one_line(re.sub(_NUMBER, "", str(error))) or type(error).__name__
        idle, remaining = self._context.idle, self._context.remaining
        if isinstance(error, httpx.ConnectTimeout) and remaining != 0:
            message = f"{place} cannot be reached: no connection within {CONNECT:g} s"
        elif isinstance(error, httpx.TimeoutException):
            silent = idle is not None and remaining != 0
            how_long = f"for {idle:g} s" if silent else "in time"
            message = f"{place} sent nothing {how_long}"
            return failed("PB-STEP-TIMEOUT", message, cause=why)
        elif isinstance(error, httpx.ConnectError):
            message = f"{place} cannot be reached: {why}"
        else:
            message = f"the connection to {place} failed: {why}"
        return failed("PB-STEP-NETWORK", message, cause=type(error).__name__)

    # ── ending it early ─────────────────────────────────────────────────────────────────────

    def _watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep a second descriptor of each connection: to shut that down ends every wait."""
        if event != "connection.connect_tcp.complete":
            return
        line: socket.socket = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._lines.append(line.dup())
        if self._context.stopped:
            line.close()
            raise Stopped

    def _end(self) -> None:
        with self._lock:
            for line in self._lines:
                with suppress(OSError):  # the other end has closed it
                    line.shutdown(socket.SHUT_RDWR)

    def _forget(self) -> None:
        with self._lock:
            for line in self._lines:
                line.close()
            self._lines.clear()


def _authorities() -> ssl.SSLContext:
    """Verifies certificates. StepError PB-STEP-INPUT if those of the authorities are not there."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        variables = " or ".join(name for name in _TRUSTED if name in os.environ)
        raise input_error(f"the certificates of {variables} cannot be read: {error}") from error


def _status(response: httpx.Response) -> str:
    return f"{response.status_code} {first_line(response.reason_phrase, 60)}".strip()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _place(url: httpx.URL) -> str:
    """The URL without credentials, and without its query, which is long and may be private."""
    scheme = f"{url.scheme}://" if url.scheme else ""
    return one_line(f"{scheme}{url.netloc.decode('ascii')}{url.path}", 150)


def _decoded(body: bytes, charset: str | None) -> str:
    """The body as text, what cannot be decoded replaced; as UTF-8 if the charset is not known."""
    with suppress(LookupError, UnicodeError):
        name = codecs.lookup(charset or "utf-8").name
        if re.match(_TEXT, name) and name != "utf-7":
            return body.decode(name, "replace")
    return body.decode("utf-8", "replace")
