"""How a terminal calls a person who looks elsewhere."""

from __future__ import annotations

from playbook_supervisor.cli.render.log import put
from playbook_supervisor.drivers import notifications
from playbook_supervisor.drivers.observers import NullObserver
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.sessions.snapshot import Snapshot


class Bell(NullObserver):
    """A watcher that rings the terminal of stderr at gates and at the end, once about each."""

    def __init__(self) -> None:
        self._rung = ""

    def on_gate(self, snapshot: Snapshot) -> None:
        """A gate is open."""
        self._ring(snapshot)

    def on_end(self, snapshot: Snapshot) -> None:
        """The drive is over."""
        self._ring(snapshot)

    def _ring(self, outlook: Snapshot) -> None:
        notice = notifications.notice_for(outlook)
        if notice is not None and notice.about != self._rung:
            self._rung = notice.about
            put(sequence(notice.text))


def sequence(notice: str) -> str:
    """A bell, and the notice in both ways that terminals know (OSC 9, OSC 777)."""
    said = first_line(notice).replace(";", ",")
    return f"\a\x1b]9;{said}\a\x1b]777;notify;playbook;{said}\a"
