"""Clearance: before a runner launches anything, it asks the worker of the fleet that started it.

The worker then keeps what the session is now, and shows that it may still drive it. The two speak
through a socket in a private folder that the variable `PLAYBOOK_CLEARANCE` names. Other processes
of the user can find the folder, so each end makes sure who is at the other: the worker answers the
one process that it has started, and the runner believes only a process that has started it. The
kernel tells both. An agent is neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Lock
from time import sleep

from playbook_supervisor.errors import FleetError, PlaybookError, StorageError
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.cancellation import Interrupted
from playbook_supervisor.system.process.channel import Connection, Listener

VARIABLE = "PLAYBOOK_CLEARANCE"
_REQUEST = b"launch"
_CLEARED = "cleared"
_ADMISSION = 10.0  # seconds between a runner's first request and the report that it has started
_BUSY = 0.1  # seconds until another attempt to connect

Ask = Callable[[Callable[[], bool]], None]
"""Asks, and returns when the launch is cleared. It is given what tells whether to stop waiting."""


# ── the runner's end ────────────────────────────────────────────────────────────────────────


def from_environment() -> Ask | None:
    """The call of a fleet's runner before it launches anything; None for any other runner.

    The variable is removed, for nothing that we start shall see it. What is returned raises
    FleetError PB-FLEET-OVERTAKEN if nothing may be launched, and Interrupted.
    """
    folder = os.environ.pop(VARIABLE, "")
    return partial(_ask, Path(folder)) if folder else None


def _ask(folder: Path, interrupted: Callable[[], bool]) -> None:
    try:
        reply = _reply(folder, interrupted)
    except OSError as error:
        raise _refused(f"its worker cannot be asked: {error.strerror or error}") from error
    if reply != _CLEARED:
        raise _refused(reply or "its worker has ended")


def _reply(folder: Path, interrupted: Callable[[], bool]) -> str:
    while True:
        try:
            connection = Connection(folder)
            break
        except (BlockingIOError, TimeoutError):  # others keep it busy
            if interrupted():
                raise Interrupted from None
            sleep(_BUSY)
    try:
        if connection.peer not in {process.pid for process in ancestry.ancestors()}:
            return f"process {connection.peer}, which has not started this one, listens there"
        return connection.ask(_REQUEST, interrupted).decode("utf-8", "replace")
    finally:
        connection.close()


def _refused(why: str) -> FleetError:
    return FleetError("PB-FLEET-OVERTAKEN", f"nothing more is launched here: {why}")


# ── the worker's end ────────────────────────────────────────────────────────────────────────


class Clearances:
    """Answers the runner that `admit` names, and no other process, while the context is entered.

    `answer` is called in a thread, and may take any time: it returns an empty text if the launch
    is cleared, else why not. It no longer runs when the context is left; it can look at `waited`
    to end early.
    """

    def __init__(self, folder: Path, answer: Callable[[], str]) -> None:
        """The folder, of which only the last part is made, is for the user alone."""
        self._folder, self._answer = folder, answer
        self._runner = 0
        self._admitted = Event()
        self._answering = Lock()
        self._listener: Listener | None = None

    def __enter__(self) -> Clearances:
        """StorageError PB-IO-WRITE if the folder cannot be made or hold a socket."""
        try:
            self._folder.mkdir(exist_ok=True)
            self._folder.chmod(0o700)
        except OSError as error:
            message = f"cannot use {self._folder}: {error.strerror or error}"
            raise StorageError("PB-IO-WRITE", message, where=str(self._folder)) from error
        self._listener = Listener(self._folder, self._refusal, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        listener, self._listener = self._listener, None
        self._admitted.set()  # nothing waits for it any more
        if listener is not None:
            listener.close()
        with self._answering:
            pass

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the runner's environment has besides."""
        return {VARIABLE: str(self._folder)}

    def admit(self, runner: int) -> None:
        """Answer the process of that number, a `Worker.pid`; until then the runner waits."""
        self._runner = runner
        self._admitted.set()

    @property
    def waited(self) -> bool:
        """True if the runner still waits for the answer; not if it was interrupted, or ended."""
        listener = self._listener
        return listener is not None and listener.waits()

    def _refusal(self, pid: int) -> str:
        self._admitted.wait(_ADMISSION)
        return "" if pid and pid == self._runner else f"process {pid} is not the session's runner"

    def _take(self, request: bytes) -> str:
        if request != _REQUEST:
            return "the request cannot be understood"
        with self._answering:
            if self._listener is None:
                return "its worker has ended"
            try:
                refusal = self._answer()
            except PlaybookError as error:
                refusal = error.message
            except Exception as error:  # the runner must not wait for ever
                refusal = f"internal error: {type(error).__name__}: {error}"
        return " ".join(refusal.split()) or _CLEARED
