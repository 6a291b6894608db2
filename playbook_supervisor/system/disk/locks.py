"""Locks: files that one process holds at a time, and that the system frees when it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.system.disk.files import unwritable

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05  # seconds between two tries


@contextmanager
def locked(path: Path, *, timeout: float = 30.0) -> Iterator[None]:
    """Hold the lock file `path`, against other processes and other threads.

    The file has no other purpose and is never replaced, since a lock belongs to an inode. The
    operating system frees it when its holder dies. StateError PB-STATE-BUSY after `timeout` s.
    """
    deadline = time.monotonic() + timeout
    descriptor = None
    pause = _FIRST_PAUSE
    try:
        while (descriptor := _try_lock(path)) is None:
            if time.monotonic() >= deadline:
                said = f"another process has held {path} for {timeout:g} seconds"
                raise StateError("PB-STATE-BUSY", said, where=str(path))
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
    except OSError as error:
        raise unwritable("cannot lock", path, error) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # If the file was removed since it was opened, this lock protects nothing.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
