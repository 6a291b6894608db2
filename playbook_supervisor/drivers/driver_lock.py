"""Who drives a session headless: a lock that its process holds, and a way to send it requests.

A session has one driver at a time. Another terminal cannot take over a running session, but it can
ask the runner to pause or to abort, and wait until it has.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playbook_supervisor.drivers import own_agents
from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.records import Record, as_mapping
from playbook_supervisor.system.disk.files import locked, read_bytes, write_atomically
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.process_groups import (
    RUNNER,
    kill_worker,
    until,
    worker_alive,
)

if TYPE_CHECKING:
    from playbook_supervisor.system.process.channel import Connection

_LOCK = RUNNER
DETACHED = "detached"
"""The lock of the process that carries out a client's steps and checks."""
_DRIVER = "driver.json"
_BEGINNING = 10.0  # seconds that a driver may take until it listens
_RELEASING = 1.0  # seconds between a driver's end and the release of its lock
_ENDING = 60.0  # and at most, where it notifies people first
_ACCEPTED = "accepted"


class Driver(Record):
    """The process that drives a session, and its agent."""

    pid: int
    agent: str


class Request(Record):
    """The request of a person elsewhere; `by` is a git identity, the text of a proof JSON."""

    what: Literal["abort", "pause", "proof"]
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
        _record(private, Driver(os.getpid(), agent))
        yield
    finally:
        _record(private, Driver(0, agent))  # the number may soon belong to another process
        lock.__exit__(None, None, None)


def living(private: Path) -> Driver | None:
    """The session's driver, if its process is alive."""
    return _driver(private) if worker_alive(private / _LOCK) else None


def require_no_runner(private: Path) -> None:
    """StateError `PB-STATE-DRIVEN` while a headless runner drives the session."""
    if living(private) is not None:
        raise driven(private)


def detached_works(private: Path) -> bool:
    """True if a process without a terminal works on the session, for a client (`detached`)."""
    return worker_alive(private / DETACHED)


def end_detached(private: Path) -> None:
    """End that process and all that it has started. StateError PB-STATE-BUSY if that fails."""
    kill_worker(private / DETACHED)


def ever_driven(private: Path) -> bool:
    """True if a runner on this machine has ever driven the session."""
    return (private / _DRIVER).exists()


def driven(private: Path) -> StateError:
    """The refusal that names the driver."""
    driver = _driver(private)
    return StateError(
        "PB-STATE-DRIVEN",
        f"session {private.name} is being driven by process {driver.pid} (agent {driver.agent})",
        guidance=f"Wait for it, or stop it from here: `playbook pause {private.name}`.",
    )


@contextmanager
def handling_signals(handler: Callable[[int], None]) -> Iterator[None]:
    """Call `handler` with the number of each signal that ends a program.

    A closed terminal counts as an interruption, except under `nohup`. Outside the main thread
    Python delivers no signals, so nothing is handled.
    """
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    previous = {
        number: signal.signal(number, lambda received, _: handler(received)) for number in handled
    }
    try:
        yield
    finally:
        for number, action in previous.items():
            signal.signal(number, action)


# ── requests ────────────────────────────────────────────────────────────────────────────────


@contextmanager
def taking_requests(
    here: Checkout, private: Path, take: Callable[[Request], None]
) -> Iterator[None]:
    """Call `take`, in another thread, for each request that a person sends.

    Where the folder cannot hold a socket, there are none: `send_request` then says so.
    """
    from playbook_supervisor.system.process.channel import Listener

    def reply(data: bytes) -> str:
        try:
            take(Request(**json.loads(data)))
        except (ValueError, TypeError):
            return "it cannot be understood"
        return _ACCEPTED

    listener = None
    with suppress(StorageError):
        listener = Listener(private, lambda pid: _not_a_person(here, pid), reply)
    try:
        yield
    finally:
        if listener is not None:
            listener.close()


def send_request(private: Path, request: Request, *, timeout: float) -> None:
    """Send it to the living driver and wait, in seconds, until that has released the lock.

    StateError PB-STATE-DRIVEN if it has not by then, or takes no requests;
    PB-STATE-HUMAN-ONLY if it takes none of ours.
    """
    deadline = time.monotonic() + timeout
    connection, reply = _connected(private, min(timeout, _BEGINNING)), ""
    if connection is not None:
        try:
            reply = connection.ask(json.dumps(as_mapping(request)).encode()).decode()
            if reply == _ACCEPTED:
                connection.wait(deadline - time.monotonic())
            elif reply:
                raise _refused(private, reply)
        except OSError:
            pass  # it has ended, or does not answer
        finally:
            connection.close()
    left = deadline - time.monotonic() if reply else 0.0
    if not until(lambda: living(private) is None, min(max(left, _RELEASING), _ENDING)):
        raise driven(private) if reply else _deaf(private)


def hand_over(private: Path, request: Request) -> None:
    """Send it to the living driver, which goes on driving. Errors as `send_request`."""
    connection = _connected(private, _BEGINNING)
    if connection is None:
        raise _deaf(private)
    try:
        reply = connection.ask(json.dumps(as_mapping(request)).encode()).decode()
    except OSError as error:
        raise _deaf(private) from error
    finally:
        connection.close()
    if reply != _ACCEPTED:
        raise _refused(private, reply)


def _refused(private: Path, reply: str) -> StateError:
    message = f"the runner of session {private.name} refuses the request: {reply}"
    return StateError("PB-STATE-HUMAN-ONLY", message)


def _connected(private: Path, timeout: float) -> Connection | None:
    """A connection to the driver, which may just be starting; None if it has ended or is deaf."""
    from playbook_supervisor.system.process.channel import Connection

    found: list[Connection] = []

    def connected() -> bool:
        with suppress(OSError):
            connection = Connection(private)
            if _drives(private, connection.peer):
                found.append(connection)
                return True
            connection.close()
        return living(private) is None

    until(connected, timeout)
    return found[0] if found else None


def _drives(private: Path, pid: int) -> bool:
    """True if that process is the driver: another one may have put its own socket there."""
    if ancestry.tells_files():
        return os.path.realpath(private / _LOCK) in ancestry.open_files(pid)
    driver = living(private)
    return driver is not None and driver.pid == pid


def _not_a_person(here: Checkout, pid: int) -> str:
    if pid == 0 or ancestry.process(pid) is None:
        return "its process is unknown"
    return own_agents.above(here, pid)


def _deaf(private: Path) -> StateError:
    pid = _driver(private).pid
    return StateError(
        "PB-STATE-DRIVEN",
        f"session {private.name} is being driven by process {pid}, which takes no requests",
        guidance=f"Press Ctrl-C in its terminal, or `kill -INT {pid}`; then `playbook resume`.",
    )


# ── the record of the driver ────────────────────────────────────────────────────────────────


def _record(private: Path, driver: Driver) -> None:
    with suppress(StorageError):  # a full disk must not hide the runner's own error
        write_atomically(private / _DRIVER, json.dumps(as_mapping(driver)).encode(), durable=False)


def _driver(private: Path) -> Driver:
    try:
        return Driver(**json.loads(read_bytes(private / _DRIVER)))
    except (FileNotFoundError, ValueError, TypeError):
        return Driver(0, "unknown")
