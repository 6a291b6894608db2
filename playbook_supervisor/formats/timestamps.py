"""Times are milliseconds since the epoch inside, and ISO 8601 with a zone in files.

Nothing here reads a clock.
"""

from __future__ import annotations

import time


def to_time(ms: int) -> str:
    """Milliseconds since the epoch as `2026-02-19T10:20:26.104Z`."""
    seconds, rest = divmod(ms, 1000)
    at = time.gmtime(seconds)
    return (
        f"{at.tm_year:04}-{at.tm_mon:02}-{at.tm_mday:02}"
        f"T{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}.{rest:03}Z"
    )


def from_time(text: str) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 time with its zone; None if it is none.

    Kai's own files have whole seconds, files of others an offset: both are read.
    """
    from datetime import UTC, datetime, timedelta

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
