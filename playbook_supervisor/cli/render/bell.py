"""The bell and the notification of a terminal."""

from __future__ import annotations

from playbook_supervisor.cli.render.log import write
from playbook_supervisor.drivers import notifications
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.sessions.snapshot import Snapshot


class Bell(Observer):
    """Rings the terminal of stderr at gates and at the end, once for each."""

    def __init__(self) -> None:
        self._rung = ""

    def on_gate(self, snapshot: Snapshot) -> None:
        notice = notifications.notice_for(snapshot)
        if notice is not None and notice.about != self._rung:
            self._rung = notice.about
            write(sequence(notice.text))

    on_end = on_gate


def sequence(notice: str) -> str:
    """A bell, and the notice in both notations that terminals know (OSC 9, OSC 777)."""
    text = first_line(notice).replace(";", ",")
    return f"\a\x1b]9;{text}\a\x1b]777;notify;playbook;{text}\a"
