"""`abort`: end a session for good."""

from __future__ import annotations

import os
from pathlib import Path

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands import places
from playbook_supervisor.commands.driving import driving, protocol
from playbook_supervisor.commands.worktrees import finish as discarding
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import printable


@options.command
@click.argument(
    "named", metavar="[SESSION]", default="", shell_complete=completers.sessions_anywhere
)
@options.session
@click.option("-m", "--message", metavar="TEXT", default="", help="The reason, for the journal.")
@click.option("--clean", is_flag=True, help="Take it away, if it came to nothing.")
def abort(named: str, *, session: str, message: str, clean: bool) -> int:
    """End an open or failed session for good.

    Running steps are stopped first, even if another terminal drives the session. The journal
    records the end. A session of a fleet is ended from any folder, by one of its workers.

    With --clean the session is removed instead, with the worktree that `start` created for it, and
    the branch if it has no work: if none of its steps ran, and no commit has it. Otherwise the
    command lists what it keeps the session for and changes nothing.

    \b
    Examples:
      playbook abort
      playbook abort 20260219-a7k -m "superseded by 014"
      playbook abort 20260219-a7k --clean
    """
    chosen = options.chosen_session(named, session)
    if clean:
        return _take_away(chosen)
    if decided := places.end(chosen, message):
        output.write(decided.what)
        output.inform(f"next: {decided.next}")
        return 0
    snapshot = driving.abort(chosen, message)
    output.show_notices(snapshot.notices)
    output.write(
        text.summary(
            snapshot, [*protocol.tree_entries(snapshot).values()], snapshot.manifest.status
        )
    )
    return 0


def _take_away(session: str) -> int:
    here = Path.cwd()
    try:
        gone = discarding.discard(session)
    except StateError as error:
        output.write(*map(printable, error.details))
        raise
    lines = [f"✓ Session {gone.session_id} removed: none of its steps ran"]
    if gone.root is None:
        lines.append(f"✓ Folder {os.path.relpath(gone.folder, here)} removed")
    else:
        lines.append(f"✓ Worktree {os.path.relpath(gone.root, here)} removed")
    if gone.branch:
        how = f": {gone.merged}" if gone.merged else ""
        lines.append(f"✓ Branch {gone.branch} removed{how}")
    elif gone.stays:
        lines.append(f"Branch {gone.stays} stays")
    output.write(*map(printable, lines))
    return 0
