"""The ancestors of a process, and whether a known process is still running.

Process numbers are reused, so a process is identified by its number and its start time. They are
read from /proc, or from `ps` where there is no /proc.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.records import Record

_PROC: Path = Path("/proc")
_ENDED = frozenset({"Z", "X"})  # zombie, dead
_MAX_DEPTH = 1_000  # ancestors; more than there ever are
_FIRST = 2  # the number in a namespace of the program that bubblewrap starts there; 1 reaps


class Process(Record):
    """One process. `born` is its start time in the system's own format, only for comparison."""

    pid: int
    parent: int
    name: str
    born: str


_acts_for: list[tuple[int, str]] = []


def act_for(pid: int, isolation: str) -> None:
    """From now on, decide as if this was that process, which is isolated by that and has asked."""
    _acts_for[:] = [(pid, isolation)]


def caller() -> int:
    """The process that asks: this one, or the one that it acts for."""
    return _acts_for[0][0] if _acts_for else os.getpid()


def isolation() -> str:
    """What isolates the process that this one acts for; empty if it acts for itself."""
    return _acts_for[0][1] if _acts_for else ""


def process(pid: int) -> Process | None:
    """The running process of that number; None if there is none or it cannot be determined."""
    return _from_proc(pid) if _has_proc() else _from_ps("-p", str(pid)).get(pid)


def ancestors(pid: int = 0) -> list[Process]:
    """The parent of that process (`caller` by default), its parent, and so on.

    A parent may end meanwhile, and another adopts its children. So the walk is repeated until it
    leads to the top, or twice to the same process, whose parent is hidden from us.
    """
    former: list[Process] | None = None
    while True:
        found, complete = _walk(pid or caller())
        if complete or found == former:
            return found
        former = found


def _walk(pid: int) -> tuple[list[Process], bool]:
    find = process if _has_proc() else _from_ps("-A").get
    found: list[Process] = []
    known = find(pid)
    while known is not None and known.parent > 0 and len(found) < _MAX_DEPTH:
        known = find(known.parent)
        if known is not None:
            found.append(known)
    return found, known is not None


def lives(pid: int, born: str) -> bool:
    """True if that process is running; any process of that number if `born` is empty."""
    found = process(pid)
    return found is not None and born in ("", found.born)


def has_terminal() -> bool:
    """True if this process has a controlling terminal, where a person may sit."""
    if _acts_for:
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def tells_files() -> bool:
    """True if the system tells which files a process has open."""
    return _has_proc()


def open_files(pid: int) -> Iterator[str]:
    """The paths of its open files, as the kernel names them; none if it does not tell."""
    folder = f"{_PROC}/{pid}/fd"
    with suppress(OSError):  # it has ended, or belongs to another user
        for name in os.listdir(folder):  # noqa: PTH208 - the paths are strings
            with suppress(OSError):
                yield os.readlink(f"{folder}/{name}")  # noqa: PTH115


def first_environment(pid: int) -> dict[str, str]:
    """The environment that the process was started with; empty if the system does not tell."""
    try:
        text = (_PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return {}
    return dict(pair.partition("=")[::2] for pair in text.split("\0") if "=" in pair)


def numbered_inside(number: int) -> int:
    """Our number of the process that `caller` knows by that one; 0 unless it is above `caller`."""
    line = (caller(), *(each.pid for each in ancestors()))
    return next((pid for pid in line if number in _numbers(pid)[:2][-1:]), 0)


def is_first_inside(pid: int) -> bool:
    """True if it is the program for which a namespace was made, and nothing that it started."""
    return _numbers(pid)[1:] in ([], [_FIRST])  # without namespaces, that is not known


def _numbers(pid: int) -> list[int]:
    try:
        lines = (_PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return [pid]
    found = (line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return [int(word) for word in next(found, [str(pid)])]


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
    from playbook_supervisor.system.process.processes import run

    argv = ["ps", *selection, "-o", "pid=,ppid=,state=,lstart=,comm="]
    try:
        done = run(argv, cwd=Path("/"), env={**os.environ, "LC_ALL": "C"}, timeout=5.0)
    except StorageError:
        return {}
    found = {}
    for line in done.stdout.splitlines():
        pid, parent, state, *started, program = line.split(None, 8)  # a start time is five words
        if state[0] not in _ENDED:
            name = Path(program.strip()).name
            found[int(pid)] = Process(int(pid), int(parent), name, " ".join(started))
    return found
