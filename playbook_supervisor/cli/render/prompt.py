"""The prompt at a gate: it reads one line and stops waiting if the gate is answered elsewhere."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from types import FrameType

from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.log import write_line
from playbook_supervisor.commands.views.queries import changes_since_beginning
from playbook_supervisor.drivers.observers import PromptAnswer
from playbook_supervisor.formats.file_changes import Changes, FileChange, visible
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel import requests
from playbook_supervisor.kernel.answers import meanings_of, read_answer
from playbook_supervisor.kernel.gates import PLANNED
from playbook_supervisor.kernel.vocabulary import GateReason, Resolution
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.store.snapshot import Snapshot

_QUESTION = (Resolution.ANSWER, Resolution.ABORT)
_POLL = 0.25  # seconds between two checks whether the gate was answered elsewhere
_IN_WORDS = "Words of your own may stand beside the choice: `fixed the test, continue`."
_LONGEST = 65_536  # bytes of one line
_INDENT = 3  # columns before a line of the context, and the last one
_OTHER_ROWS = 4  # an empty one, the title, the question's first one, the prompt
_FEWEST = 10  # lines of the context, even on a lower terminal
_NARROWEST = 20  # columns of the context, even on a narrower one
_MOST = 400  # lines of a diff
_SIGNS = {"added": "+", "removed": "-", "context": " ", "remark": " "}


@dataclass(slots=True)
class Prompt:
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
        if self._shown != (gate := text.asked(snapshot).id):
            self._shown = gate
            self._discard_input()
            for line in self._fitting(snapshot, context):
                write_line(f"  {line}")
        lines: list[str] = []
        for prompt in _prompts(snapshot):
            typed = self._typed(prompt, snapshot, overtaken)
            if typed.text is None:
                return typed
            lines.append(typed.text)
            if read_answer(typed.text, _QUESTION).resolution is Resolution.ABORT:
                return typed
        return PromptAnswer("\n".join(lines))

    def _typed(
        self, prompt: str, snapshot: Snapshot, overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        """The next line but `?` and, unless words are wanted, `diff`: these only show something."""
        while True:
            with _prompting(prompt):
                typed = self._read_line(overtaken)
            match (typed.text or "").strip().casefold():
                case "?" | "help":
                    shown = _meanings(snapshot)
                case "d" | "diff" if Resolution.ANSWER not in text.asked(snapshot).choices:
                    own = snapshot.of(text.asked(snapshot).member)
                    changes = changes_since_beginning(own.store, own.session_id)
                    shown = list(diff_lines(changes))
                case _:
                    return typed
            for line in shown:
                write_line(f"  {line}")

    def _fitting(self, snapshot: Snapshot, context: GateContext | None) -> list[str]:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
        columns, rows = columns or 80, rows or 24  # a container's terminal has no size
        others = _OTHER_ROWS + len(text.question(snapshot)) // columns
        most = min(max(rows - others, _FEWEST), gate_text.MOST_LINES)
        width = max(columns - _INDENT, _NARROWEST)
        return gate_text.lines(context, most=most, width=width, steps_shown=self.steps_shown)

    def not_understood(self, snapshot: Snapshot, question: str) -> None:
        """Ask again: with `question`, or with the choices."""
        write_line(question or f"Please answer {text.choices_of(snapshot)}.")

    def _discard_input(self) -> None:
        """Input from before the question does not answer it."""
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


def _prompts(snapshot: Snapshot) -> list[str]:
    """`(? for help) continue (Enter), skip or abort > `: the choices; Enter is an empty line.

    An agent's questions are answered one by one, with a prompt for each.
    """
    asked = text.asked(snapshot)
    if asked.reason is GateReason.QUESTION:
        questions = requests.questions(asked.request)
        ways = text.choices_of(snapshot)
        if len(questions) < 2:
            return [f"{ways} > "]
        total = len(questions)
        return [
            f"{number}/{total} {first_line(each, 400)} ({ways}) > "
            for number, each in enumerate(questions, 1)
        ]
    words = list(asked.words)
    if asked.reason in PLANNED:
        words[words.index(Resolution.CONTINUE)] += " (Enter)"
    return [f"(? for help) {text.joined(words)} > "]


def _meanings(snapshot: Snapshot) -> list[str]:
    asked = text.asked(snapshot)
    meant = meanings_of(asked.reason)
    named = zip(asked.choices, asked.words, strict=True)
    ways = [f"{word:<9}{' ' * (len(word) > 8)}{meant[choice]}" for choice, word in named]
    if Resolution.ANSWER in asked.choices:
        return ways
    return [*ways, f"{'diff':<9}show what has changed since the session began", _IN_WORDS]


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


# ── what has changed ─────────────────────────────────────────────────────────────────────────


def diff_lines(changes: Changes) -> Iterator[str]:
    """The first lines of the changes, harmless, and how many more there are."""
    if not changes.files:
        yield "nothing has changed" if changes.exact else "not known; `git status` may tell"
        return
    shown = (line for file in changes.files for line in _file(file))
    yield from islice(shown, _MOST)
    if next(shown, None) is not None:
        yield "… and more: `git diff` and `git status` show all"
    yield changes.summary


def _file(file: FileChange) -> Iterator[str]:
    yield f"── {visible(', '.join([f'{file.path} ({file.kind})', *file.notes]))}"
    for hunk in file.hunks:
        yield visible(hunk.heading)
        yield from (f"{_SIGNS[line.kind]}{visible(line.text)}" for line in hunk.lines)
    if file.left_out:
        yield f"… {counted(file.left_out, 'more line')}"
