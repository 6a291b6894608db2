"""Starts a child process with three pipes, in a session of its own, and waits for its pipes.

Only this module, `processes` and `leash_process` start programs. The child inherits only the
standard three descriptors and those that are named.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from selectors import BaseSelector, SelectorKey
    from typing import IO

POINTERS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"})
"""Set if git runs us. They are removed for children, so that the working directory decides."""
_TICK = 0.1
"""Seconds between two checks of a silent child."""
_FED_AT_ONCE = 512  # POSIX: a pipe reported writable takes this much without blocking
_NOT_STARTABLE = "Check its permissions, its arguments and the limit of open files (`ulimit -n`)."


def spawn(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    feed: bool,
    below: Sequence[str] = (),
    inherited: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `argv`, by the program `below` if there is one. StorageError as `not_startable`.

    Without `feed`, its standard input is empty.
    """
    import subprocess

    try:
        return subprocess.Popen(
            [*below, *argv] or [""],
            cwd=cwd,
            env=without_pointers(env),
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            close_fds=True,
            pass_fds=inherited,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL, or a lone surrogate
        raise not_startable(argv, cwd, error) from error


def not_startable(argv: Sequence[str], cwd: Path, error: OSError | ValueError) -> StorageError:
    """PB-IO-PROGRAM, or PB-IO-READ where the folder is gone."""
    if not cwd.is_dir():
        return StorageError(
            "PB-IO-READ", f"the folder {cwd} is gone", where=str(cwd), cause=str(error)
        )
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return StorageError(
        "PB-IO-PROGRAM",
        f"cannot start {(*argv, '')[0]!r}: {reason}",
        guidance="" if isinstance(error, FileNotFoundError) else _NOT_STARTABLE,
        cause=reason,
    )


def without_pointers(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without `POINTERS`."""
    return {name: value for name, value in env.items() if name not in POINTERS}


def opened(pipe: IO[bytes] | None) -> IO[bytes]:
    """One of a process's pipes."""
    assert pipe is not None  # noqa: S101 - `spawn` asked for it
    return pipe


def ready_pipes(
    selector: BaseSelector, process: subprocess.Popen[bytes]
) -> list[tuple[SelectorKey, int]]:
    """The pipes that are ready within a tick; once all are closed, wait for the process instead."""
    import subprocess

    if selector.get_map():
        return selector.select(_TICK)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_TICK)
    return []


def feed_input(descriptor: int, unfed: memoryview) -> memoryview:
    """Write some input; return the rest, empty once the child has stopped reading."""
    try:
        return unfed[os.write(descriptor, unfed[:_FED_AT_ONCE]) :]
    except BrokenPipeError:
        return unfed[:0]
