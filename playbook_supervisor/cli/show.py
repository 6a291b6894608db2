"""`show`: one session with its conditions, evidence and answers."""

from __future__ import annotations

from pathlib import Path

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import json_shapes, sessions
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.commands import view


@options.command
@options.session_argument
@click.option(
    "--html",
    metavar="FILE",
    default="",
    type=click.Path(dir_okay=False),
    help="Write a self-contained HTML page; - is stdout.",
)
@options.json
def show(named: str, *, session: str, html: str, json: bool) -> int:
    """Show one session: attempts, conditions, evidence and answers.

    If part of the session cannot be read, the rest is shown and the exit code is 3.

    \b
    Examples:
      playbook show
      playbook show 20260219-a7k
      playbook show --html session.html
    """
    if html and json:
        raise click.UsageError("--html and --json cannot be combined")
    shown = view.show(options.chosen_session(named, session))
    content = (shown.seen, shown.entries, shown.playbook)
    if json and not shown.problem:
        output.write_json(json_shapes.session(*content, shown.effects))
        return 0
    if html:
        _write_page(shown, html)
    elif not json:
        output.write(*sessions.details(*content, now(), shown.effects))
    if shown.problem:
        raise shown.problem
    return 0


def _write_page(shown: view.SessionView, html: str) -> None:
    from playbook_supervisor.cli.render.page import page

    text = page(shown.seen, shown.entries, shown.playbook, shown.problem, now(), shown.effects)
    if html == "-":
        output.write(text.removesuffix("\n"))
    else:
        view.keep(Path(html), text)
        output.inform(f"written: {html}")
