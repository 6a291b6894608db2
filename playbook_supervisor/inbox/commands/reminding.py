"""Reminds people of gates that still wait and that no runner waits at (`remind_after`)."""

from __future__ import annotations

from contextlib import suppress

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.overview import pinned_settings
from playbook_supervisor.drivers.notifications import (
    Notice,
    claim,
    deliver,
    notice_for,
    seconds_left,
)
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.inbox.commands.feed import Feed
from playbook_supervisor.inbox.commands.repository import Row
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.settings.session_settings import FILE
from playbook_supervisor.system.disk.files import written_at


class Reminders:
    """The reminders of one inbox. It keeps the settings of sessions until their file changes."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._settings: dict[str, tuple[int, Config]] = {}

    def send_due(self) -> None:
        """Send what is due; it takes as long as sending does."""
        waiting = [row for row in self._feed.listing.waiting if isinstance(row, Row)]
        kept = self._settings.keys() & {row.topic for row in waiting}
        self._settings = {topic: self._settings[topic] for topic in kept}
        for row in waiting:
            attended = row.seen.driver is not None or (row.seen.client and row.seen.client.lives)
            if not attended:
                with suppress(PlaybookError, OSError):  # the session's own page shows what is wrong
                    self._send(row)

    def _send(self, row: Row) -> None:
        gate, store = row.seen.gate, row.seen.store
        private, every = store.runtime(row.session_id), self._config(row).remind_after
        if gate is None or not every:
            return
        if seconds_left(Notice(row.session_id, gate.id, "", waits=True), private, every):
            return
        snapshot = locate.tree(store, row.session_id).look()
        notice = notice_for(snapshot)
        if notice is not None and notice.waits and claim(notice, private, every):
            deliver(snapshot.config, notice, row.seen.root)

    def _config(self, row: Row) -> Config:
        written = written_at(row.seen.store.folder(row.session_id) / FILE)
        known = self._settings.get(row.topic)
        if known is None or known[0] != written:
            known = written, pinned_settings(row.seen.store, row.session_id)
            self._settings[row.topic] = known
        return known[1]
