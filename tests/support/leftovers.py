"""What tests leave behind: processes that outlive the run, and unfinished coverage files.

A process that a test starts inherits the id of the run and, from pytest, the name of the test. Its
environment can be read in `/proc`, so only on Linux. The coverage file of a killed process may be
incomplete, and would break the combined measurement.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

RUN = "TESTS_RUN"
PATIENCE = 20.0
"""Seconds for a process that is ending, on a busy machine."""
_TEST = b"PYTEST_CURRENT_TEST="


@dataclass(frozen=True)
class Left:
    """A living process, and the test that started it, directly or not."""

    pid: int
    test: str
    command: str

    def __str__(self) -> str:
        return f"{self.test} left {self.pid}: {self.command}"


def mark() -> str:
    """Put the id of this run into the environment and return it; empty within another run."""
    if RUN in os.environ:
        return ""
    os.environ[RUN] = uuid4().hex
    return os.environ[RUN]


def find(run: str, patience: float = PATIENCE) -> list[Left]:
    """Kill the processes of that run which still live after `patience` seconds; return them."""
    until = time.monotonic() + patience
    while (found := _living(run)) and time.monotonic() < until:
        time.sleep(0.1)
    for each in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each.pid, signal.SIGKILL)
    return found


def discard_torn(data: Path) -> int:
    """Remove the incomplete coverage files beside `data`; return how many there were."""
    torn = [file for file in data.parent.glob(f"{data.name}.*.pid*") if not _whole(file)]
    for file in torn:
        file.unlink()
    return len(torn)


def _whole(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            opened.execute("select version from coverage_schema").fetchone()
            return bool(opened.execute("pragma quick_check").fetchone() == ("ok",))
    except sqlite3.Error:
        return False


def _parent(process: Path) -> int:
    return int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])


def _living(run: str) -> list[Left]:
    found = []
    wanted = f"{RUN}={run}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # another user's process, or one that has just ended
            given = (process / "environ").read_bytes().split(b"\0")
            tests = [each.removeprefix(_TEST) for each in given if each.startswith(_TEST)]
            if tests and wanted in given:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if command.endswith("leash_process.py ") and _parent(process) != 1:
                    continue  # it ends with its runner, perhaps with this process
                test = tests[0].decode().rpartition(" ")[0]
                found.append(Left(int(process.name), test, command.strip()[:200]))
    return found
