"""`repair`: show, accept or undo changes that something else made to a session."""

from __future__ import annotations

import os

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands import repair as repairing
from playbook_supervisor.formats.sanitize import printable

_DIFFERS = 3


@options.command
@options.session_argument
@click.option("--take", is_flag=True, help="Accept the files as they are now.")
@click.option(
    "--restore", is_flag=True, help="Restore the recorded files, and the worktree if it is gone."
)
def repair(named: str, *, session: str, take: bool, restore: bool) -> int:
    """Show or undo changes that something else made to a session.

    Without --take and --restore it changes nothing, and exits with 3 if there is a difference.
    Comments and layout do not count as differences.

    \b
    Examples:
      playbook repair
      playbook repair 20260219-a7k --restore
      playbook repair --take
    """
    if take and restore:
        raise click.UsageError("--take and --restore cannot be combined")
    chosen = options.chosen_session(named, session)
    repaired = repairing.repair(chosen, accept=take, undo=restore)
    for difference in repaired.differences:
        output.write(printable(f"{difference.file}: {difference.what}"))
        for key, before, after in difference.changes:
            if before:
                output.write(printable(f"  - {key}: {before}"))
            if after:
                output.write(printable(f"  + {key}: {after}"))
    name = repaired.session_id
    if repaired.root is not None:
        output.inform(printable(f"worktree {os.path.relpath(repaired.root)} restored"))
    for folder in repaired.moved:
        output.inform(printable(f"a folder was in the place of a file; it is now {folder}"))
    if take or restore:
        output.inform(f"session {name} is {'accepted as it is now' if take else 'restored'}")
        return 0
    if not repaired.differences:
        output.inform(f"session {name} is unchanged")
        return 0
    if repaired.restorable:
        output.inform(f"restore what was recorded: playbook repair {name} --restore")
    output.inform(f"accept the files as they are: playbook repair {name} --take")
    return _DIFFERS
