"""`fleet`: sessions on many machines, and the database that their workers share."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options

_UPKEEP = ("retry", "up", "migrate", "limits", "rebuild", "prune", "doctor")
_COMMANDS = {"submit": "submit", "worker": "upkeep", "status": "status"}
_COMMANDS |= dict.fromkeys(_UPKEEP, "upkeep")


@options.group
@click.pass_context
def fleet(ctx: click.Context) -> int | None:
    """Run sessions on many machines, or several at once here.

    `playbook fleet submit` queues a session, each `playbook fleet worker` takes one after the
    other. What they share is a database: SQLite on one machine, PostgreSQL on many.
    $PLAYBOOK_FLEET or `fleet` in .playbooks/config.yaml has its address; without either it is a
    SQLite file of yours. `playbook answer` and `playbook abort` take the sessions of a fleet, too.

    \b
    Examples:
      playbook fleet up
      playbook fleet submit auto-feature 013
      playbook fleet worker
      playbook fleet status
      PLAYBOOK_FLEET=postgresql://db.example.org/fleet playbook fleet migrate
      playbook fleet limits --in-all 4 --per-repository 1
      playbook fleet doctor
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return None


options.add_imported(fleet, __package__, _COMMANDS)
