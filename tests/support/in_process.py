"""Runs the program inside the test process: `main()` with its own streams, folder and environment.

Starting a process costs more than most commands. Tests start one only for what needs it: signals,
kills, terminals, closed streams, several at once, or the modules that a command imports.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
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
