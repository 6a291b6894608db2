"""`logs`: all that the agent of an attempt said."""

from __future__ import annotations

import sys

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands.views import logs as command


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
