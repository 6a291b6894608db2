"""The observer that notifies people of a headless run, and reminds them, in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.notifications import (
    Notice,
    claim,
    deliver,
    notice_for,
    seconds_left,
)
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.process.cancellation import Interrupted, cancelled_by


class Notifier(Observer):
    """Sends notices as `config.notify` says; at the drive's end it waits until their deadline."""

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


# ── reminders ─────────────────────────────────────────────────────────────────────────────────

_SHORTEST, _LONGEST = 0.05, 30.0  # seconds between two looks; a suspended machine stops the clock
_ENDING = 1.0  # seconds that a reminder which is being sent has to end


class Reminder:
    """Notifies again of the gate of `snapshot` whenever it is due, until `stop`.

    It looks into the journal before each reminder: the answer may come from another process.
    `failed` is told, in the thread, why a reminder was not sent.
    """

    def __init__(self, snapshot: Snapshot, notice: Notice, failed: Callable[[str], None]) -> None:
        self.notice, self._snapshot, self._failed = notice, snapshot, failed
        self._over = threading.Event()
        self._claiming = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin. Without a thread, when the system allows no more, there are no reminders."""
        with suppress(RuntimeError):
            self._thread.start()

    def stop(self) -> None:
        """End, with the program that is sending a reminder; nothing is claimed afterwards."""
        with self._claiming:
            self._over.set()
        if self._thread.is_alive():
            self._thread.join(_ENDING)

    def _run(self) -> None:
        while not self._over.wait(self._pause()):
            with suppress(PlaybookError), suppress(Interrupted), cancelled_by(self._over.is_set):
                if self._claim():
                    snapshot = self._snapshot
                    root = snapshot.store.checkout.root
                    if problem := deliver(snapshot.config, self.notice, root):
                        self._failed(problem)

    def _pause(self) -> float:
        config, left = self._snapshot.config, _LONGEST
        with suppress(PlaybookError):
            left = seconds_left(self.notice, self._snapshot.private, config.remind_after)
        return min(max(left, _SHORTEST), _LONGEST)

    def _claim(self) -> bool:
        private, every = self._snapshot.private, self._snapshot.config.remind_after
        if driver_lock.living(private) is None:  # the drive was ended by an error
            self._over.set()
        if seconds_left(self.notice, private, every) or not still_waits(self._snapshot):
            return False
        with self._claiming:
            return not self._over.is_set() and claim(self.notice, private, every)


def still_waits(snapshot: Snapshot) -> bool:
    """True if the journal has the gate of the snapshot open. StateError if it cannot be read."""
    gate = snapshot.directive
    if not isinstance(gate, Ask):
        return False
    own = snapshot.of(gate.member)
    entries = own.store.journal(own.session_id).entries
    waiting = {entry.gate.id for entry in entries if entry.gate is not None}
    return gate.id.rpartition("/")[2] in waiting
