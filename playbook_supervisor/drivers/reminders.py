"""Reminding people of a gate that still waits, in a thread that never delays the drive.

It looks into the journal before each reminder: the answer may come from another process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.notifications import Notice, claim, deliver, seconds_left
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.system.cancellation import Interrupted, cancelled_by

_SHORTEST, _LONGEST = 0.05, 30.0  # seconds between two looks; a suspended machine stops the clock
_ENDING = 1.0  # seconds that a reminder which is being sent has to end


class Reminder:
    """Notifies again of the gate of `snapshot` whenever it is due, until `stop`.

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
    """Whether the journal has the gate of the snapshot open. StateError if it cannot be read."""
    gate = snapshot.directive
    if not isinstance(gate, Ask):
        return False
    own = snapshot.of(gate.member)
    entries = own.store.journal(own.session_id).entries
    waiting = {entry.gate.id for entry in entries if entry.gate is not None}
    return gate.id.rpartition("/")[2] in waiting
