"""Data go to stdout, prose to stderr; nothing else writes to either."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from playbook_supervisor.plain_text import printable


def put(text: str) -> None:
    """A line, or several, of data."""
    sys.stdout.write(f"{text}\n")


def put_json(shape: Mapping[str, object]) -> None:
    """The one object that a command with `--json` prints."""
    import json  # most calls print none

    put(json.dumps(shape, ensure_ascii=False, indent=2))


def tell(text: str) -> None:
    """A line, or several, for a person."""
    sys.stdout.flush()
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def tell_notices(notices: Sequence[str]) -> None:
    """What a session has to say beside what was asked of it, a line each."""
    for notice in notices:
        tell(f"note: {printable(notice)}")


def shows_colour() -> bool:
    """Whether colours on stdout are seen as such, and wanted."""
    if os.environ.get("NO_COLOR"):
        return False
    on_screen = sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return on_screen or bool(os.environ.get("FORCE_COLOR"))


def width() -> int:
    """How many columns the terminal on stdout has; 0 where it is none, or does not say."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def at_a_terminal() -> bool:
    """Whether there is a person who sees a question and can answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
