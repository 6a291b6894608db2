"""Process groups: end a process with all that it started, and find it again after a crash.

A worker and its descendants inherit a locked descriptor of its worker file. As long as one of them
lives, the file is locked.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StateError, StorageError

RUNNER = "driver"  # the file that a runner has open, in the folder of its session
MARK = "PLAYBOOK_WORKER"  # the variable that names a worker's file in its environment
_PROC = Path("/proc")
_DESCRIPTORS = 4_096  # as many as a process of ours may have open
_NAMED = rb'\{"pid": \d+, "pgid": (?P<group>\d{1,9})\}\n'


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; whether it has a member."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_name(status: int) -> str:
    """The signal that ended a process with this negative status: `SIGKILL`."""
    import signal

    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def detach() -> None:
    """Lead a new session, and close every inherited descriptor."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    os.closerange(3, _DESCRIPTORS)


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait at most `seconds` for the condition; whether it came true."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


def worker_alive(worker_file: Path) -> bool:
    """True if the worker of that file, or a process that it started, still runs."""
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(worker_file, flags)
    except FileNotFoundError:
        return False
    except OSError as error:
        said = f"cannot read {worker_file}: {error.strerror}"
        raise StorageError("PB-IO-READ", said, where=str(worker_file)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def kill_worker(worker_file: Path) -> None:
    """End the worker of that file and all that it started: SIGTERM, time for its leash, SIGKILL.

    StateError PB-STATE-BUSY if a process survives both.
    """
    from signal import SIGKILL, SIGTERM

    from playbook_supervisor.system.process.leash_process import GRACE, PATIENCE

    for number, patience in ((SIGTERM, GRACE + PATIENCE), (SIGKILL, PATIENCE)):
        groups = _groups(worker_file)
        for group in groups:
            signal_group(group, number)
        if until(lambda: not worker_alive(worker_file), patience):
            for group in groups:  # members that closed the file and ignored the SIGTERM
                signal_group(group, SIGKILL)
            return
    said = f"a process that holds {worker_file} cannot be ended"
    cure = f"End it by hand; `lsof {worker_file}` names it."
    raise StateError("PB-STATE-BUSY", said, where=str(worker_file), guidance=cure)


def _groups(worker_file: Path) -> set[int]:
    """The groups of the processes that hold the file, or that recorded if no /proc lists them."""
    if not worker_alive(worker_file):
        return set()
    groups: set[int] = set()
    for pid in _holders(worker_file):
        with suppress(ProcessLookupError):
            groups.add(os.getpgid(pid))
    groups = groups or _recorded(worker_file)
    return {group for group in groups if group > 1 and group != os.getpgrp()}


def _holders(worker_file: Path) -> Iterator[int]:
    name = worker_file.resolve()
    with suppress(OSError):
        for process in _PROC.iterdir():
            with suppress(OSError):  # not our process, or it has just ended
                if process.name.isdecimal() and any(
                    link.readlink() == name for link in (process / "fd").iterdir()
                ):
                    yield int(process.name)


def _recorded(worker_file: Path) -> set[int]:
    with suppress(OSError), worker_file.open("rb") as file:
        if found := re.fullmatch(_NAMED, file.read(100)):
            return {int(found["group"])}
    return set()


def lock_worker_file(worker_file: Path) -> int:
    """A locked descriptor of a new file, to inherit. StateError PB-STATE-DRIVEN, StorageError."""
    if worker_alive(worker_file):
        said = f"the worker of {worker_file} still runs"
        raise StateError("PB-STATE-DRIVEN", said, where=str(worker_file))
    try:
        worker_file.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(worker_file, flags, 0o644)
    except OSError as error:
        said = f"cannot write {worker_file}: {error.strerror}"
        raise StorageError("PB-IO-WRITE", said, where=str(worker_file)) from error
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits only for a short `worker_alive`
    return descriptor


def worker_record(pid: int) -> bytes:
    """The content of a worker file: the worker, which leads its group."""
    return f'{{"pid": {pid}, "pgid": {pid}}}\n'.encode()
