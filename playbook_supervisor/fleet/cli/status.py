"""`status --fleet`: the sessions of the fleet, once or again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from playbook_supervisor.cli import output, streams
from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.live import Line
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.cli import rendering
from playbook_supervisor.fleet.commands import opening, overview
from playbook_supervisor.fleet.commands.overview import FleetOverview
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import ENDED, State

_INTERVAL = 1.0  # seconds between two readings of the database


def show(session: str, *, all: bool, watch: bool, json: bool) -> int:
    """Print the sessions, or the named one; with `watch` until a named one ends."""
    with opening.opened() as database:
        if watch:
            readings = _readings(database, session, ended=all)
            return _redraw(readings) if output.can_redraw(sys.stdout) else _print_changes(readings)
        seen = overview.fleet(database, session, with_ended=all)
    if json:
        output.write_json(rendering.overview_shape(seen))
        return 0
    output.write(
        *(line.text for line in rendering.lines(seen)), *filter(None, [rendering.counts(seen)])
    )
    output.show_notices(seen.notices)
    if seen.count(State.WAITING):
        output.inform("What they ask, and what was done: `playbook inbox`.")
    return 0


def _readings(database: FleetDatabase, session: str, *, ended: bool) -> Iterator[FleetOverview]:
    """What to show, again and again; while the database is away, that it is."""
    away = ""
    while not streams.is_abandoned(sys.stdout):
        try:
            seen = overview.fleet(database, session, with_ended=ended)
        except FleetError as error:
            if error.message != away:
                output.inform(f"note: {error.message}; trying again")
            away = error.message
        else:
            away = ""
            yield seen
            if session and all(each.row.state in ENDED for each in seen.sessions):
                return
        time.sleep(_INTERVAL)


def _redraw(readings: Iterator[FleetOverview]) -> int:
    from playbook_supervisor.cli.render.terminal import Board

    board = Board(sys.stdout)
    for seen in readings:
        board.draw([Line(rendering.counts(seen)), Line(""), *rendering.lines(seen)])
    return 0


def _print_changes(readings: Iterator[FleetOverview]) -> int:
    printed: dict[str, str] = {}
    for seen in readings:
        for each in seen.sessions:
            line = rendering.session_line(each)
            if printed.get(each.row.id) != line:
                printed[each.row.id] = line
                output.write(f"{text.stamp(now())} {line}")
        sys.stdout.flush()
    return 0
