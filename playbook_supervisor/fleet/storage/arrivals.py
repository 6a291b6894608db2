"""News of sessions that can be taken: from PostgreSQL as they come, from a file by looking."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.storage import connections
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.fleet.storage.connections import Connection
from playbook_supervisor.fleet.storage.tables import CHANNEL

_LOOK = 0.5  # seconds between two looks at a file, or whether to stop
_AGAIN = 5.0  # seconds until a broken connection is made again


class Arrivals:
    """News of the sessions of these pools. One thread asks.

    News can be missed, such as while the connection is broken or behind a pool of connections that
    does not pass them on, so a worker looks for itself as well, every now and then.
    """

    def __init__(self, address: Address, pools: Sequence[str]) -> None:
        self._address, self._pools = address, frozenset(pools)
        self._listening: Connection | None = None
        self._broken_until = 0.0

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        """Wait for news, so many seconds at most. On a file that is never longer than a moment."""
        if self._address.file is not None:
            stopping.wait(min(seconds, _LOOK))
            return
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stopping.is_set():
            if self._heard(min(left, _LOOK), stopping):
                return

    def close(self) -> None:
        """Stop listening."""
        held, self._listening = self._listening, None
        if held is not None:
            held.driver.close()

    def _heard(self, seconds: float, stopping: threading.Event) -> bool:
        try:
            with connections.translated(self._address):
                if self._listening is None and time.monotonic() >= self._broken_until:
                    self._listening = connections.connect(self._address, bounded=False)
                    self._listening.run(f"LISTEN {CHANNEL}")
                    return True  # what came before was not heard
                if self._listening is not None:
                    told = self._listening.driver.notifies(timeout=seconds, stop_after=1)
                    return any(news.payload in self._pools for news in told)
        except PlaybookError:
            self._broken_until = time.monotonic() + _AGAIN
            with suppress(Exception):
                self.close()
        stopping.wait(seconds)
        return False
