"""The list of all sessions as it was last rendered, for all browsers of a person."""

from __future__ import annotations

import threading
import time

from playbook_supervisor.cli.render import inbox_pages
from playbook_supervisor.commands.inbox.feed import Listing

_FRESH = 2.0  # seconds: the page tells how long a gate has been waiting


class ListPages:
    """Renders a version of the listing once. Any thread may ask; one at a time renders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._pages: dict[str, tuple[float, str]] = {}

    def page(self, listing: Listing, person: str, now: int) -> str:
        """The page for a person. `now` in ms since the epoch."""
        with self._lock:
            if listing.version != self._version:
                self._version = listing.version
                self._pages.clear()
            rendered_at, page = self._pages.get(person, (float("-inf"), ""))
            if time.monotonic() - rendered_at > _FRESH:
                page = inbox_pages.listing_page(listing, person, now)
                self._pages[person] = time.monotonic(), page
            return page
