"""The last line of each running worker, in a small file that other terminals read.

The file is written at most once a second; nothing depends on it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.system.files import read_bytes, remove, write_atomically

NAME = "said.json"
_INTERVAL = 1.0  # seconds between two writes
_MAX_SIZE = 1 << 20


class LiveOutput(Observer):
    """Writes the workers' last lines to the session's private folder."""

    def __init__(self, private: Path) -> None:
        self._file = private / NAME
        self._lines: dict[str, str] = {}
        self._lock = threading.Lock()
        self._written = float("-inf")
        self._timer: threading.Timer | None = None

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        del snapshot
        if event.entry.settled:
            self._lines.pop(event.id, None)

    def on_output(self, attempt: Attempt, line: str) -> None:
        with self._lock:
            self._lines[attempt.id] = first_line(line)
            wait = self._written + _INTERVAL - time.monotonic()
            if wait <= 0:
                self._write()
            elif self._timer is None:
                timer = threading.Timer(wait, self._write_late)
                timer.daemon = True
                with suppress(RuntimeError):  # the system allows no more threads
                    timer.start()
                    self._timer = timer

    def on_check(self, attempt: Attempt, shown: str, seconds: int) -> None:
        del seconds
        self.on_output(attempt, shown)

    def on_end(self, snapshot: Snapshot) -> None:
        del snapshot
        with self._lock, suppress(PlaybookError):
            self._lines.clear()
            remove(self._file)

    def _write_late(self) -> None:
        with self._lock:
            self._timer = None
            if self._lines:
                self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        with suppress(PlaybookError):  # a full disk must not end the run
            write_atomically(self._file, json.dumps(self._lines).encode(), durable=False)


def last_lines(private: Path) -> Mapping[str, str]:
    """Attempt id → its worker's last line, for the workers that a runner is driving."""
    try:
        lines = json.loads(read_bytes(private / NAME, limit=_MAX_SIZE))
    except (FileNotFoundError, PlaybookError, ValueError, RecursionError):
        return {}
    if not isinstance(lines, dict):
        return {}
    return {name: first_line(line) for name, line in lines.items() if isinstance(line, str)}
