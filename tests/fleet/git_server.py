"""Serves bare repositories over https with git's own server, in a process of its own.

So what a remote does is no part of the machine that pushes: it outlives the machine's end. The
first part of an address is the name of the machine that asks, and no part of the repository's.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class GitServer:
    """Serves the repositories below `root` until its `with` ends.

    `authority` is the file of the certificate that its clients have to trust.
    """

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root, self._key = root, scratch / "server.pem"
        self._refused = scratch / "refused"
        self.authority = scratch / "authority.pem"

    def __enter__(self) -> GitServer:
        import trustme

        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(self._key))
        self._refused.mkdir()
        folders = (self._root, self._refused)
        command = [sys.executable, str(Path(__file__)), str(self._key), *map(str, folders)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def refuse(self, machine: str, status: int = 403) -> None:
        """Answer all that this machine asks with an HTTP status, until `allow`."""
        written = self._refused.with_name(f"refusing-{machine}")
        written.write_text(str(status))
        written.rename(self._refused / machine)

    def allow(self, machine: str) -> None:
        (self._refused / machine).unlink()


# ── the process ─────────────────────────────────────────────────────────────────────────────


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__((HOST, 0), _Handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Runs in a thread, so a silent client does not block the others."""
        secured = self._context.wrap_socket(request, server_side=True)
        super().finish_request(secured, client_address)
        secured.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients are killed and cut off all the time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def _answer(self, body: bytes) -> None:
        asked, _, query = self.path.partition("?")
        machine, _, path = asked.removeprefix("/").partition("/")
        with suppress(FileNotFoundError):
            self._refuse(int(Path(sys.argv[3], machine).read_text()))
            return
        if not Path(sys.argv[2]).is_dir():  # the tests have moved it away
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        variables = os.environ | {
            "GIT_PROJECT_ROOT": sys.argv[2],
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{path}",
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "REMOTE_ADDR": HOST,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], env=variables, input=body, stdout=subprocess.PIPE, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, *_: Any) -> None:
        pass


def _serve() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(sys.argv[1])
    with _Server(context) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_port, flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    _serve()
