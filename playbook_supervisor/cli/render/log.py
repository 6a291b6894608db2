"""Progress where stderr is no terminal: one line for each thing that happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import IntEnum

from playbook_supervisor.cli.render import text
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.directives import Attempt
    from playbook_supervisor.kernel.state import Event
    from playbook_supervisor.sessions.snapshot import Snapshot


class Level(IntEnum):
    """How much is said; a gate and what goes wrong are always said."""

    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


def to_stderr(line: str) -> None:
    """A line on stderr."""
    put(f"{line}\n")


def put(text: str) -> None:
    """Text on stderr. Whoever watches must not break the run: a reader that left is no error."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return


class Log(Record):
    """A watcher that writes lines (cat NFR-4.1)."""

    level: Level = Level.INFO
    colour: bool = False
    write: Callable[[str], None] = to_stderr

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        """A fact has been journaled."""
        line = text.happened(event, snapshot, now())
        if line and (self.level >= Level.INFO or event.change is Change.FAILED):
            self.write(line)

    def on_output(self, attempt: Attempt, line: str) -> None:
        """A worker said something."""
        if self.level >= Level.DEBUG:
            self.write(f"{text.stamp(now())} {attempt.id} says {first_line(line, 400)}")

    def on_gate(self, snapshot: Snapshot) -> None:
        """A gate is open."""
        line = text.waiting(snapshot, now())
        self.write(f"\x1b[1;33m{line}\x1b[0m" if self.colour else line)

    def on_end(self, snapshot: Snapshot) -> None:
        """The summary says so."""

    def on_notice(self, text: str) -> None:
        """A sentence for the person."""
        if self.level >= Level.WARNING:
            self.write(f"note: {printable(text)}")


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
