"""Writing to the standard streams: data to stdout, messages to stderr. No other module does."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.directive_line import defused, in_json
from playbook_supervisor.formats.sanitize import first_line, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}
_FIXED = frozenset({"dumb", "unknown", ""})
"""Values of $TERM whose cursor cannot move."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_QUOTED = re.compile(r"`[^`]+`")
_UNBROKEN = "\N{NO-BREAK SPACE}"


def write(*lines: str, quotes: bool = True, width: int = 0) -> None:
    """Write lines of data to stdout. A model may read them: none may look like a directive.

    Without `quotes` they are ours, or have been made harmless already. They are wrapped between
    words at this `width`, 0 is none.
    """
    wrapped = (_wrapped(line, width) for line in lines)
    sys.stdout.writelines(f"{defused(line) if quotes else line}\n" for line in wrapped)


def write_json(shape: Mapping[str, object]) -> None:
    """Write the one object that a command with `--json` prints."""
    unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(shape, ensure_ascii=not unicode, indent=2)  # data must keep its characters
    write(in_json(text), quotes=False)


def inform(*lines: str) -> None:
    """Write lines for the user to stderr; a terminal gets them wrapped between words."""
    sys.stdout.flush()
    width = _columns(sys.stderr)
    sys.stderr.writelines(f"{defused(_wrapped(line, width))}\n" for line in lines)
    sys.stderr.flush()


def show_notices(notices: Sequence[str]) -> None:
    """Write each notice of a session as a line on stderr."""
    inform(*(f"note: {printable(notice)}" for notice in notices))


def confirmed(question: str, meaning: str, *, default: bool) -> bool:
    """Ask a yes-or-no question at the terminal, again with its `meaning` after any other answer.

    ArgumentError PB-ARG-USAGE at the end of the input.
    """
    sys.stdout.flush()
    asked = f"{question} [{'Y/n' if default else 'y/N'}]"
    while True:
        sys.stderr.write(f"{_wrapped(asked, _columns(sys.stderr))} ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        answer = line.strip().casefold()
        if not line:
            sys.stderr.write("\n")
            guidance = "Answer y or n. Nothing was changed."
            raise ArgumentError(
                "PB-ARG-USAGE", "the input ended without an answer", guidance=guidance
            )
        if (said := _ANSWERS.get(answer) if answer else default) is not None:
            return said
        inform(f"Answer y or n; Enter means {'y' if default else 'n'}. {meaning}")


def wants_colour() -> bool:
    """True if stdout should have colours."""
    if os.environ.get("NO_COLOR"):
        return False
    return can_redraw(sys.stdout) or bool(os.environ.get("FORCE_COLOR"))


def terminal_width() -> int:
    """The columns of the terminal on stdout; 0 if stdout is not a terminal or has no size."""
    return _columns(sys.stdout)


def is_interactive() -> bool:
    """True if a user can see a question on stderr and answer it on stdin."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def can_redraw(stream: TextIO) -> bool:
    """True if the stream is a terminal whose cursor can move."""
    return stream.isatty() and os.environ.get("TERM", "") not in _FIXED


def bell(notice: str) -> str:
    """The sequence that rings a terminal, with the notice in both notations (OSC 9 and 777)."""
    text = first_line(notice).replace(";", ",")
    return f"\a\x1b]9;{text}\a\x1b]777;notify;playbook;{text}\a"


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def _wrapped(text: str, width: int) -> str:
    """What continues a line is indented further. No command in backquotes is broken, since people
    copy it, and a line with a word that is too long is left as it is."""
    if not width:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in _pieces(line, width))


def _pieces(line: str, width: int) -> list[str]:
    if len(_STYLE.sub("", line)) <= width:
        return [line]
    from textwrap import wrap

    indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
    pieces = wrap(
        _QUOTED.sub(lambda quoted: quoted[0].replace(" ", _UNBROKEN), line),
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
    if any(len(piece) > width for piece in pieces):
        return [line]
    return [piece.replace(_UNBROKEN, " ") for piece in pieces]
