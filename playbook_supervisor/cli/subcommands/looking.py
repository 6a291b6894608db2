"""`list`, `status`, `show` and `logs`: look at playbooks and sessions."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from playbook_supervisor.cli import options, output, streams
from playbook_supervisor.cli.render import json_shapes, live, sessions, text
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.commands.checking import checked_files
from playbook_supervisor.commands.views import logs as command
from playbook_supervisor.commands.views import queries
from playbook_supervisor.commands.views.progress import Progress
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.project.expressions.arguments import hint
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
                output.write(f"{text.stamp(now())} {line}", *(f"  {line}" for line in context))
        sys.stdout.flush()
    return 0


@options.command
@options.session_argument
@click.option(
    "--html",
    metavar="FILE",
    default="",
    type=click.Path(dir_okay=False),
    help="Write a self-contained HTML page; - is stdout.",
)
@click.option("--all", is_flag=True, help="Show every item, round and step of a child session.")
@options.json
def show(named: str, *, session: str, html: str, all: bool, json: bool) -> int:
    """Show one session: attempts, conditions, evidence and answers.

    A loop is one line that names the items which failed, and so is a child session that is
    completed. --json and --html have everything. If part of the session cannot be read, the rest
    is shown and the exit code is 3.

    \b
    Examples:
      playbook show
      playbook show 20260219-a7k
      playbook show --all
      playbook show --html session.html
    """
    if html and json:
        raise click.UsageError("--html and --json cannot be combined")
    shown = queries.show(options.chosen_session(named, session))
    if json and not shown.problem:
        output.write_json(json_shapes.session(shown))
        return 0
    if html:
        from playbook_supervisor.cli.render.html import page  # Jinja is heavy

        written = page(shown, now())
        if html == "-":
            output.write(written.removesuffix("\n"))
        else:
            queries.keep(Path(html), written)
            output.inform(f"written: {html}")
    elif not json:
        lines = sessions.details(shown, now(), every=all)
        output.write(*lines, width=output.terminal_width())
    if shown.problem:
        raise shown.problem
    return 0


@options.command
@click.argument("step", metavar="[STEP[#N]]", default="")
@click.option("--follow", "-f", is_flag=True, help="Show more as it is written, until it ends.")
@options.session
def logs(*, step: str, follow: bool, session: str) -> int:
    """Show all that the agent of an attempt said.

    Without STEP it is the attempt that spoke last; with a step's name, the step's last attempt.
    An item of a loop is build[2], an attempt of a child session release#1/plan#1.
    The logs are kept on this machine, the beginning and the end of long ones, and never in git.

    \b
    Examples:
      playbook logs
      playbook logs implement
      playbook logs implement#1
      playbook logs release#1/plan
      playbook logs --follow
    """
    log = command.find(step, session=session, follow=follow)
    output.inform(f"{log.id} of session {log.session_id}")
    if not follow:
        output.write(*log.lines())
        return 0
    for line in log.follow():
        output.write(line)
        sys.stdout.flush()
    return 0


@options.command
@options.json
def list(*, json: bool) -> int:
    """List the playbooks of this project, and what they take.

    \b
    Examples:
      playbook list
      playbook list --json
    """
    playbooks = queries.playbooks()
    if json:
        output.write_json(json_shapes.playbooks(playbooks))
        return 0
    rows = [
        (each.name, "-", "-", f"cannot run: {each.problem}")
        if each.problem
        else (
            each.name,
            counted(each.steps, "step"),
            " ".join(map(hint, each.args)) or "-",
            each.description,
        )
        for each in playbooks
    ]
    output.write(*text.table(rows))
    if left := checked_files.passed_over():
        output.inform(f"Not read: {', '.join(left)}. {checked_files.NAMES}")
    if not rows:
        output.inform(
            "There are no playbooks yet. `playbook init` installs those that fit this project."
        )
    return 0
