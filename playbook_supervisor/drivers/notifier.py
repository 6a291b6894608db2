"""The observer that notifies people of a headless run, and reminds them, in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.drivers.notifications import Notice, claim, deliver, notice_for
from playbook_supervisor.drivers.observers import NullObserver
from playbook_supervisor.drivers.reminders import Reminder
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.sessions.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.config import Config


class Notifier(NullObserver):
    """Sends notices as `config.notify` says, and reports failures to `warn`.

    The drive waits for what sends them only at its end, and at most until its deadline.
    """

    def __init__(
        self, config: Config, root: Path, private: Path, warn: Callable[[str], None]
    ) -> None:
        self._config, self._root, self._private, self._warn = config, root, private, warn
        self._threads: list[threading.Thread] = []
        self._failures: list[str] = []
        self._reminder: Reminder | None = None

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        del event
        self._remind(snapshot)
        self._report_failures()

    def on_gate(self, snapshot: Snapshot) -> None:
        self._notify(snapshot)
        self._remind(snapshot, begin=True)

    def on_end(self, snapshot: Snapshot) -> None:
        self._end_reminder()
        self._notify(snapshot)
        for thread in self._threads:
            thread.join()
        self._report_failures()

    def _notify(self, snapshot: Snapshot) -> None:
        notice = notice_for(snapshot)
        with suppress(PlaybookError):  # the journal's own writes report a full disk
            if notice and claim(notice, self._private, self._config.remind_after):
                thread = threading.Thread(target=self._send, args=(notice,), daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system allows no more threads
                    self._failures.append(f"a notification was not sent: {error}")
                else:
                    self._threads.append(thread)

    def _remind(self, snapshot: Snapshot, *, begin: bool = False) -> None:
        """Remind people of the gate that waits, and of no other."""
        if not (self._reminder or begin):
            return
        notice = notice_for(snapshot)
        if notice and self._reminder and notice.about == self._reminder.notice.about:
            return
        self._end_reminder()
        if begin and notice and notice.waits and self._config.remind_after:
            self._reminder = Reminder(snapshot, notice, self._failures.append)
            self._reminder.start()

    def _end_reminder(self) -> None:
        if self._reminder is not None:
            self._reminder.stop()
            self._reminder = None

    def _send(self, notice: Notice) -> None:
        if problem := deliver(self._config, notice, self._root):
            self._failures.append(problem)

    def _report_failures(self) -> None:
        while self._failures:
            self._warn(self._failures.pop(0))
