"""Progress if stderr is not a terminal: one line for each event."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from playbook_supervisor.cli.options import Level
from playbook_supervisor.cli.render import text
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.state import Change, Event
from playbook_supervisor.sessions.store.snapshot import Snapshot

_CHECK_INTERVAL = 30  # seconds between two lines about the same check


def write(text: str) -> None:
    """Write to stderr; a closed terminal or pipe must not stop the run."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def write_line(line: str) -> None:
    """Write a line to stderr."""
    write(f"{line}\n")


class Log(Observer):
    """An observer that writes lines."""

    def __init__(
        self,
        level: Level = Level.INFO,
        *,
        colour: bool = False,
        write: Callable[[str], None] = write_line,
    ) -> None:
        self.level, self.colour, self.write = level, colour, write

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        line = text.event_line(event, snapshot, now())
        if line and (self.level >= Level.INFO or event.change is Change.FAILED):
            self.write(line)

    def on_output(self, attempt: Attempt, line: str) -> None:
        if self.level >= Level.DEBUG:
            self.write(f"{text.stamp(now())} {attempt.id} says {first_line(line, 400)}")

    def on_check(self, attempt: Attempt, shown: str, seconds: int) -> None:
        if self.level >= Level.INFO and seconds % _CHECK_INTERVAL == 0:
            self.write(f"{text.stamp(now())} {attempt.id} {shown}")

    def on_gate(self, snapshot: Snapshot) -> None:
        at = text.asked(snapshot).member.id
        line = f"{text.stamp(now())} {at} WAITS FOR A HUMAN: {text.question(snapshot)}"
        self.write(f"\x1b[1;33m{line}\x1b[0m" if self.colour else line)

    def on_notice(self, text: str) -> None:
        if self.level >= Level.WARNING:
            self.write(f"note: {printable(text)}")


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
