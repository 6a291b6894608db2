"""A watcher that has the project's own command call a person, at gates and at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.drivers import notifications
from playbook_supervisor.drivers.observers import NullObserver
from playbook_supervisor.errors import PlaybookError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.state import Event
    from playbook_supervisor.sessions.snapshot import Snapshot


class Notifier(NullObserver):
    """Runs `argv` at `root`, once about each thing; `tell` is given what went wrong with it.

    The drive does not wait for the command before it is over, and then no longer than its deadline.
    """

    def __init__(
        self, argv: Sequence[str], root: Path, private: Path, tell: Callable[[str], None]
    ) -> None:
        self._argv, self._root, self._private, self._tell = argv, root, private, tell
        self._calls: list[threading.Thread] = []
        self._problems: list[str] = []

    def happened(self, event: Event, outlook: Snapshot) -> None:
        """Somebody is there again, and may be told."""
        del event, outlook
        self._tell_problems()

    def waits(self, outlook: Snapshot) -> None:
        """A gate is open."""
        self._call(outlook)

    def ended(self, outlook: Snapshot) -> None:
        """The drive is over."""
        self._call(outlook)
        for call in self._calls:
            call.join()
        self._tell_problems()

    def _call(self, outlook: Snapshot) -> None:
        notice = notifications.of(outlook)
        with suppress(PlaybookError):  # a full disk, say: that is told by what depends on it
            if notice is not None and notifications.news(notice, self._private):
                call = threading.Thread(target=self._carry_out, args=(notice,), daemon=True)
                self._calls.append(call)
                call.start()

    def _carry_out(self, notice: notifications.Notice) -> None:
        if problem := notifications.call(self._argv, notice, self._root):
            self._problems.append(problem)

    def _tell_problems(self) -> None:
        while self._problems:
            self._tell(self._problems.pop(0))
