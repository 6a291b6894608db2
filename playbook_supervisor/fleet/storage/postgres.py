"""PostgreSQL: connections that do not wait for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from playbook_supervisor.fleet.storage.address import Address

_WAIT = 5.0  # seconds for one answer of the server
_STATEMENT = 4_500  # ms, then the server cancels a statement
_IDLE = 10_000  # ms, then the server ends a transaction whose client is frozen
_DEFAULTS = {
    "application_name": "playbook",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_LIMITS = f"-c statement_timeout={_STATEMENT} -c idle_in_transaction_session_timeout={_IDLE}"


class _BoundedConnection(psycopg.Connection[Any]):
    """A connection that is given up when the server is `silent` for too long.

    `until` says when this thread's transaction has to have ended, on the monotonic clock.
    """

    silent = False
    until: Callable[[], float]

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = min(time.monotonic() + _WAIT, self.until())
        try:
            waiting = next(gen)
            while True:
                ready = yield waiting
                if time.monotonic() > until:
                    gen.close()
                    self.pgconn.finish()
                    self.silent = True
                    raise psycopg.OperationalError("the server does not answer")
                waiting = gen.send(ready)
        except StopIteration as end:
            return end.value


def connect(address: Address, until: Callable[[], float]) -> psycopg.Connection[Any]:
    """A connection for statements that end soon, at the latest at the time that `until` says."""
    options = f"{_LIMITS} {conninfo_to_dict(address.url).get('options', '')}".strip()
    settings = {**_settings(address), "options": options}
    _BoundedConnection.until = staticmethod(until)
    return _BoundedConnection.connect(address.url, **settings)


def unbounded(address: Address) -> psycopg.Connection[Any]:
    """A connection whose statements may take any time."""
    return psycopg.connect(address.url, **_settings(address))


def _settings(address: Address) -> dict[str, Any]:
    """What the address says goes over our settings. Nothing is prepared: in a pool between us and
    the server, the next statement may come to another connection."""
    given = conninfo_to_dict(address.url)
    settings = {name: value for name, value in _DEFAULTS.items() if name not in given}
    return {**settings, "autocommit": True, "row_factory": dict_row, "prepare_threshold": None}
