"""The prompt at a gate: it reads one line and stops waiting if the gate is answered elsewhere."""

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
from playbook_supervisor.cli.render.log import write_line
from playbook_supervisor.drivers.observers import PromptAnswer
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import gate_text
from playbook_supervisor.sessions.gate_context import GateContext
from playbook_supervisor.sessions.snapshot import Snapshot

_QUESTION = (Resolution.ANSWER, Resolution.ABORT)
_POLL = 0.25  # seconds between two checks whether the gate was answered elsewhere
_LONGEST = 65_536  # bytes of one line
_INDENT = 3  # columns before a line of the context, and the last one
_OTHER_ROWS = 4  # an empty one, the title, the question's first one, the prompt
_FEWEST = 10  # lines of the context, even on a lower terminal


class Prompt(Record, frozen=False):
    """Asks on stderr and reads stdin. An observer has printed the question already.

    `steps_shown`: it has also listed the steps.
    """

    steps_shown: bool = False
    _unread: bytes = b""
    _shown: str = ""

    def ask(
        self, snapshot: Snapshot, context: GateContext | None, overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        """Print the context once, then wait for a line, or until `overtaken`."""
        if self._shown != text.gate_id(snapshot):
            self._shown = text.gate_id(snapshot)
            self._discard_input()
            for line in self._fitting(snapshot, context):
                write_line(f"  {line}")
        lines: list[str] = []
        for prompt in text.prompts(snapshot):
            with _prompting(prompt):
                typed = self._read_line(overtaken)
            if typed.text is None:
                return typed
            lines.append(typed.text)
            if read_answer(typed.text, _QUESTION).resolution is Resolution.ABORT:
                return typed
        return PromptAnswer("\n".join(lines))

    def _fitting(self, snapshot: Snapshot, context: GateContext | None) -> list[str]:
        """As much of the context as the terminal shows with the question and the prompt."""
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
        others = _OTHER_ROWS + len(text.question(snapshot)) // columns
        most = min(max(rows - others, _FEWEST), gate_text.MOST_LINES)
        width = columns - _INDENT
        return gate_text.lines(context, most=most, width=width, steps_shown=self.steps_shown)

    def not_understood(self, snapshot: Snapshot, question: str) -> None:
        """Ask again: with `question`, or with the choices."""
        write_line(question or f"Please answer {text.choices_of(snapshot)}.")

    def _discard_input(self) -> None:
        """What was typed before the question does not answer it."""
        self._unread = b""
        with suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    def _read_line(self, overtaken: Callable[[], bool]) -> PromptAnswer:
        """Poll, because a signal that changes `overtaken` does not end `select`."""
        source = sys.stdin.fileno()
        while b"\n" not in self._unread and len(self._unread) < _LONGEST:
            if overtaken():
                write_line("")
                return PromptAnswer(overtaken=True)
            if not select.select([source], [], [], _POLL)[0]:
                continue
            data = os.read(source, 4_096)
            if not data:
                write_line("")
                return PromptAnswer()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return PromptAnswer(line.decode("utf-8", "replace"))


@contextmanager
def _prompting(prompt: str) -> Iterator[None]:
    """Show the prompt, and again each time the program returns to the foreground."""

    def show(number: int = 0, frame: FrameType | None = None) -> None:
        del number, frame
        os.write(screen, shown)  # unbuffered: a signal may interrupt a buffered write

    sys.stderr.flush()
    screen, shown = sys.stderr.fileno(), prompt.encode(errors="replace")
    former = signal.signal(signal.SIGCONT, show)
    try:
        show()
        yield
    finally:
        signal.signal(signal.SIGCONT, former)
