"""`cancel`: end a session of the fleet."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.fleet.commands.opening import opened


@options.command
@click.argument("session", metavar="SESSION", shell_complete=completers.fleet_sessions)
@click.argument("words", metavar="[REASON]...", nargs=-1)
def cancel(session: str, words: tuple[str, ...]) -> int:
    """End a session of the fleet for good.

    A worker stops what runs, journals the end with your name and reason, and pushes it. The session
    may wait, be queued or be stuck, too; it ends as soon as a worker has time. SESSION is its id,
    or the beginning or end of it.

    \b
    Examples:
      playbook cancel 20260219-a7k
      playbook cancel a7k superseded by 014
    """
    with opened() as database:
        from playbook_supervisor.fleet.commands import deciding

        row = deciding.cancel(database, session, " ".join(words))
    output.write(f"{row.id} cancelled by {row.cancel_by or 'you'}: a worker is going to end it")
    output.inform("`playbook status --fleet` shows when it has ended.")
    return 0
