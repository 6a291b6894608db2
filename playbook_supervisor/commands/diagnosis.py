"""One finding of `playbook doctor`, and how the programs are run that it looks at."""

from __future__ import annotations

from pathlib import Path
from shutil import which
from typing import Literal

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.records import Record
from playbook_supervisor.system.processes import Completed, run

TIMEOUT = 30.0
"""Seconds for each program."""


class Diagnosis(Record):
    """One check: its name, its state, what was found, and the cure (empty if fine).

    `advice` means that it works, but could work better.
    """

    name: str
    state: Literal["fine", "advice", "wrong"]
    found: str
    cure: str = ""


def program_path(root: Path, program: str) -> str:
    """The path of a program that the settings name; empty if it is not there or cannot run."""
    return which(program if "/" not in program else str(root / program)) or ""


def completed(root: Path, *argv: str) -> Completed | None:
    """The completed program; None if it cannot be started, or does not end in time."""
    try:
        done = run(argv, cwd=root, timeout=TIMEOUT)
    except PlaybookError:
        return None
    return None if done.timed_out else done
