"""Who watches a drive: whoever sits at the terminal, or who reads its log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from playbook_supervisor.cli.render.log import Level, Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from playbook_supervisor.drivers.observers import Observer
    from playbook_supervisor.kernel.state import Entry
    from playbook_supervisor.sessions.snapshot import Snapshot

_FIXED = frozenset({"dumb", "unknown", ""})
"""Values of $TERM whose cursor cannot move."""


@contextmanager
def watching(level: Level, earlier: Callable[[Snapshot], Sequence[Entry]]) -> Iterator[Observer]:
    """A live list where stderr can show one and somebody wants to see it, else a log.

    `earlier` tells the attempts that were journaled before.
    """
    from playbook_supervisor.cli.render.bell import Bell
    from playbook_supervisor.drivers.observers import CompositeObserver

    if not draws(level):
        log = Log(level, colour=_wants_colour())
        yield CompositeObserver((log, Bell())) if can_draw(sys.stderr) else log
        return
    from playbook_supervisor.cli.render.terminal import Terminal

    terminal = Terminal(level, earlier)
    try:
        yield CompositeObserver((terminal, Bell()))
    finally:
        terminal.close()


def draws(level: Level) -> bool:
    """Whether what is watched is a live list, in which every step stands to the end."""
    return can_draw(sys.stderr) and level >= Level.INFO


def can_draw(stream: TextIO) -> bool:
    """Whether the stream leads to a terminal whose cursor can move."""
    return stream.isatty() and os.environ.get("TERM", "") not in _FIXED


def _wants_colour() -> bool:
    """A log is coloured only where somebody insists."""
    return bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
