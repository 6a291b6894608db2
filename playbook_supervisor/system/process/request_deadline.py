"""The time that a request may take, from its beginning to its answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playbook_supervisor.system.process.cancellation import Interrupted, cancelled_by


@dataclass(slots=True)
class Deadline:
    """`passed` once the time is over; `interrupted` once the request is being ended."""

    passed: bool = False
    interrupted: bool = False


@contextmanager
def within(seconds: float | None) -> Iterator[Deadline]:
    """End what runs meanwhile after so many seconds, as SIGTERM and Ctrl-C do.

    A driver that handles SIGTERM ends its workers. Where there is none, Interrupted is raised.
    """
    deadline = Deadline()

    def over(number: int, _: object) -> None:
        del number
        deadline.passed = True
        signal.raise_signal(signal.SIGTERM)

    def stop(number: int, _: object) -> None:
        deadline.interrupted = True
        raise Interrupted(signal.Signals(number).name)

    handlers = {signal.SIGALRM: over, signal.SIGTERM: stop, signal.SIGINT: stop}
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    if seconds is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with cancelled_by(lambda: deadline.interrupted):
            yield deadline
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in former.items():
            signal.signal(number, handler)
