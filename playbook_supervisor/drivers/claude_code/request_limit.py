"""Counts the supervising model's requests, to stop a model that makes no progress.

Every round of calls in a supervised turn counts, also if it only reads or the client refuses it. A
launch, an answer and a person's prompt reset the count, and so does any sign of life from a step's
agent. While an agent works, at most one request a minute counts: a model that waits may look often,
and is stopped only after hours without a sign of life.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

WARNED = 100  # requests after which the model is told what is expected
ENDED = 120  # requests after which its run is stopped
_WAITING = 60.0  # seconds between two requests that count while an agent works
_FILE = "requests"  # one byte for each request: counting is cheap


def counted(private: str) -> int:
    """The number of requests since the last reset."""
    with suppress(OSError):
        return os.stat(_file(private)).st_size
    return 0


def count(private: str, *, waiting: bool) -> int:
    """Count a request and return the new number; 0 if this one does not count."""
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


def reset(private: str) -> None:
    """Progress was made: start counting from 0."""
    with suppress(OSError):
        os.truncate(_file(private), 0)


def _file(private: str) -> str:
    return f"{private}/{_FILE}"
