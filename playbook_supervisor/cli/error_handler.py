"""Turns every exception into an exit code and at most three lines: what, where, how to fix it.

An unexpected exception is written to a file that the user can attach to a bug report.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from playbook_supervisor.cli.output import inform, write_json
from playbook_supervisor.errors import PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    E = TypeVar("E", bound=Exception)

INTERRUPTED = 130
BUG = 70
_BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE ended
_LINE = 1_000


def guarded(action: Callable[[], int], argv: Sequence[str]) -> int:
    """Run the action and return an exit code, whatever it raises; `argv` says how to print."""
    try:
        code = action()
        sys.stdout.flush()
    except PlaybookError as error:
        return _without_pipe_errors(_print_error, error, argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if _is_reader_gone(error):
            return _end_silently()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            return _without_pipe_errors(_print_error, _stdout_full(error), argv)
        return _without_pipe_errors(_print_bug, error, argv)
    return code


def wants_json(argv: Sequence[str]) -> bool:
    """Whether the command prints one JSON object, and nothing else, to stdout."""
    options = _options(argv)
    return "--json" in options or "--format=json" in options or "--format json" in " ".join(options)


def _options(argv: Sequence[str]) -> list[str]:
    words = list(argv)
    return words[: words.index("--")] if "--" in words else words


def _print_error(error: PlaybookError, argv: Sequence[str]) -> int:
    if "--debug" in _options(argv):
        _print_traceback(error)
    _print_lines(error, argv)
    return error.exit_code


def _print_lines(error: PlaybookError, argv: Sequence[str]) -> None:
    if wants_json(argv):
        shape: dict[str, object] = dict(error.as_mapping())
        if error.details:
            shape["details"] = list(error.details)
        write_json({"protocol": 1, "error": shape})
        sys.stdout.flush()
    inform(f"error: {first_line(error.message, _LINE)} [{error.code}]")
    if error.where:
        inform(f"  at: {first_line(error.where, _LINE)}")
    if error.guidance:
        inform(f"  do: {first_line(error.guidance, _LINE)}")


def _print_bug(error: Exception, argv: Sequence[str]) -> int:
    if "--debug" in _options(argv):
        _print_traceback(error)
    bug = PlaybookError(
        "PB-BUG",
        f"internal error: {type(error).__name__}: {first_line(str(error))}",
        where=_write_report(error, argv),
        guidance="Please report this bug and attach that file; read the file before you send it.",
    )
    _print_lines(bug, argv)
    return BUG


def _write_report(error: Exception, argv: Sequence[str]) -> str:
    """Write the report, without values of arguments and without the environment."""
    import platform
    import tempfile
    import traceback

    from playbook_supervisor import __version__

    flags = [word for word in _options(argv[1:]) if word.startswith("-")]
    command = " ".join(word.partition("=")[0] for word in [*argv[:1], *flags])
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
    except OSError as failure:
        return f"the report could not be written: {failure.strerror}"
    return path


def _print_traceback(error: Exception) -> None:
    import traceback

    inform("".join(traceback.format_exception(error)).rstrip())


def _without_pipe_errors(
    show: Callable[[E, Sequence[str]], int], error: E, argv: Sequence[str]
) -> int:
    try:
        return show(error, argv)
    except OSError as failure:
        if not _is_reader_gone(failure):
            raise
        return _end_silently()


def _is_reader_gone(error: Exception) -> bool:
    """A pipe or a terminal was closed; an error of one of our files has a file name."""
    hung_up = isinstance(error, OSError) and error.errno == errno.EIO and error.filename is None
    return hung_up or isinstance(error, BrokenPipeError)


def _stdout_full(error: OSError) -> StorageError:
    """The error has no file name, so the disk that stdout is redirected to is full."""
    _discard(1)
    return StorageError(
        "PB-IO-WRITE",
        f"the output cannot be written: {error.strerror}",
        where="stdout",
        guidance="Free space where stdout is redirected to.",
    )


def _end_silently() -> int:
    _discard(1, 2)
    return _BROKEN_PIPE


def _discard(*descriptors: int) -> None:
    """Lead them to the null device, also for the interpreter's last flush."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)
