"""Sends one message to URLs with apprise: `python -m playbook_supervisor.drivers.apprise_process`.

It reads `{"urls": {"0": URL}, "title": …, "body": …}` from stdin, and writes a line for each URL
once that is done: `0 sent`, `0 failed`, `0 unknown`, or `0 503` for a status of HTTP. Without a
body it sends nothing, and only says which schemes are unknown.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Container, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apprise import Apprise

_WEB = ("http", "https")  # some services are known by the address of a webhook
_STATUS = r"\berror=(\d{3})\b"


_INDEX = ContextVar("index", default="")  # of the URL; the library's own threads inherit it


class _Statuses(logging.Handler):
    """Keeps the status that the service of each URL last answered; no text of the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the status of a failed request."""
        if found := re.search(_STATUS, record.getMessage()):
            self.last[_INDEX.get()] = found[1]


def main() -> None:
    """Send what stdin says. What the library prints goes to stderr, which is not shown."""
    data = json.load(sys.stdin)
    urls: Mapping[str, str] = data["urls"]
    reports, sys.stdout = sys.stdout, sys.stderr
    warnings.simplefilter("ignore")  # modules of services import what Python deprecates
    import apprise  # optional, and what it prints is caught here

    def report(index: str, result: str) -> None:
        reports.write(f"{index} {result}\n")
        reports.flush()

    if "body" not in data:
        known: Container[str] = apprise.NotificationManager()  # type: ignore[no-untyped-call]
        for index, url in urls.items():
            scheme = url.partition("://")[0].lower()
            report(index, "known" if scheme in known or scheme in _WEB else "unknown")
        return
    statuses = _Statuses()
    logger = logging.getLogger("apprise")
    logger.addHandler(statuses)
    logger.propagate = False
    asset = apprise.AppriseAsset(async_mode=False, storage_mode="memory")
    sending: list[threading.Thread] = []
    for index, url in urls.items():
        service = apprise.Apprise(asset=asset)
        if not service.add(url):
            report(index, "unknown")
            continue

        def send(index: str = index, service: Apprise = service) -> None:
            _INDEX.set(index)
            sent = _sent(service, data["title"], data["body"])
            report(index, "sent" if sent else statuses.last.get(index, "failed"))

        sending.append(threading.Thread(target=send))
        sending[-1].start()
    for thread in sending:  # the library starts threads, which the end of the main one forbids
        thread.join()


def _sent(service: Apprise, title: str, body: str) -> bool:
    try:
        return bool(service.notify(title=title, body=body, body_format="text"))
    except Exception:  # whatever a service raises, its text may contain a secret
        return False


if __name__ == "__main__":
    main()
