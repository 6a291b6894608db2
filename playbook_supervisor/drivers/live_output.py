"""What the workers of a drive said last, left where another terminal can read it.

A small file, written at most once a second, that nothing depends on.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.drivers.observers import NullObserver
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.files import read_bytes, remove, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.directives import Attempt
    from playbook_supervisor.kernel.state import Event
    from playbook_supervisor.sessions.snapshot import Snapshot

NAME = "said.json"
_PACE = 1.0  # seconds between two writes
_LARGEST = 1 << 20


class LiveOutput(NullObserver):
    """A watcher that leaves the last line of each worker in the session's private folder."""

    def __init__(self, private: Path) -> None:
        self._file = private / NAME
        self._lines: dict[str, str] = {}
        self._lock = threading.Lock()
        self._written = float("-inf")
        self._timer: threading.Timer | None = None

    def happened(self, event: Event, outlook: Snapshot) -> None:
        """What has settled says nothing any more."""
        del outlook
        if event.entry.settled:
            self._lines.pop(event.entry.id, None)

    def said(self, attempt: Attempt, line: str) -> None:
        """Write it now, or as soon as a second has passed since the last time."""
        with self._lock:
            self._lines[attempt.id] = first_line(line)
            left = self._written + _PACE - time.monotonic()
            if left <= 0:
                self._write()
            elif self._timer is None:
                self._timer = threading.Timer(left, self._write_late)
                self._timer.daemon = True
                self._timer.start()

    def ended(self, outlook: Snapshot) -> None:
        """Nobody is at work any more."""
        del outlook
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
        with suppress(PlaybookError):  # a full disk must not end a run for that
            write_atomically(self._file, json.dumps(self._lines).encode(), durable=False)


def last_words(private: Path) -> Mapping[str, str]:
    """Attempt id → its worker's last line, as far as a runner has left any."""
    try:
        said = json.loads(read_bytes(private / NAME, limit=_LARGEST))
    except (FileNotFoundError, PlaybookError, ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: first_line(line) for name, line in said.items() if isinstance(line, str)}
