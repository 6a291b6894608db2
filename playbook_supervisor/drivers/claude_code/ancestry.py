"""Which processes stand above this one, and whether one that we knew still lives.

A number alone is no identity, for numbers are used again: the time of birth belongs to it. Read
from /proc where there is one, else asked of `ps`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.records import Record

_PROC: Path = Path("/proc")
_ENDED = frozenset({"Z", "X"})  # it waits for somebody to ask how it ended, no more
_TERMINAL = "/dev/tty"
_HIGHEST = 1_000  # processes above one another, more than there ever are
_SECONDS = 5.0


class Process(Record):
    """One process. `born` says when, in the system's own words: only good to be compared."""

    pid: int
    parent: int
    name: str
    born: str


def process(pid: int) -> Process | None:
    """The living process of that number; None where there is none, or nobody can tell."""
    return _from_proc(pid) if _has_proc() else _from_ps("-p", str(pid)).get(pid)


def ancestors() -> Iterator[Process]:
    """The process that started this one, and so on upwards."""
    look = process if _has_proc() else _from_ps("-A").get
    pid = os.getppid()
    for _ in range(_HIGHEST):
        found = look(pid) if pid > 0 else None
        if found is None:
            return
        yield found
        pid = found.parent


def lives(pid: int, born: str) -> bool:
    """Whether that very process lives; where its birth is not known, whether any of its number."""
    found = process(pid)
    return found is not None and born in ("", found.born)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal, at which a person may sit."""
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
    name, _, rest = text.partition("(")[2].rpartition(")")  # a name may hold brackets and blanks
    fields = rest.split()
    return None if fields[0] in _ENDED else Process(pid, int(fields[1]), name, fields[19])


def _from_ps(*which: str) -> dict[int, Process]:
    """The living ones of the processes asked for, by number; none where `ps` is missing."""
    from playbook_supervisor.errors import StorageError
    from playbook_supervisor.system.processes import run

    argv = ["ps", *which, "-o", "pid=,ppid=,state=,lstart=,comm="]
    try:
        said = run(argv, cwd=Path("/"), env={**os.environ, "LC_ALL": "C"}, timeout=_SECONDS).stdout
    except StorageError:
        return {}
    found = {}
    for line in said.splitlines():
        pid, parent, state, *birth, program = line.split(None, 8)  # a birth is five words
        if state[0] not in _ENDED:
            name = Path(program.strip()).name
            found[int(pid)] = Process(int(pid), int(parent), name, " ".join(birth))
    return found
