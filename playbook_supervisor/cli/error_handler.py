"""Turns every exception into an exit code and at most three lines: what, where, how to fix it.

An unexpected exception is written to a file that the user can attach to a bug report.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.cli import streams
from playbook_supervisor.cli.output import inform, write_json
from playbook_supervisor.errors import PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import first_line

INTERRUPTED = 130
_LINE = 1_000
_DRIVES = frozenset({"run", "resume", "rpc"})
"""Commands whose errors are envelopes, too."""
_NO_MEMORY = b"error: a limit of this system: not enough memory [PB-IO-LIMIT]\n"
_LIMITS = frozenset(
    {
        *(errno.EAGAIN, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE),
        *(errno.ENOENT, errno.ENOMEM, errno.ENOSPC, errno.EROFS),  # ENOENT: no temporary folder
    }
)


def guarded(action: Callable[[], int], argv: Sequence[str]) -> int:
    """Run the action, handle every exception and return an exit code; `argv` says how to print."""
    try:
        code = action()
    except PlaybookError as error:
        code = _print_error(error, argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        try:
            code = _print_unexpected(error, argv)
        except MemoryError:  # its first sign is often a SystemError of the interpreter
            os.write(2, _NO_MEMORY)
            return StorageError.exit_code
    sys.stdout.flush()
    if loss := streams.loss_of_output():
        inform(f"note: the output is incomplete, because stdout cannot be written: {loss}")
    return code


def _print_unexpected(error: Exception, argv: Sequence[str]) -> int:
    if limit := of_the_machine(error):
        limit.__cause__ = error  # shown by --debug
        return _print_error(limit, argv)
    bug = PlaybookError(
        "PB-BUG",
        f"internal error: {type(error).__name__}: {first_line(str(error))}",
        where=_write_report(error, argv),
        guidance="Please report this bug and attach that file; read the file before you send it.",
    )
    return _print_error(bug, argv, traced=error)


def of_the_machine(error: Exception) -> StorageError | None:
    """The error that says what this machine does not allow; None if the exception is our bug.

    An OSError with a file name, wherever it comes from, is about that file: it vanished, another
    user owns it, or something else is in its place.
    """
    reason, where = str(error), ""
    match error:
        case OSError(filename=str() | bytes() as name, strerror=str(reason)):
            where = os.fsdecode(name)
            return StorageError(
                "PB-IO-READ", f"cannot use {where}: {reason}", where=where, cause=reason
            )
        case OSError(errno=number, strerror=str(reason)) if number in _LIMITS:
            pass
        case MemoryError():
            reason = "not enough memory"
        case ImportError(path=str() as path) if path.endswith(".so"):
            pass  # a library that cannot be loaded
        case RuntimeError() if reason.startswith("can't start new thread"):
            pass
        case _:
            return None
    return StorageError("PB-IO-LIMIT", f"a limit of this system: {reason}", cause=reason)


def wants_json(argv: Sequence[str]) -> bool:
    """True if the command prints one JSON object, and nothing else, to stdout."""
    options = _options(argv)
    if _command(argv) == "rpc":
        return True
    return "--json" in options or "--format=json" in options or "--format json" in " ".join(options)


def _command(argv: Sequence[str]) -> str:
    """The subcommand; before it, one of the program's options takes a value."""
    words = iter(argv)
    for word in words:
        if word == "--log-level":
            next(words, "")
        elif not word.startswith("-"):
            return word
    return ""


def _options(argv: Sequence[str]) -> list[str]:
    words = list(argv)
    return words[: words.index("--")] if "--" in words else words


def write_error(error: PlaybookError, *, envelope: bool) -> None:
    """Write the error to stdout; as an `envelope` of the Tyrum contract, where one is promised."""
    shape: dict[str, object] = dict(error.as_mapping())
    for key in shape.keys() & {"message", "where"}:  # a path may be of thousands of characters
        shape[key] = first_line(str(shape[key]), _LINE)
    if error.details:
        shape["details"] = list(error.details)
    printed: dict[str, object] = {"protocol": 1}
    if envelope and error.session:
        printed["session"] = error.session
    printed |= {"ok": False, "error": shape, "output": []} if envelope else {"error": shape}
    if envelope and error.resume_token:
        printed["resumeToken"] = error.resume_token
    write_json(printed)
    sys.stdout.flush()


def _print_error(error: PlaybookError, argv: Sequence[str], traced: Exception | None = None) -> int:
    if "--debug" in _options(argv):
        import traceback

        inform("".join(traceback.format_exception(traced or error)).rstrip())
    if wants_json(argv):
        write_error(error, envelope=_command(argv) in _DRIVES)
    lines = [f"error: {first_line(error.message, _LINE)} [{error.code}]"]
    if error.where:
        lines.append(f"  at: {first_line(error.where, _LINE)}")
    if error.guidance:
        lines.append(f"  do: {first_line(error.guidance, _LINE)}")
    inform(*lines)
    return error.exit_code


def _write_report(error: Exception, argv: Sequence[str]) -> str:
    """Write the report, without values of arguments and without the environment."""
    import platform
    import tempfile
    import traceback

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
