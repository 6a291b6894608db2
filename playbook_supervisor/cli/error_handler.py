"""The one place where errors end: three lines at most, and an exit code.

What, where, how to mend it. What nobody foresaw becomes a file that can be pasted into a report.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from playbook_supervisor.cli.streams import put_json, tell
from playbook_supervisor.errors import PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    E = TypeVar("E", bound=Exception)

INTERRUPTED = 130
BUG = 70
_GONE = 141  # what a shell says of a program whose reader went away
_LONGEST = 1_000


def guarded(action: Callable[[], int], argv: Sequence[str]) -> int:
    """Run it and return its exit code, whatever it raises. `argv` says how to tell errors."""
    try:
        code = action()
        sys.stdout.flush()
    except PlaybookError as error:
        return _quietly(_told, error, argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if _nobody_reads(error):
            return _reader_gone()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            return _quietly(_told, _full(error), argv)
        return _quietly(_bug, error, argv)
    return code


def wants_json(argv: Sequence[str]) -> bool:
    """Whether the command is one that prints an object, and nothing else, on stdout."""
    options = _options(argv)
    return "--json" in options or "--format=json" in options or "--format json" in " ".join(options)


def _options(argv: Sequence[str]) -> list[str]:
    words = list(argv)
    return words[: words.index("--")] if "--" in words else words


def _told(error: PlaybookError, argv: Sequence[str]) -> int:
    if "--debug" in _options(argv):
        _trace(error)
    _show(error, argv)
    return error.exit_code


def _show(error: PlaybookError, argv: Sequence[str]) -> None:
    if wants_json(argv):
        shape: dict[str, object] = dict(error.as_mapping())
        if error.details:
            shape["details"] = list(error.details)
        put_json({"protocol": 1, "error": shape})
        sys.stdout.flush()
    tell(f"error: {first_line(error.message, _LONGEST)} [{error.code}]")
    if error.where:
        tell(f"  at: {first_line(error.where, _LONGEST)}")
    if error.guidance:
        tell(f"  do: {first_line(error.guidance, _LONGEST)}")


def _bug(error: Exception, argv: Sequence[str]) -> int:
    if "--debug" in _options(argv):
        _trace(error)
    told = PlaybookError(
        "PB-BUG",
        f"this should not have happened: {type(error).__name__}: {first_line(str(error))}",
        where=_report(error, argv),
        guidance="Please report it, with the file named; look through it before you do.",
    )
    _show(told, argv)
    return BUG


def _report(error: Exception, argv: Sequence[str]) -> str:
    """Write what is needed to understand it: no arguments' values, no environment."""
    import platform
    import tempfile
    import traceback

    from playbook_supervisor import __version__

    command = " ".join(word.partition("=")[0] for word in [*argv[:1], *_flags(argv[1:])])
    lines = [
        f"playbook {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"playbook {command}",
        "",
        *traceback.format_exception(error),
    ]
    text = "\n".join(lines).replace(str(Path.home()), "~")
    try:
        handle, path = tempfile.mkstemp(prefix="playbook-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as refused:
        return f"no report could be written: {refused.strerror}"
    return path


def _flags(words: Sequence[str]) -> list[str]:
    return [word for word in _options(words) if word.startswith("-")]


def _trace(error: Exception) -> None:
    import traceback

    tell("".join(traceback.format_exception(error)).rstrip())


def _quietly(tell: Callable[[E, Sequence[str]], int], error: E, argv: Sequence[str]) -> int:
    try:
        return tell(error, argv)
    except OSError as failure:
        if not _nobody_reads(failure):
            raise
        return _reader_gone()


def _nobody_reads(error: Exception) -> bool:
    """A pipe was left, or a terminal closed; what fails with a file of ours has a name."""
    hung_up = isinstance(error, OSError) and error.errno == errno.EIO and error.filename is None
    return hung_up or isinstance(error, BrokenPipeError)


def _full(error: OSError) -> StorageError:
    """No file of ours, which would have a name: what stdout leads to is full."""
    _silence(1)
    said = f"what was to be printed cannot be written: {error.strerror}"
    return StorageError(
        "PB-IO-WRITE", said, where="stdout", guidance="Make room where stdout leads."
    )


def _reader_gone() -> int:
    """Nobody reads any more: end without a word."""
    _silence(1, 2)
    return _GONE


def _silence(*descriptors: int) -> None:
    """Nothing reaches them from here on, also not by the interpreter's own last flush."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
