"""A terminal: the real program behind a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable

from screen import Screen
from support.in_process import Forked
from support.scratch_project import Project

_PATIENCE = 120.0
_FRAME_ENDS = "\x1b[?2026l"
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")


USUAL: tuple[str, ...] = (sys.executable, "-m", "playbook_supervisor")
AT_ITS_START = ("LANG", "LC_", "PYTHON")
"""Variables that Python reads only at its start: a copy of this process would not heed them."""


class Terminal:
    """`playbook ARGS` on a terminal of `columns` and `lines`; `shown` is the whole output."""

    program = USUAL
    columns, lines = 100, 30

    def __init__(self, project: Project, *args: str, **env: str) -> None:
        self._ours, theirs = pty.openpty()
        size = struct.pack("HHHH", self.lines, self.columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        own = {**project.env, **env}
        env = {**project.environment, "TERM": "xterm-256color", **env}
        measured = any(name.startswith("COVERAGE_") for name in env)
        self.process: Forked | subprocess.Popen[bytes]
        fresh = measured or any(name.startswith(AT_ITS_START) for name in own)
        if self.program == USUAL and not fresh:
            self.process = Forked(
                args, cwd=project.root, env=env, stream=theirs, first=_take_control
            )
        else:
            self.process = subprocess.Popen(
                [*self.program, *args],
                cwd=project.root,
                env=env,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=_take_control,  # in this order: a session of its own, then its terminal
            )
        os.close(theirs)
        self.raw = ""
        self._read_to = self._drawn_to = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    @property
    def shown(self) -> str:
        """The text without escape sequences."""
        return _SEQUENCE.sub("", self.raw).replace("\r", "")

    def until(self, text: str) -> str:
        """Wait for this text, after the text of the previous call."""
        end = time.monotonic() + _PATIENCE
        while text not in self.shown[self._read_to :]:
            assert time.monotonic() < end, f"{text!r} is not shown:\n{self.shown}"
            assert self._more(), f"it ended without {text!r}:\n{self.shown}"
        self._read_to = self.shown.index(text, self._read_to) + len(text)
        return self.shown

    def draw_on(self, screen: Screen, holds: Callable[[list[str]], bool]) -> None:
        """Copy each picture to `screen` until one satisfies the condition."""
        end = time.monotonic() + _PATIENCE
        while True:
            while (stop := self.raw.find(_FRAME_ENDS, self._drawn_to)) < 0:
                assert self._more(), f"it ended before that was drawn:\n{self.shown}"
            screen.feed(self.raw[self._drawn_to : (stop := stop + len(_FRAME_ENDS))])
            self._drawn_to = stop
            if holds(screen.text):
                return
            assert time.monotonic() < end, f"that is not drawn: {screen.text}"

    def draw_rest(self, screen: Screen) -> None:
        """Copy what was written after that picture."""
        screen.feed(self.raw[self._drawn_to :])
        self._drawn_to = len(self.raw)

    def type(self, text: str) -> None:
        """Type this text."""
        os.write(self._ours, text.encode())

    def resize(self, columns: int, lines: int = 30) -> None:
        """Change the size, which sends the program a signal."""
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        end = time.monotonic() + _PATIENCE
        while self._more():
            assert time.monotonic() < end, f"it does not end:\n{self.shown}"
        return self.process.wait(_PATIENCE)

    def _more(self) -> bool:
        """Read the output so far; whether there may be more."""
        ready, _, _ = select.select([self._ours], [], [], 0.2)
        if not ready:
            return self.process.poll() is None
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the other end is closed
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


def _take_control() -> None:
    """Make stdin the controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
