"""The prompt at a gate: a person reads, types a line, and is not kept waiting by anyone else."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.log import to_stderr
from playbook_supervisor.drivers.observers import PromptAnswer
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.snapshot import Snapshot

_POLL = 0.25  # seconds between two looks at whether the gate was answered elsewhere
_LONGEST = 65_536  # bytes of one line; nobody types more


class Prompt(Record, frozen=False):
    """A person at a terminal: asked on stderr, heard on stdin. Whoever watches put the question."""

    _unread: bytes = b""
    _shown: str = ""

    def ask(
        self, outlook: Snapshot, context: tuple[str, ...], overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        """Show what helps, once, and wait for a line until there is no need to."""
        if self._shown != text.gate_id(outlook):
            self._shown = text.gate_id(outlook)
            self._forget_what_was_typed()
            for line in text.context(context):
                to_stderr(f"  {line}")
        with _shown_again(text.prompt(outlook)):
            return self._listen(overtaken)

    def not_understood(self, outlook: Snapshot, question: str) -> None:
        """Say that it was no answer, and what to ask back."""
        to_stderr(question or f"That is no answer here: say {text.choices_of(outlook)}.")

    def _forget_what_was_typed(self) -> None:
        """A line counts for the question that it follows: none was shown for what came before."""
        self._unread = b""
        with suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    def _listen(self, overtaken: Callable[[], bool]) -> PromptAnswer:
        """A signal does not end the wait, but it is news, and so `overtaken` is asked often."""
        source = sys.stdin.fileno()
        while b"\n" not in self._unread and len(self._unread) < _LONGEST:
            if overtaken():
                to_stderr("")
                return PromptAnswer(overtaken=True)
            if not select.select([source], [], [], _POLL)[0]:
                continue
            data = os.read(source, 4_096)
            if not data:
                to_stderr("")
                return PromptAnswer()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return PromptAnswer(line.decode("utf-8", "replace"))


@contextmanager
def _shown_again(prompt: str) -> Iterator[None]:
    """Show it, and once more whenever the program comes back to the foreground."""

    def show(number: int = 0, frame: FrameType | None = None) -> None:
        del number, frame
        os.write(screen, shown)  # a signal may come in the middle of it: buffers take that ill

    sys.stderr.flush()
    screen, shown = sys.stderr.fileno(), prompt.encode(errors="replace")
    former = signal.signal(signal.SIGCONT, show)
    try:
        show()
        yield
    finally:
        signal.signal(signal.SIGCONT, former)
