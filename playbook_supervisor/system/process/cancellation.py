"""Ending a program early because a person wants to stop.

The code that handles signals registers how to notice such a request (`cancelled_by`). A program
that runs meanwhile in the same thread is ended, and its result is not used.
"""

from __future__ import annotations

from _thread import get_ident  # `threading` takes longer to import
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_CHECKS: dict[int, Callable[[], bool]] = {}
"""Thread → its check. Programs that other threads wait for are the driver's to end."""


class Interrupted(KeyboardInterrupt):
    """A program was ended because a person asked to stop; its result is unknown."""


@contextmanager
def cancelled_by(check: Callable[[], bool]) -> Iterator[None]:
    """End programs in this thread as soon as `check` returns true."""
    thread = get_ident()
    former = _CHECKS.get(thread, _never)
    _CHECKS[thread] = check
    try:
        yield
    finally:
        _CHECKS[thread] = former


@contextmanager
def uncancellable() -> Iterator[None]:
    """Let programs that clean up run to their end."""
    with cancelled_by(_never):
        yield


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End programs in this thread after so many seconds; TimeoutError if one was ended."""
    ends, outer = monotonic() + seconds, _CHECKS.get(get_ident(), _never)
    try:
        with cancelled_by(lambda: monotonic() > ends or outer()):
            yield
    except Interrupted:
        if outer():
            raise
        raise TimeoutError(f"it took longer than {seconds:g} s") from None


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """If a signal would kill this process, first end the program that it waits for.

    The program runs in a session of its own, which neither Ctrl-C nor a closed terminal reaches.
    Signals that have a handler are left to it. Raises KeyboardInterrupt, or SystemExit with 128
    plus the signal's number.
    """
    import signal
    import threading

    received: list[int] = []
    fatal = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    if threading.current_thread() is not threading.main_thread():
        fatal = {}
    former = {number: how for number, how in fatal.items() if signal.getsignal(number) is how}
    outer = _CHECKS.get(get_ident(), _never)
    for number in former:
        signal.signal(number, lambda each, _: received.append(each))
    try:
        with cancelled_by(lambda: bool(received) or outer()):
            yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if received:  # it replaces any other exception
            interrupted = received[0] == signal.SIGINT
            raise KeyboardInterrupt if interrupted else SystemExit(128 + received[0])


def cancel_requested() -> bool:
    """True if the program that this thread waits for is to end."""
    return _CHECKS.get(get_ident(), _never)()


def _never() -> bool:
    return False
