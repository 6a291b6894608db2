"""Who watches a drive, and who answers its gates: whoever sits at the terminal, or nobody."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playbook_supervisor.render.log import Level, Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from playbook_supervisor.drivers.people import Watcher

_FIXED: Final = frozenset({"dumb", "unknown", ""})
"""Values of $TERM whose cursor cannot move."""


@contextmanager
def watching(level: Level) -> Iterator[Watcher]:
    """A live list where stderr can show one and somebody wants to see it, else a log."""
    can_draw = sys.stderr.isatty() and os.environ.get("TERM", "") not in _FIXED
    if not can_draw or level < Level.INFO:
        yield Log(level, colour=_wants_colour())
        return
    from playbook_supervisor.render.terminal import Terminal

    terminal = Terminal(level)
    try:
        yield terminal
    finally:
        terminal.close()


def _wants_colour() -> bool:
    """A log is coloured only where somebody insists."""
    return bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
