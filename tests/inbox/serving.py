"""A running inbox: the real program on a terminal, and clients that speak to it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from cli.terminal import Terminal
from support.scratch_project import Project

_LINK = re.compile(r"(http\S+)/enter\?token=(\S+)")


class Served:
    """An inbox that serves `project`. `url` is its origin."""

    def __init__(self, project: Project, terminal: Terminal) -> None:
        self.project, self.terminal = project, terminal
        self.url, self._token = self._shown_link()

    def _shown_link(self) -> tuple[str, str]:
        """The last link on the terminal."""
        self.terminal.until("works once: ")
        self.terminal.until("\n")
        origin, token = _LINK.findall(self.terminal.shown)[-1]
        return origin, token

    def link(self) -> str:
        """A link for the user of this machine that was not used yet."""
        return f"{self.url}/enter?token={self._token}"

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False, **options)  # type: ignore[arg-type]

    def visitor(self) -> httpx.Client:
        """A client that has used a link."""
        with self.client() as client:
            entered = self.enter(client, self._token)
            assert entered.status_code == 303, entered.text
            self.url, self._token = self._shown_link()
            return self.client(cookies=client.cookies)

    def enter(self, client: httpx.Client, token: str) -> httpx.Response:
        return self.post(client, "/enter", {"token": token})

    def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.05)

    def post(self, client: httpx.Client, path: str, form: dict[str, str]) -> httpx.Response:
        """Send a form as a browser on our page does."""
        return client.post(path, data=form, headers={"Origin": self.url})


@contextmanager
def serving(project: Project, *options: str, **env: str) -> Iterator[Served]:
    """Serve the project's inbox while the block runs."""
    argv = ["inbox", *(() if "--port" in options else ("--port", "0")), *options]
    with Terminal(project, *argv, **env) as terminal:
        yield Served(project, terminal)
        terminal.interrupt()
        assert terminal.end() == 130
