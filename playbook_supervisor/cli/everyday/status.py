"""`status`: the sessions of all worktrees, those that wait for a human first."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import click

from playbook_supervisor.cli import options, output, streams
from playbook_supervisor.cli.render import json_shapes, live, sessions, wording
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.commands.views import queries
from playbook_supervisor.commands.views.progress import Progress
from playbook_supervisor.sessions.gate import gate_text

_INTERVAL = 1.0  # seconds between two readings of the sessions


@options.command
@options.session_argument
@click.option("--all", is_flag=True, help="Include ended sessions.")
@click.option("--watch", is_flag=True, help="Keep showing them; a named session until it ends.")
@options.json
def status(named: str, *, session: str, all: bool, watch: bool, json: bool) -> int:
    """Show all sessions, those that wait for you first.

    Then come the other open sessions, the latest begun first, and with --all those that ended, the
    latest end first. It reads every worktree. With --watch it also shows which steps run, for how
    long, and the last line of their agents. If stdout is not a terminal, --watch prints a line for
    each change.

    \b
    Examples:
      playbook status
      playbook status --all
      playbook status --watch
      playbook status a7k --json
    """
    chosen = options.chosen_session(named, session)
    if watch and json:
        raise click.UsageError("--watch and --json cannot be combined")
    if not watch:
        return _list(chosen, all=all, json=json)
    readings = _readings(chosen, all=all)
    return _redraw(readings) if output.can_redraw(sys.stdout) else _print_changes(readings)


def _list(session: str, *, all: bool, json: bool) -> int:
    seen = queries.status(session)
    shown = [each for each in seen if all or session or each.open]
    if json:
        output.write_json(json_shapes.sessions(shown))
        return 0
    for each in shown:
        context = gate_text.lines(each.gate_context())
        output.write(*sessions.brief(each, now(), context), *sessions.said(each))
    hidden = [each for each in seen if each not in shown]
    if not shown:
        output.inform("No session is open.")
    if hidden:
        failed = sum(each.failed for each in hidden)
        which = f", {failed} of them failed" if failed else ""
        output.inform(f"{len(hidden)} ended{which}: see `playbook status --all`.")
    return 0


def _readings(session: str, *, all: bool) -> Iterator[tuple[Progress, ...]]:
    """The sessions to show, once a second; one that was open is shown after its end, too."""
    followed: set[str] = set()
    for seen in queries.watch(session):
        followed.update(each.seen.session_id for each in seen if each.seen.open or all or session)
        yield tuple(each for each in seen if each.seen.session_id in followed)
        if (session and not any(each.seen.open for each in seen)) or streams.is_abandoned(
            sys.stdout
        ):
            return
        time.sleep(_INTERVAL)


def _redraw(readings: Iterator[tuple[Progress, ...]]) -> int:
    from playbook_supervisor.cli.render.terminal import Board  # rich is heavy

    board = Board(sys.stdout)
    for seen in readings:
        board.draw(live.session_board(seen, now()))
    return 0


def _print_changes(readings: Iterator[tuple[Progress, ...]]) -> int:
    printed: dict[str, str] = {}
    for seen in readings:
        for each in seen:
            line = live.session_line(each)
            if printed.get(each.seen.session_id) != line:
                printed[each.seen.session_id] = line
                context = gate_text.short(each.context)
                output.write(f"{wording.stamp(now())} {line}", *(f"  {line}" for line in context))
        sys.stdout.flush()
    return 0
