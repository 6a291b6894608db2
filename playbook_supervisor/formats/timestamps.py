"""Milliseconds since the epoch, which we compute with, to and from the ISO 8601 times in files."""

from __future__ import annotations

import time


def to_time(ms: int) -> str:
    """Milliseconds since the epoch as `2026-02-19T10:20:26.104Z`."""
    seconds, rest = divmod(ms, 1000)
    at = time.gmtime(seconds)
    day = f"{at.tm_year:04}-{at.tm_mon:02}-{at.tm_mday:02}"
    return f"{day}T{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}.{rest:03}Z"


def duration(ms: int) -> str:
    """`0.4 s`, `45 s`, `12 min 6 s`, `3 h 20 min`, `2 d 4 h`: at most two units."""
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    whole = round(ms / 1000)
    parts: list[str] = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def from_time(text: str) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 time with a zone; None for any other text."""
    from datetime import UTC, datetime, timedelta

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    epoch = datetime.fromtimestamp(0, UTC)
    return None if at.tzinfo is None else (at - epoch) // timedelta(milliseconds=1)
