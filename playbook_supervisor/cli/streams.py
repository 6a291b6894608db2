"""The standard streams: one that is closed, full or abandoned neither ends a command nor fails it.

The exit code says what the command did, not whether its output was read (docs/decisions/0120).
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer

_ASCII = {
    "✓": "+",  # one column wide, like the signs of other rows
    "✗": "x",
    "–": "-",
    "·": "|",
    "◆": "*",
    "…": "...",
    "→": "->",
    "─": "-",
    "▸": ">",
    "↻": "~",
    "↔": "<->",
    "≥": ">=",
    **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"),
}
"""The replacement of each of our signs on a stream that is limited to ASCII."""

_READER_GONE = frozenset({errno.EPIPE, errno.EIO})  # a pipe's reader, or a terminal
_lost: dict[int, OSError] = {}  # descriptor → why nothing can be written to it any more


class _LastingFile(FileIO):
    """Leads its descriptor to the null device when a write fails, and continues."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            while (written := super().write(data)) is None:  # another program made it non-blocking
                import select

                select.select([], [self], [])
        except OSError as error:
            _lost[self.fileno()] = error
            _lead_to_null(self.fileno())
            return memoryview(data).nbytes
        return written


def prepare() -> None:
    """Open streams that are closed (`>&-`), and let stdout and stderr survive every write.

    They replace what they cannot encode instead of raising UnicodeError.
    """
    _lost.clear()
    codecs.register_error("playbook", _replacement)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            _lead_to_null(number)  # so that no file gets this number
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)


def is_abandoned(stream: TextIO) -> bool:
    """True if something that was written did not arrive: its reader left, or a disk is full."""
    return stream.fileno() in _lost


def loss_of_output() -> str:
    """Why stdout is incomplete; empty if it is complete, or if its reader left."""
    error = _lost.get(1)
    return "" if error is None or error.errno in _READER_GONE else error.strerror or str(error)


def _lasting(stream: TextIO) -> TextIO:
    assert isinstance(stream, TextIOWrapper)  # noqa: S101 - nothing has replaced it yet
    try:
        raw = _LastingFile(stream.fileno(), "w", closefd=False)
    except OSError:  # it has no descriptor
        stream.reconfigure(errors="playbook")
        return stream
    stream.flush()
    return TextIOWrapper(
        raw if isinstance(stream.buffer, FileIO) else BufferedWriter(raw),
        encoding=stream.encoding,
        errors="playbook",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _lead_to_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)


def _replacement(error: UnicodeError) -> tuple[str, int]:
    """ASCII for our own signs; JSON escapes for other characters, so that JSON stays valid."""
    assert isinstance(error, UnicodeEncodeError)  # noqa: S101 - these streams are only written to
    missing = error.object[error.start : error.end]
    return "".join(_ASCII.get(sign) or json.dumps(sign)[1:-1] for sign in missing), error.end
