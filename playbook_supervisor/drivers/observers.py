"""The people behind a driver: a prompter asks them at gates, observers show progress.

The last line of each running worker is in a small file that other terminals read. It is written at
most once a second; nothing depends on it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line, shortened
from playbook_supervisor.formats.timestamps import duration
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.state import Entry, Event, last_entries
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.disk.files import read_bytes, remove, write_atomically

LAST_LINES = "said.json"
_INTERVAL = 1.0  # seconds between two writes of it
_MAX_SIZE = 1 << 20
_TICK = 1.0  # seconds between two reports of a running check
_LINE, _SHOWN = 1_000, 100  # characters of a line that are looked at, and shown


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """The words that a person typed at a gate, or None at the end of the input.

    `overtaken`: the prompt ended early, because something else happened.
    """

    text: str | None = None
    overtaken: bool = False


class Prompter(Protocol):
    """Asks a person, at a terminal for instance."""

    def ask(
        self, snapshot: Snapshot, context: GateContext | None, overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        """Ask the gate's question and wait; poll `overtaken` and stop waiting once it is true."""

    def not_understood(self, snapshot: Snapshot, question: str) -> None:
        """Report that this was no valid answer; `question` is the follow-up question, if any."""


class Observer:
    """Shows a drive's progress, or nothing. Its methods must not raise."""

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        """An event was journaled."""

    def on_output(self, attempt: Attempt, line: str) -> None:
        """A worker printed a line, safe for a terminal."""

    def on_check(self, attempt: Attempt, shown: str, seconds: int) -> None:
        """A check of the project has run for so long; called each second, from another thread.

        `shown` says so, with the last line of its output: `checking test 12 s · 7 passed`.
        """

    def on_gate(self, snapshot: Snapshot) -> None:
        """A gate is open."""

    def on_end(self, snapshot: Snapshot) -> None:
        """The drive is over: the session has ended, waits at a gate, or can be resumed."""

    def on_notice(self, text: str) -> None:
        """A sentence for the person."""


class CompositeObserver(Observer):
    """Passes everything on to several observers."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        for observer in self.observers:
            observer.on_event(event, snapshot)

    def on_output(self, attempt: Attempt, line: str) -> None:
        for observer in self.observers:
            observer.on_output(attempt, line)

    def on_check(self, attempt: Attempt, shown: str, seconds: int) -> None:
        for observer in self.observers:
            observer.on_check(attempt, shown, seconds)

    def on_gate(self, snapshot: Snapshot) -> None:
        for observer in self.observers:
            observer.on_gate(snapshot)

    def on_end(self, snapshot: Snapshot) -> None:
        for observer in self.observers:
            observer.on_end(snapshot)

    def on_notice(self, text: str) -> None:
        for observer in self.observers:
            observer.on_notice(text)


@contextmanager
def showing_check(
    observer: Observer, attempt: Attempt, check: str
) -> Iterator[Callable[[str], None]]:
    """Tell the observer each second that the check runs; the block gets what takes its lines."""
    over, began, last = threading.Event(), time.monotonic(), [""]

    def hear(line: str) -> None:
        last[0] = first_line(line, _LINE) or last[0]

    def show() -> None:
        seconds = round(time.monotonic() - began)
        observer.on_check(attempt, _check_line(check, seconds, last[0]), seconds)

    def tell() -> None:
        while not over.wait(_TICK):
            show()

    show()
    thread = threading.Thread(target=tell, daemon=True)
    with suppress(RuntimeError):  # the system allows no more threads
        thread.start()
    try:
        yield hear
    finally:
        over.set()
        if thread.is_alive():
            thread.join()


def _check_line(check: str, seconds: int, line: str) -> str:
    took = f" {duration(seconds * 1000)}" if seconds else ""
    said = f" · {shortened(line, _SHOWN)}" if line else ""
    return f"checking {first_line(check, 60)}{took}{said}"


class LiveOutput(Observer):
    """Writes the workers' last lines to the session's private folder."""

    def __init__(self, private: Path) -> None:
        self._file = private / LAST_LINES
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
        lines = json.loads(read_bytes(private / LAST_LINES, limit=_MAX_SIZE))
    except (FileNotFoundError, PlaybookError, ValueError, RecursionError):
        return {}
    if not isinstance(lines, dict):
        return {}
    return {name: first_line(line) for name, line in lines.items() if isinstance(line, str)}


# ── how a drive ended ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DriveResult:
    """The end of a drive: `why` is the session's status, `waiting`, `paused` or `interrupted`."""

    snapshot: Snapshot
    why: str
    signal: int = 0
    context: GateContext | None = None  # helps to answer the gate that is left open

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The whole journal as it is now, oldest first."""
        return self.snapshot.store.journal(self.snapshot.session_id).entries

    @property
    def steps(self) -> dict[str, Entry]:
        """The last attempt at each step that began, by the step's id."""
        return last_entries(self.entries)

    @property
    def exit_code(self) -> int:
        """0 completed, 2 failed or aborted, 4 waiting or paused, 128 + signal interrupted."""
        if self.why == "interrupted":
            return 128 + self.signal
        return {"completed": 0, "failed": 2, "aborted": 2}.get(self.why, 4)
