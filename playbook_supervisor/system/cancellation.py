"""A person's call to stop, heard while a program is waited for.

Whoever listens to signals says how one is noticed (`heeding`); a short command that runs meanwhile
in the same thread, at whatever depth, is ended, and nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_HEEDED: dict[int, Callable[[], bool]] = {}
"""Thread → how it notices. What other threads wait for is for the driver to end."""


class Interrupted(KeyboardInterrupt):
    """A program was ended because somebody has called; what it would have said is not known."""


@contextmanager
def heeding(called: Callable[[], bool]) -> Iterator[None]:
    """In this thread, programs that are waited for end as soon as `called` says so."""
    from threading import get_ident

    thread = get_ident()
    former = _HEEDED.get(thread, _never)
    _HEEDED[thread] = called
    try:
        yield
    finally:
        _HEEDED[thread] = former


@contextmanager
def unheeded() -> Iterator[None]:
    """What puts things in order again, and takes no time, is not cut off once more."""
    with heeding(_never):
        yield


@contextmanager
def unwatched() -> Iterator[None]:
    """Where nobody listens to signals, one that ends this process ends first what it waits for.

    That leads a session of its own, so that neither Ctrl-C nor a closed terminal reaches it, and
    nobody would be left to end it. Then KeyboardInterrupt, or SystemExit with 128 and the signal.
    """
    import signal
    import threading

    heard: list[int] = []
    deadly = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    if threading.current_thread() is not threading.main_thread():
        deadly = {}
    former = {number: how for number, how in deadly.items() if signal.getsignal(number) is how}
    outer = _HEEDED.get(threading.get_ident(), _never)
    for number in former:
        signal.signal(number, lambda each, _: heard.append(each))
    try:
        with heeding(lambda: bool(heard) or outer()):
            yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if heard:  # whatever else there would be to say
            raise KeyboardInterrupt if heard[0] == signal.SIGINT else SystemExit(128 + heard[0])


def called() -> bool:
    """Whether what this thread waits for is to end."""
    from threading import get_ident

    return _HEEDED.get(get_ident(), _never)()


def _never() -> bool:
    return False
