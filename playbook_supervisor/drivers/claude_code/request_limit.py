"""How long the supervising model may go on and get nowhere: its requests are counted.

Every round of calls in a turn of ours counts, those that only read or that the client itself
refuses as well. A launch, an answer, a person's prompt begin the count anew, and so does any sign
of an agent that a step waits for. While one is at work, one request a minute counts at most:
whoever waits may look as often as it likes, and is ended when nothing was heard for hours.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

WARNED = 100  # requests after which the model is told what is expected
ENDED = 120  # requests after which its run is ended
_WAITING = 60.0  # seconds that one request stands for while an agent is at work
_FILE = "requests"  # one byte each, so that counting costs next to nothing


def spent(private: str) -> int:
    """How many requests have been counted."""
    with suppress(OSError):
        return os.stat(_file(private)).st_size
    return 0


def spend(private: str, *, waiting: bool) -> int:
    """Count one more, and say how many they are now; 0 where this one does not count."""
    with suppress(OSError):
        file = os.open(_file(private), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            before = os.fstat(file)
            if waiting and before.st_size and abs(time.time() - before.st_mtime) < _WAITING:
                return 0
            return before.st_size + os.write(file, b".")
        finally:
            os.close(file)
    return 0


def begin_anew(private: str) -> None:
    """Something has happened: nothing is counted any more."""
    with suppress(OSError):
        os.truncate(_file(private), 0)


def _file(private: str) -> str:
    return f"{private}/{_FILE}"
