"""Who drives a session: a lock that lives as long as its process, and a way to call on it.

One driver at a time. Another terminal cannot take a running session over, but it can ask the
runner to pause or to abort, and wait until it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.records import Record, as_mapping
from playbook_supervisor.system.files import locked, read_bytes, write_atomically
from playbook_supervisor.system.process_groups import until, worker_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

_LOCK = "driver"
_WHO = "driver.json"
_REQUEST = "request.json"


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
        _ignore_calls()  # until the runner listens; it looks for a request then
        with suppress(FileNotFoundError):
            (private / _REQUEST).unlink()
        _sign(private, Driver(os.getpid(), agent))
        yield
    finally:
        _sign(private, Driver(0, agent))  # the number may soon be a stranger's
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
        guidance=f"Wait for it, or stop it from here: `playbook pause {private.name}`.",
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


@contextmanager
def listening(hear: Callable[[int], None], private: Path) -> Iterator[None]:
    """Signals are told to `hear`, by number; so is a request that came before anybody listened.

    A terminal that is closed is an interruption, but for whoever has said `nohup`. Outside the main
    thread there are none to listen to.
    """
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [signal.SIGINT, signal.SIGTERM, call()]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    former = {number: signal.signal(number, lambda each, _: hear(each)) for number in heard}
    if (private / _REQUEST).exists():
        hear(call())
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def requested(private: Path) -> Request | None:
    """What the runner was asked, taken once."""
    try:
        data = json.loads(read_bytes(private / _REQUEST))
        (private / _REQUEST).unlink()
        return Request(**data)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _ignore_calls() -> None:
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        signal.signal(call(), signal.SIG_IGN)


def _sign(private: Path, driver: Driver) -> None:
    with suppress(StorageError):  # a full disk must not hide what the runner has to say
        write_atomically(private / _WHO, json.dumps(as_mapping(driver)).encode(), durable=False)


def _who(private: Path) -> Driver:
    try:
        return Driver(**json.loads(read_bytes(private / _WHO)))
    except (FileNotFoundError, ValueError, TypeError):
        return Driver(0, "unknown")
