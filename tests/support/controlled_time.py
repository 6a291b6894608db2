"""What works until it is let go, and a clock or a grace that a test sets: no test waits long."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from playbook_supervisor import testing
from playbook_supervisor.system.process import leash_process, processes
from support.scratch_project import Project

HOUR = 3600.0
WORKER = """\
#!/bin/sh
echo '{say}'
looks=0
while [ ! -e '{go}' ] && [ $((looks += 1)) -lt 6000 ]; do sleep 0.05; done
{then}
"""


@dataclass(frozen=True)
class Held:
    """An agent, as `--agent` takes it: each of its workers says a line and waits until `let_go`."""

    agent: str
    go: Path

    @classmethod
    def put(cls, project: Project, *, say: str = "at work", then: str = "") -> Held:
        """`then` is what they do in the end: lines of a shell, in the project's root."""
        program = project.root.with_name(f"{project.root.name}-held")
        go = program.with_suffix(".go")
        program.write_text(WORKER.format(say=say, go=go, then=then))
        program.chmod(0o755)
        return cls(f"exec:{program}", go)

    def let_go(self) -> None:
        self.go.touch()


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def running(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(python(code, *arguments), stdout=subprocess.PIPE, text=True)


def eventually(happened: Callable[[], bool]) -> bool:
    for _ in range(6000):
        if happened():
            return True
        time.sleep(0.01)
    return False


def wait_until(happened: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def put_clock_forward(patch: pytest.MonkeyPatch, ahead: Callable[[], float]) -> None:
    """Deadlines of processes go by a clock that is so many seconds ahead."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead())
    patch.setattr(processes, "time", clock)


def shorten_grace(patch: pytest.MonkeyPatch) -> None:
    """A process that ignores SIGTERM is killed soon, and the checks of a contract wait less."""
    patch.setattr(leash_process, "GRACE", 0.1)
    patch.setattr(testing, "DEADLINE", 0.2)


def gone(pid: int) -> bool:
    """Whether the process has ended; one that waits for its parent to notice has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
