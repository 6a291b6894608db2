"""Starts a child process with three pipes, in a session of its own, and waits for its pipes.

Only this module, `processes` and `leash_process` start programs. The child inherits only the
standard three descriptors. Commands that only read are started together.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.process.cancellation import Interrupted, cancel_requested
from playbook_supervisor.system.process.process_groups import signal_group, until

if TYPE_CHECKING:
    import subprocess
    from selectors import BaseSelector, SelectorKey

POINTERS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"})
"""Set if git runs us. They are removed for children, so that the working directory decides."""
_TICK = 0.1  # seconds between two checks of a silent child
_CHUNK = 1 << 16
_KILL = 9  # SIGKILL; the import of `signal` takes a while
_FED_AT_ONCE = 512  # POSIX: a pipe reported writable takes this much without blocking
_NOT_STARTABLE = "Check its permissions, its arguments and the limit of open files (`ulimit -n`)."


def spawn(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, stdin: bytes | int
) -> subprocess.Popen[bytes]:
    """Start `argv`; the caller feeds bytes through its pipe. StorageError as `not_startable`."""
    import subprocess

    pipe = subprocess.PIPE if stdin else subprocess.DEVNULL
    try:
        return subprocess.Popen(
            [*argv] or [""],
            cwd=cwd,
            env=without_pointers(env),
            stdin=pipe if isinstance(stdin, bytes) else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL, or a lone surrogate
        raise not_startable(argv, cwd, error) from error


def read_outputs(
    commands: Sequence[Sequence[str]],
    env: Mapping[str, str],
    *,
    timeout: float,
    cap: int,
    stdin: str = os.devnull,
) -> list[tuple[int, bytes, bytes]]:
    """Run commands that only read, all at the same time: exit status, stdout, stderr of each.

    Without `subprocess`, whose import takes longer than git. `env` is their environment as it is,
    `POINTERS` included; `stdin` is the file that they read. StorageError as `not_startable`.
    TimeoutError if they take longer than that many seconds, OSError if one writes more than `cap`
    bytes, and Interrupted if a person asks to stop; they are then ended.
    """
    ends = time.monotonic() + timeout
    started: list[int] = []
    pipes: dict[int, bytearray] = {}
    poll = select.poll()
    try:
        for argv in commands:
            process, outputs = _started(argv, env, stdin)
            started.append(process)
            for output in outputs:
                pipes[output] = bytearray()
                poll.register(output, select.POLLIN)
        unread = set(pipes)
        while unread:
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if cancel_requested():
                raise Interrupted
            for output, _ in poll.poll(min(left, _TICK) * 1000):
                chunk = os.read(output, _CHUNK)
                pipes[output] += chunk
                if not chunk:
                    poll.unregister(output)
                    unread.remove(output)
                elif len(pipes[output]) > cap:
                    raise OSError(f"its output is larger than {cap:,} bytes")
        read = list(map(bytes, pipes.values()))
        statuses = [_ended(started.pop(0)) for _ in commands]
        return list(zip(statuses, read[::2], read[1::2], strict=True))
    finally:
        for output in pipes:
            os.close(output)
        for process in started:
            signal_group(process, _KILL)
            _ended(process)


def spawn_silent(argv: Sequence[str], *, stdin: int) -> int:
    """Start a program of ours, in its own group, that prints nothing and reads `stdin`. OSError."""
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(argv[0], list(argv), os.environ, file_actions=actions, setpgroup=0)


def start_apart(argv: Sequence[str], cwd: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, which outlives us and reads nothing.

    The caller waits for it. StorageError as `not_startable`.
    """
    import subprocess

    try:
        return subprocess.Popen(
            [*argv],
            cwd=cwd,
            env=without_pointers(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise not_startable(argv, cwd, error) from error


def _started(
    argv: Sequence[str], env: Mapping[str, str], stdin: str
) -> tuple[int, tuple[int, int]]:
    """The process, in a group of its own, and the reading ends of its stdout and stderr."""
    (stdout, to_stdout), (stderr, to_stderr) = os.pipe(), os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, to_stdout, 1),
        (os.POSIX_SPAWN_DUP2, to_stderr, 2),
    ]
    try:
        process = os.posix_spawnp(argv[0], list(argv), env, file_actions=actions, setpgroup=0)
    except (OSError, ValueError) as error:
        os.close(stdout)
        os.close(stderr)
        raise not_startable(argv, Path(), error) from error
    finally:
        os.close(to_stdout)
        os.close(to_stderr)
    return process, (stdout, stderr)


def _ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def not_startable(argv: Sequence[str], cwd: Path, error: OSError | ValueError) -> StorageError:
    """PB-IO-PROGRAM, or PB-IO-READ where the folder is gone."""
    if not cwd.is_dir():
        said = f"the folder {cwd} is gone"
        return StorageError("PB-IO-READ", said, where=str(cwd), cause=str(error))
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    cure = "" if isinstance(error, FileNotFoundError) else _NOT_STARTABLE
    said = f"cannot start {(*argv, '')[0]!r}: {reason}"
    return StorageError("PB-IO-PROGRAM", said, guidance=cure, cause=reason)


def without_pointers(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without `POINTERS`."""
    return {name: value for name, value in env.items() if name not in POINTERS}


def opened(pipe: IO[bytes] | None) -> IO[bytes]:
    """One of a process's pipes."""
    assert pipe is not None  # noqa: S101 - `spawn` asked for it
    return pipe


def ready_pipes(
    selector: BaseSelector, poll: Callable[[], int | None]
) -> list[tuple[SelectorKey, int]]:
    """The pipes that are ready within a tick; once all are closed, wait for the process instead."""
    if selector.get_map():
        return selector.select(_TICK)
    until(lambda: poll() is not None, _TICK)
    return []


def feed_input(descriptor: int, unfed: memoryview) -> memoryview:
    """Write some input; return the rest, empty once the child has stopped reading."""
    try:
        return unfed[os.write(descriptor, unfed[:_FED_AT_ONCE]) :]
    except BrokenPipeError:
        return unfed[:0]
