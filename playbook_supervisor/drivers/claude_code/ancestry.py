"""The ancestors of this process, and whether a known process is still running.

Process numbers are reused, so a process is identified by its number and its start time. They are
read from /proc, or from `ps` where there is no /proc.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.records import Record

_PROC: Path = Path("/proc")
_ENDED = frozenset({"Z", "X"})  # zombie, dead
_TERMINAL = "/dev/tty"
_MAX_DEPTH = 1_000  # ancestors; more than there ever are
_TIMEOUT = 5.0


class Process(Record):
    """One process. `born` is its start time in the system's own format, only for comparison."""

    pid: int
    parent: int
    name: str
    born: str


def process(pid: int) -> Process | None:
    """The running process of that number; None if there is none or it cannot be determined."""
    return _from_proc(pid) if _has_proc() else _from_ps("-p", str(pid)).get(pid)


def ancestors() -> Iterator[Process]:
    """The parent of this process, its parent, and so on."""
    find = process if _has_proc() else _from_ps("-A").get
    pid = os.getppid()
    for _ in range(_MAX_DEPTH):
        found = find(pid) if pid > 0 else None
        if found is None:
            return
        yield found
        pid = found.parent


def lives(pid: int, born: str) -> bool:
    """Whether that process is running; any process of that number if `born` is empty."""
    found = process(pid)
    return found is not None and born in ("", found.born)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal, where a person may sit."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _has_proc() -> bool:
    return (_PROC / "self").exists()


def _from_proc(pid: int) -> Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")  # a name may contain brackets and blanks
    fields = rest.split()
    return None if fields[0] in _ENDED else Process(pid, int(fields[1]), name, fields[19])


def _from_ps(*selection: str) -> dict[int, Process]:
    """The selected running processes by number; none where `ps` is missing."""
    from playbook_supervisor.errors import StorageError
    from playbook_supervisor.system.processes import run

    argv = ["ps", *selection, "-o", "pid=,ppid=,state=,lstart=,comm="]
    try:
        output = run(
            argv, cwd=Path("/"), env={**os.environ, "LC_ALL": "C"}, timeout=_TIMEOUT
        ).stdout
    except StorageError:
        return {}
    found = {}
    for line in output.splitlines():
        pid, parent, state, *started, program = line.split(None, 8)  # a start time is five words
        if state[0] not in _ENDED:
            name = Path(program.strip()).name
            found[int(pid)] = Process(int(pid), int(parent), name, " ".join(started))
    return found
