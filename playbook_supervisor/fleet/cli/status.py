"""`fleet status`: the sessions of the fleet, once or again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

import click

from playbook_supervisor.cli import options, output, streams
from playbook_supervisor.cli.completers import completer
from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.text import Line
from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.cli import rendering
from playbook_supervisor.fleet.commands import opening, overview
from playbook_supervisor.fleet.commands.overview import FleetOverview
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import ENDED, State
from playbook_supervisor.sessions.files.session_clock import system_clock

_INTERVAL = 1.0  # seconds between two readings of the database


@completer
def open_sessions(_: click.Context) -> Iterable[str]:
    """Ids of the open sessions of the fleet, also by their last three characters."""
    return opening.session_ids()


@options.command
@click.argument("session", metavar="[SESSION]", default="", shell_complete=open_sessions)
@click.option("--all", is_flag=True, help="Include ended sessions.")
@click.option("--watch", is_flag=True, help="Keep showing them; a named session until it ends.")
@options.json
def status(session: str, *, all: bool, watch: bool, json: bool) -> int:
    """Show the sessions of the fleet, those that wait for you first.

    Of all repositories and machines: then come the stuck ones, those that run, and the queue in its
    order. SESSION is an id, or the beginning or end of one. If stdout is not a terminal, --watch
    prints a line for each change.

    \b
    Examples:
      playbook fleet status
      playbook fleet status --watch
      playbook fleet status a7k --json
    """
    if watch and json:
        raise click.UsageError("--watch and --json cannot be combined")
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
    from playbook_supervisor.cli.render.terminal import Board  # rich, on a terminal alone

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
                output.write(f"{text.stamp(system_clock())} {line}")
        sys.stdout.flush()
    return 0
