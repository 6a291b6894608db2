"""Who drives a session: a lock that lives as long as its process, and a way to call on it.

One driver at a time. Another terminal cannot take a running session over, but it can ask the
runner to pause or to abort, and wait until it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.files import locked, read_bytes, write_atomically
from playbook_supervisor.process_groups import until, worker_alive
from playbook_supervisor.records import Record, as_mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal

_LOCK: Final = "driver"
_WHO: Final = "driver.json"
_REQUEST: Final = "request.json"


class Driver(Record):
    """The process that drives a session, and with what."""

    pid: int
    agent: str


class Request(Record):
    """What somebody in another terminal asks of the runner. `by` is a git identity."""

    what: Literal["abort", "pause"]
    text: str = ""
    by: str = ""


@contextmanager
def driving(private: Path, agent: str) -> Iterator[None]:
    """Be the session's driver. StateError `PB-STATE-DRIVEN` names the one that lives."""
    try:
        lock = locked(private / _LOCK, timeout=0.5)
        lock.__enter__()
    except StateError as error:
        raise driven(private) from error
    try:
        who = json.dumps(as_mapping(Driver(os.getpid(), agent))).encode()
        write_atomically(private / _WHO, who, durable=False)
        with suppress(FileNotFoundError):
            (private / _REQUEST).unlink()
        yield
    finally:
        lock.__exit__(None, None, None)


def living(private: Path) -> Driver | None:
    """The driver of the session, if one lives."""
    return _who(private) if worker_alive(private / _LOCK) else None


def headless(private: Path) -> bool:
    """Whether a runner has ever driven the session from here."""
    return (private / _WHO).exists()


def driven(private: Path) -> StateError:
    """The refusal that names who drives."""
    who = _who(private)
    return StateError(
        "PB-STATE-DRIVEN",
        f"session {private.name} is being driven by process {who.pid} (agent {who.agent})",
        guidance="Wait for it, or `playbook pause` it from here.",
    )


def call() -> int:
    """The signal that makes a runner look for a request."""
    from signal import SIGUSR1

    return SIGUSR1


def ask(private: Path, request: Request, *, patience: float) -> bool:
    """Ask the living driver, and wait (seconds) until it has let go; whether it has."""
    write_atomically(private / _REQUEST, json.dumps(as_mapping(request)).encode())
    who = living(private)
    if who is not None and who.pid > 1:
        with suppress(ProcessLookupError):
            os.kill(who.pid, call())
    return until(lambda: living(private) is None, patience)


def requested(private: Path) -> Request | None:
    """What the runner was asked, taken once."""
    try:
        data = json.loads(read_bytes(private / _REQUEST))
        (private / _REQUEST).unlink()
        return Request(**data)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _who(private: Path) -> Driver:
    try:
        return Driver(**json.loads(read_bytes(private / _WHO)))
    except (FileNotFoundError, ValueError, TypeError):
        return Driver(0, "unknown")
