"""Who drives a session headless: a lock that its process holds, and a way to send it requests.

A session has one driver at a time. Another terminal cannot take over a running session, but it can
ask the runner to pause or to abort, and wait until it has.
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
_DRIVER = "driver.json"
_REQUEST = "request.json"


class Driver(Record):
    """The process that drives a session, and its agent."""

    pid: int
    agent: str


class Request(Record):
    """What another terminal asks of the runner. `by` is a git identity."""

    what: Literal["abort", "pause"]
    text: str = ""
    by: str = ""


@contextmanager
def driving(private: Path, agent: str) -> Iterator[None]:
    """Drive the session. StateError `PB-STATE-DRIVEN` names the driver that already does."""
    try:
        lock = locked(private / _LOCK, timeout=0.5)
        lock.__enter__()
    except StateError as error:
        raise driven(private) from error
    try:
        _ignore_requests()  # until `handling_signals`, which looks for an earlier one
        with suppress(FileNotFoundError):
            (private / _REQUEST).unlink()
        _record(private, Driver(os.getpid(), agent))
        yield
    finally:
        _record(private, Driver(0, agent))  # the number may soon belong to another process
        lock.__exit__(None, None, None)


def living(private: Path) -> Driver | None:
    """The session's driver, if its process is alive."""
    return _driver(private) if worker_alive(private / _LOCK) else None


def ever_driven(private: Path) -> bool:
    """Whether a runner on this machine has ever driven the session."""
    return (private / _DRIVER).exists()


def driven(private: Path) -> StateError:
    """The refusal that names the driver."""
    driver = _driver(private)
    return StateError(
        "PB-STATE-DRIVEN",
        f"session {private.name} is being driven by process {driver.pid} (agent {driver.agent})",
        guidance=f"Wait for it, or stop it from here: `playbook pause {private.name}`.",
    )


def request_signal() -> int:
    """The signal that tells a runner to read its request."""
    from signal import SIGUSR1

    return SIGUSR1


def send_request(private: Path, request: Request, *, timeout: float) -> bool:
    """Send it to the living driver and wait (seconds); whether the driver has released the lock."""
    write_atomically(private / _REQUEST, json.dumps(as_mapping(request)).encode())
    driver = living(private)
    if driver is not None and driver.pid > 1:
        with suppress(ProcessLookupError):
            os.kill(driver.pid, request_signal())
    return until(lambda: living(private) is None, timeout)


@contextmanager
def handling_signals(handler: Callable[[int], None], private: Path) -> Iterator[None]:
    """Call `handler` with the number of each signal, and at once for an earlier request.

    A closed terminal counts as an interruption, except under `nohup`. Outside the main thread
    Python delivers no signals, so nothing is handled.
    """
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [signal.SIGINT, signal.SIGTERM, request_signal()]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    previous = {
        number: signal.signal(number, lambda received, _: handler(received)) for number in handled
    }
    if (private / _REQUEST).exists():
        handler(request_signal())
    try:
        yield
    finally:
        for number, action in previous.items():
            signal.signal(number, action)


def take_request(private: Path) -> Request | None:
    """Read and remove the pending request."""
    try:
        data = json.loads(read_bytes(private / _REQUEST))
        (private / _REQUEST).unlink()
        return Request(**data)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _ignore_requests() -> None:
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        signal.signal(request_signal(), signal.SIG_IGN)


def _record(private: Path, driver: Driver) -> None:
    with suppress(StorageError):  # a full disk must not hide the runner's own error
        write_atomically(private / _DRIVER, json.dumps(as_mapping(driver)).encode(), durable=False)


def _driver(private: Path) -> Driver:
    try:
        return Driver(**json.loads(read_bytes(private / _DRIVER)))
    except (FileNotFoundError, ValueError, TypeError):
        return Driver(0, "unknown")
