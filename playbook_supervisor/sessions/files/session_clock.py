"""The time of a checkout's sessions: the machine's clock, corrected so that it never goes back.

Another machine may have written the journal, with a clock that is ahead of this one, and a clock
can be set back. From then on, this checkout's sessions count on from the journal's latest time.
How far they are ahead is kept in the git directory, so that all processes agree, and what an
attempt lasts is still measured. A fleet gives all its machines one clock, that of its database.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically

Clock = Callable[[], int]  # milliseconds since the epoch

NAME = "clock.json"
_TOLERANCE = 1000  # ms: what threads and small corrections of a clock make of two times
_LONGEST = 100_000  # bytes of the file; it has about forty
_LIMIT = 50 * 365 * 86_400_000  # ms: no clock is that wrong, and git dates no commit so


def system_clock() -> int:
    """The machine's time, ms since the epoch."""
    return time.time_ns() // 1_000_000


class SessionClock:
    """The time of a checkout's sessions, in ms; `folder` is the checkout's in its git directory."""

    def __init__(self, folder: Path, machine: Clock = system_clock) -> None:
        self._file = folder / NAME
        self._machine = machine.machine if isinstance(machine, SessionClock) else machine
        self._known: tuple[int, int] | None = None

    def __call__(self) -> int:
        return self._machine() + self.ahead

    @property
    def machine(self) -> Clock:
        return self._machine

    @property
    def ahead(self) -> int:
        """The lead of the sessions' time over the machine's, in ms; negative if it is behind."""
        return self._read()[0]

    def keep_up_with(self, latest: int) -> None:
        """Count on from `latest`, a time in a journal, if that is later than now."""
        behind = latest - self()
        if behind > _TOLERANCE:
            ahead, ahead_of_all = self._read()
            self._keep(ahead + behind, ahead_of_all)

    def follow(self, now: int) -> None:
        """Let sessions have the time of another clock, which shows `now`, from now on. It has not
        to be exact: a second is no difference. StorageError if it cannot be kept."""
        ahead = now - self._machine()
        if abs(ahead) <= _TOLERANCE:
            return
        self._write(ahead, ahead)

    def start_anew(self) -> None:
        """A session begins that owes nothing to earlier journals: forget how far those were."""
        ahead, ahead_of_all = self._read()
        if ahead != ahead_of_all:
            self._keep(ahead_of_all, ahead_of_all)

    def _keep(self, ahead: int, ahead_of_all: int) -> None:
        with suppress(StorageError):  # the next process finds out again
            self._write(ahead, ahead_of_all)

    def _write(self, ahead: int, ahead_of_all: int) -> None:
        self._known = ahead, ahead_of_all
        ensure_folder(self._file.parent)
        data = json.dumps({"ahead": ahead, "followed": ahead_of_all}).encode()
        write_atomically(self._file, data, durable=False)

    def _read(self) -> tuple[int, int]:
        if self._known is None:
            self._known = _read(self._file)
        return self._known


def _read(file: Path) -> tuple[int, int]:
    with suppress(OSError, StorageError, ValueError, RecursionError):
        data = json.loads(read_bytes(file, limit=_LONGEST))
        match data:
            case {"ahead": int() as ahead, "followed": int() as followed}:
                if max(abs(ahead), abs(followed)) < _LIMIT:
                    return ahead, followed
    return 0, 0
