"""The observer that notifies people of a headless run, in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.drivers.notifications import Notice, claim, notice_for, send
from playbook_supervisor.drivers.observers import NullObserver
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.sessions.snapshot import Snapshot


class Notifier(NullObserver):
    """Sends notices by running `argv` at `root`, and reports failures to `warn`.

    The drive waits for the commands only at its end, and at most until their deadline.
    """

    def __init__(
        self, argv: Sequence[str], root: Path, private: Path, warn: Callable[[str], None]
    ) -> None:
        self._argv, self._root, self._private, self._warn = argv, root, private, warn
        self._threads: list[threading.Thread] = []
        self._failures: list[str] = []

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        del event, snapshot
        self._report_failures()

    def on_gate(self, snapshot: Snapshot) -> None:
        self._notify(snapshot)

    def on_end(self, snapshot: Snapshot) -> None:
        self._notify(snapshot)
        for thread in self._threads:
            thread.join()
        self._report_failures()

    def _notify(self, snapshot: Snapshot) -> None:
        notice = notice_for(snapshot)
        with suppress(PlaybookError):  # the journal's own writes report a full disk
            if notice is not None and claim(notice, self._private):
                thread = threading.Thread(target=self._send, args=(notice,), daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system allows no more threads
                    self._failures.append(f"a notification was not sent: {error}")
                else:
                    self._threads.append(thread)

    def _send(self, notice: Notice) -> None:
        if problem := send(self._argv, notice, self._root):
            self._failures.append(problem)

    def _report_failures(self) -> None:
        while self._failures:
            self._warn(self._failures.pop(0))
