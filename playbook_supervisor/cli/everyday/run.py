"""`run`: drive a playbook to its end or to a gate."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.drive import drive_and_show
from playbook_supervisor.cli.render import plan
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.dry_run import plan as plan_run


@options.command
@options.playbook
@options.driving
@options.start
@click.option("--dry-run", is_flag=True, help="Show the plan and run nothing.")
@options.json
def run(
    playbook: str,
    args: tuple[str, ...],
    *,
    start: str,
    dry_run: bool,
    json: bool,
    **values: object,
) -> int:
    """Run a playbook to its end or to a gate.

    Each step runs in a fresh agent. At a terminal you are asked at gates. Otherwise the command
    prints the question and how to answer it, and exits with 4. Write ARGs in the order in which
    the playbook declares them, or as name=value.

    \b
    Examples:
      playbook run auto-feature 013
      playbook run auto-change "add --json to list"
      playbook run auto-feature 013 --dry-run
      playbook run auto-feature feature=013 --from implement
      playbook run auto-validate 013 --mode autonomous --json
      playbook run auto-feature 013 --agent exec:./my-agent
    """
    drive = options.drive_options(values)
    if not dry_run:
        return drive_and_show(
            lambda observer, prompter: driving.run(
                playbook, args, start=start, drive=drive, observer=observer, prompter=prompter
            ),
            options.level(),
            json=json,
        )
    planned = plan_run(playbook, args, start=start, drive=drive)
    if json:
        output.write_json(plan.as_json(planned))
        return planned.exit_code
    colour, width = output.wants_colour(), output.terminal_width()
    output.write(*plan.lines(planned, colour=colour, width=width), width=width)
    output.inform(plan.verdict(planned))
    return planned.exit_code
