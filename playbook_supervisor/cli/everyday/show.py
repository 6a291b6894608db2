"""`show`: one session with its conditions, evidence and answers."""

from __future__ import annotations

from pathlib import Path

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import json_shapes, sessions
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.commands.views import queries


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

        text = page(shown, now())
        if html == "-":
            output.write(text.removesuffix("\n"))
        else:
            queries.keep(Path(html), text)
            output.inform(f"written: {html}")
    elif not json:
        lines = sessions.details(shown, now(), every=all)
        output.write(*lines, width=output.terminal_width())
    if shown.problem:
        raise shown.problem
    return 0
