"""A person's call to stop, heard while a program is waited for.

Whoever listens to signals says how one is noticed (`heeding`); a short command that runs meanwhile
in the same thread, at whatever depth, is ended, and nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_HEEDED: Final[dict[int, Callable[[], bool]]] = {}
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


def called() -> bool:
    """Whether what this thread waits for is to end."""
    from threading import get_ident

    return _HEEDED.get(get_ident(), _never)()


def _never() -> bool:
    return False
