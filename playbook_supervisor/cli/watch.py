"""`status --watch`: the sessions of all worktrees, for as long as somebody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import board, text
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.cli.watchers import can_draw
from playbook_supervisor.commands import view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.progress import Progress

_PACE = 1.0  # seconds between two looks


def watch(session: str = "", *, all: bool = False) -> int:
    """Show the open ones until Ctrl-C, and how they end; with `all` those that had ended, too.

    One that is named is shown until it has ended.
    """
    looks = _looks(session, all=all)
    return _drawn(looks) if can_draw(sys.stdout) else _told(looks)


def _looks(session: str, *, all: bool) -> Iterator[tuple[Progress, ...]]:
    followed: set[str] = set()
    for seen in view.watch(session):
        followed.update(each.seen.session_id for each in seen if each.seen.open or all or session)
        yield tuple(each for each in seen if each.seen.session_id in followed)
        if session and not any(each.seen.open for each in seen):
            return
        time.sleep(_PACE)


def _drawn(looks: Iterator[tuple[Progress, ...]]) -> int:
    """A picture that changes in its place; the last one is left standing."""
    from playbook_supervisor.cli.render.terminal import Board

    shown = Board(sys.stdout)
    for seen in looks:
        shown.draw(board.picture(seen, now()))
    return 0


def _told(looks: Iterator[tuple[Progress, ...]]) -> int:
    """A line for each change."""
    former: dict[str, str] = {}
    for seen in looks:
        for each in seen:
            line = board.standing(each)
            if former.get(each.seen.session_id) != line:
                former[each.seen.session_id] = line
                streams.put(f"{text.stamp(now())} {line}")
        sys.stdout.flush()
    return 0
