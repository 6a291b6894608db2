"""Data go to stdout, prose to stderr; nothing else writes to either."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Mapping, Sequence

from playbook_supervisor.formats.sanitize import printable

_STAND_INS = {
    "✓": "+",  # one column, like what stands in the lines above and below it
    "✗": "x",
    "–": "-",
    "·": "|",
    "◆": "*",
    "…": "...",
    "→": "->",
    "↔": "<->",
    "≥": ">=",
    **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"),
}
"""Each sign of ours, and how a stream shows it that has ASCII alone."""


def show_all() -> None:
    """Whatever is written is shown, as well as the streams can: they raise no UnicodeError."""
    codecs.register_error("playbook", _instead)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="playbook")  # type: ignore[union-attr]


def _instead(error: UnicodeError) -> tuple[str, int]:
    """Stand-ins of our signs; any other character escaped as JSON does, which stays JSON so."""
    import json  # most streams show all

    assert isinstance(error, UnicodeEncodeError)  # noqa: S101 - nothing is read from these streams
    missing = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(sign) or json.dumps(sign)[1:-1] for sign in missing), error.end


def put(text: str) -> None:
    """A line, or several, of data."""
    sys.stdout.write(f"{text}\n")


def put_json(shape: Mapping[str, object]) -> None:
    """The one object that a command with `--json` prints."""
    import json  # most calls print none

    unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    put(json.dumps(shape, ensure_ascii=not unicode, indent=2))  # data are never stood in for


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
