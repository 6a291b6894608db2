"""`metrics`: durations, costs and waiting times."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import metrics_tables
from playbook_supervisor.commands.views.session_files import metrics as measure_sessions


@options.command
@options.session_argument
@click.option("--all", is_flag=True, help="Include every session of every worktree.")
@click.option(
    "--playbook",
    metavar="NAME",
    default="",
    shell_complete=completers.playbooks,
    help="Include every session of this playbook.",
)
@options.json
def metrics(named: str, *, session: str, all: bool, playbook: str, json: bool) -> int:
    """Show durations, costs and waiting times.

    For one session, or for many together. All values come from the journals; a missing value is
    not counted as 0.

    \b
    Examples:
      playbook metrics
      playbook metrics 20260219-a7k --json
      playbook metrics --all
      playbook metrics --playbook auto-feature
    """
    name = options.chosen_session(named, session)
    if name and (all or playbook):
        raise click.UsageError("a session, --all and --playbook cannot be combined")
    measured = measure_sessions(name, every=all, playbook=playbook)
    if json:
        output.write_json(metrics_tables.as_json(measured))
        return 0
    output.write(*metrics_tables.lines(measured))
    width = output.terminal_width() or metrics_tables.WIDTH
    for sheet in metrics_tables.sheets(measured):
        head, *rows = metrics_tables.plain(sheet, width)
        output.write("", f"\x1b[1m{head}\x1b[0m" if output.wants_colour() else head, *rows)
    return 0
