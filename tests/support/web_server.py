"""A web server on the loopback interface, for tests; each path does something of its own."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handle = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site
    body: bytes

    def answer(self, body: bytes | str = b"", status: int = 200, **headers: str) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def redirect(self, to: str, status: int = 302) -> None:
        self.answer(status=status, Location=to)

    def write(self, data: bytes) -> bool:
        """Write without any framing; whether the client still listens."""
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True
            return False
        return True

    def _take(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(self)
        self.server.pages[self.path.partition("?")[0]](self)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _take  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Site(ThreadingHTTPServer):
    """A running server. `pages` maps a path to what it does; `requests` are those received."""

    daemon_threads = True

    def __init__(self, pages: dict[str, Handle]) -> None:
        self.pages, self.requests = pages, list[Request]()
        self.scheme = "http"
        super().__init__(("127.0.0.1", 0), Request)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """A client that went away is not an error here."""


@contextmanager
def served(
    pages: dict[str, Handle], certificate: Callable[[ssl.SSLContext], None] | None = None
) -> Iterator[Site]:
    """A server that answers while the block runs; over TLS with a certificate."""
    with Site(pages) as site:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate(context)
            site.socket = context.wrap_socket(site.socket, server_side=True)
            site.scheme = "https"
        thread = threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
