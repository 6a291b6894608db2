"""Runs the program inside the test process: `main()` with its own streams, folder and environment.

Starting a process costs more than most commands. Tests start one only for what needs it: signals,
kills, terminals, closed streams, several at once, or the modules that a command imports. Where only
the process matters, a copy of the test process serves, which has imported everything: `Forked`.
"""

from __future__ import annotations

import gc
import json
import os
import posix
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from playbook_supervisor.__main__ import main

_STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    merged: bool = False,
) -> Result:
    """Run `playbook ARGV` to its end. `env` is its whole environment.

    With `merged`, `out` holds both streams in the order in which they were written.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in _STREAMS]
        if merged:
            files[2] = files[1]
        files[0].write(stdin)
        files[0].seek(0)
        stack.enter_context(_process_state())
        stack.enter_context(patch("os.execvpe", side_effect=AssertionError("needs a process")))
        stack.enter_context(_descriptors(files))
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
        os.chdir(cwd)
        sys.argv = ["playbook", *argv]
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = (_content(file) for file in files[1:])
    return Result(code, out, "" if merged else err)


class Forked:
    """`playbook ARGV` in a copy of this process, with one file for all its streams.

    It has the methods of `subprocess.Popen`. `/proc` shows the test process's command line and
    environment. `first` happens before all else.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stream: int,
        first: Callable[[], object],
    ) -> None:
        self.returncode: int | None = None
        with warnings.catch_warnings(action="ignore"):  # of threads, which the copy does not need
            self.pid = os.fork()
        if self.pid == 0:
            try:
                code = _as_program(argv, cwd, env, stream, first)
            except BaseException:
                traceback.print_exc()
                code = 70
            finally:
                posix._exit(code)  # `os._exit` would save coverage

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < until, f"it does not end within {timeout} s"
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _as_program(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], stream: int, first: Callable[[], object]
) -> int:
    """Become the program: what the test process has opened, handles and ignores is undone."""
    sys.settrace(None)
    warnings.resetwarnings()
    for signaled in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        signal.signal(
            signaled, signal.default_int_handler if signaled == signal.SIGINT else signal.SIG_DFL
        )
    os.setsid()
    for number in range(3):
        os.dup2(stream, number)
    first()
    for number, name in enumerate(_STREAMS):
        mode = "r" if number == 0 else "w"
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    tempfile.tempdir = None
    sys.argv = ["playbook", *argv]
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for its threads, as Python does
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def _process_state() -> Iterator[None]:
    """Restore everything that belongs to the process."""
    environment, folder, argv = dict(os.environ), os.open(".", os.O_RDONLY), sys.argv
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    thresholds, mask, temporary = gc.get_threshold(), os.umask(0o022), tempfile.tempdir
    try:
        tempfile.tempdir = None  # a process reads TMPDIR only once
        yield
    finally:
        tempfile.tempdir = temporary
        os.umask(mask)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
        sys.argv = argv
        os.fchdir(folder)
        os.close(folder)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()


@contextmanager
def _descriptors(files: Sequence[IO[bytes]]) -> Iterator[None]:
    """Make these files the standard streams and their descriptors."""
    streams = [getattr(sys, name) for name in _STREAMS]
    for stream in streams[1:]:
        stream.flush()
    saved = [os.dup(number) for number in range(3)]
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        for number, name in enumerate(_STREAMS):
            mode = "r" if number == 0 else "w"
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
        yield
    finally:
        for name, stream in zip(_STREAMS, streams, strict=True):
            getattr(sys, name).close()
            setattr(sys, name, stream)
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number)
            os.close(descriptor)
