"""The real client, started headless: a scratch home, a dummy key, loopback, nothing inherited.

    done = Client(project, model).run("/playbook.run auto-feature 013")

Every process of a client has the scratch folder in its environment. `kill` uses it to find the
whole tree, including processes that left the process group.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

from support.scratch_project import Project

from claude.model import Model
from playbook_supervisor.system.process import ancestry

KEY = "dummy"
TIMEOUT = 240.0
"""Seconds for one run; a turn takes less than one on an idle machine, and many on a busy one."""


NEWEST = Path(sys.prefix) / "newest-client/claude_agent_sdk/_bundled/claude"
"""The client that `make .venv/newest-client` installs."""
_chosen: list[Path] = []


@contextmanager
def running(program: Path) -> Iterator[None]:
    """Start this client instead of the pinned one."""
    _chosen.append(program)
    yield
    _chosen.pop()


def program() -> Path | None:
    """The client to start: the chosen one, or the pinned one."""
    return _chosen[-1] if _chosen else pinned()


@cache
def pinned() -> Path | None:
    """The client that the pinned wheel brings, where the platform has such a wheel."""
    try:
        import claude_agent_sdk
    except ImportError:
        return None
    found = Path(str(claude_agent_sdk.__file__)).parent / "_bundled/claude"
    return found if found.exists() else None


def system_programs() -> tuple[Path, ...]:
    """Where the client's programs are found: stand-ins for agents and forges, git, the system's."""
    found = [shutil.which(name) for name in ("gh", "git")]
    return (*(Path(path).parent for path in found if path), Path("/usr/bin"), Path("/bin"))


@dataclass(frozen=True)
class Done:
    """What a headless run left behind. `events` are the lines of its stream-json."""

    code: int
    events: tuple[dict[str, Any], ...]
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The last event, which sums up; a run that was killed has none.

        There is one for every turn, and a background agent's end begins another turn.
        """
        return self._of("result")[-1]

    @property
    def text(self) -> str:
        """The last thing that the model said."""
        return str(self.result.get("result", ""))

    @property
    def session(self) -> str:
        """The client's session id."""
        return str(self._of("system")[0]["session_id"])

    @property
    def init(self) -> dict[str, Any]:
        """What the client found: tools, slash_commands, permissionMode …"""
        return next(event for event in self._of("system") if event["subtype"] == "init")

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]


@dataclass
class Running:
    """A client that was started and not awaited."""

    client: Client
    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, timeout: float = TIMEOUT) -> Done:
        """Its end. One that takes too long is killed, and fails the test."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"the client ran longer than {timeout} s\n{self._tail()}"
            ) from None
        return Done(code, self.events, self.err.read_text())

    @property
    def events(self) -> tuple[dict[str, Any], ...]:
        """What it has said so far."""
        lines = self.out.read_text().splitlines(keepends=True)
        return tuple(json.loads(line) for line in lines if line.endswith("\n"))

    def kill(self) -> None:
        """SIGKILL to the client and to everything that came of it."""
        self.client.kill()
        self.process.wait(60)

    def _tail(self) -> str:
        return self.out.read_text()[-2000:] + self.err.read_text()[-2000:]


@dataclass
class Client:
    """One scratch home, one project, one model; as many runs as one likes, also at once.

    `settings` are files given as `--settings` (the recorder's, say); `env` adds variables.
    """

    project: Project
    model: Model
    settings: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None

    def __post_init__(self) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="client-")).resolve()
        self._runs = 0
        for folder in ("bin", "tmp"):
            (self.scratch / folder).mkdir()
        (self.scratch / "bin/playbook").symlink_to(Path(sys.executable).with_name("playbook"))
        self.trust(self.root)
        self.ask_first()

    @property
    def root(self) -> Path:
        """Where it is started."""
        return self.cwd or self.project.root

    @property
    def home(self) -> Path:
        return self.project.home

    def trust(self, *folders: Path) -> None:
        """Seed the home, so that neither onboarding nor a trust dialog stands in the way."""
        file = self.home / ".claude.json"
        seeds = json.loads(file.read_text()) if file.exists() else {}
        seeds["hasCompletedOnboarding"] = seeds["hasSeenAutoDefaultNudge"] = True
        seeds["customApiKeyResponses"] = {"approved": [KEY], "rejected": []}
        projects = seeds.setdefault("projects", {})
        for folder in folders:
            projects.setdefault(str(folder.resolve()), {})["hasTrustDialogAccepted"] = True
        file.write_text(json.dumps(seeds))

    def ask_first(self) -> None:
        """Seed the mode that asks a person: the client's own, auto, asks the model instead."""
        file = self.home / ".claude/settings.json"
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            file.write_text(json.dumps({"permissions": {"defaultMode": "default"}}))

    def distrust(self) -> None:
        """Forget all trust, so that the interface asks for it."""
        file = self.home / ".claude.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"projects": {}}))

    @property
    def environment(self) -> Mapping[str, str]:
        """All that the client is given. `git` and the stand-ins on PATH are the project's."""
        own = os.pathsep.join(map(str, (self.scratch / "bin", *system_programs())))
        asked = self.project.environment
        return {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.model.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_TMPDIR": str(self.scratch / "tmp"),
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            "GIT_CONFIG_GLOBAL": asked["GIT_CONFIG_GLOBAL"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": asked["PATH"].replace(os.environ["PATH"], own),
            "SHELL": shutil.which("bash") or "/bin/sh",
            "TERM": "dumb",
            "TMPDIR": str(self.scratch / "tmp"),
            **self.env,
        }

    def argv(self, *args: str) -> list[str]:
        """The client inside the model's network."""
        binary = program()
        assert binary, "the pinned wheel brings no client for this platform"
        settings = ["--settings", str(self.settings)] if self.settings else []
        return [*self.model.network.enter, str(binary), *settings, *args]

    def run(
        self, prompt: str, *args: str, timeout: float = TIMEOUT, stdin: bytes | None = None
    ) -> Done:
        """`claude -p PROMPT`, until it ends in any way."""
        return self.spawn(prompt, *args, stdin=stdin).wait(timeout)

    def spawn(self, prompt: str, *args: str, stdin: bytes | None = None) -> Running:
        """The same, and leave it running."""
        self._runs += 1
        out, err = (self.scratch / f"{self._runs}.{name}" for name in ("out", "err"))
        output = ["--output-format", "stream-json", "--verbose"]
        given = self.scratch / f"{self._runs}.in"
        given.write_bytes(stdin or b"")
        with given.open("rb") as source, out.open("wb") as said, err.open("wb") as complained:
            process = subprocess.Popen(
                self.argv("-p", prompt, *output, *args),
                cwd=self.root,
                env=self.environment,
                stdin=source,
                stdout=said,
                stderr=complained,
                start_new_session=True,
            )
        return Running(self, process, out, err)

    def processes(self) -> list[int]:
        """The ids of everything alive that was started with this client's environment."""
        return living(self._mark)

    def kill(self) -> None:
        """SIGKILL, until nothing is left."""
        kill(self._mark)

    @property
    def _mark(self) -> str:
        return f"CLAUDE_CODE_TMPDIR={self.scratch / 'tmp'}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)


def living(mark: str) -> list[int]:
    """The ids of the processes that have `NAME=VALUE` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{mark}\0".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue  # gone meanwhile, or not ours
    return found


def kill(mark: str) -> None:
    """SIGKILL to these processes, until none is left.

    That is looked for twice: a process that is just being replaced has no environment. And one that
    is dying has none for a while before it is dead and its files are closed.
    """
    deadline = time.monotonic() + 60
    killed: list[ancestry.Process] = []
    looked = 0
    while looked < 2:
        alive = [found for pid in living(mark) if (found := ancestry.process(pid))]
        killed += alive
        left = [each for each in killed if ancestry.lives(each.pid, each.born)]
        looked = 0 if left else looked + 1
        assert time.monotonic() < deadline, f"these outlive SIGKILL: {left}"
        for each in alive:
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
