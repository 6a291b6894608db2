"""`abort`: end a session for good."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands import driving, protocol


@options.command
@options.session_argument
@click.option("-m", "--message", metavar="TEXT", default="", help="The reason, for the journal.")
def abort(named: str, *, session: str, message: str) -> int:
    """End a session for good.

    Running steps are stopped first, even if another terminal drives the session. The journal
    records the end.

    \b
    Examples:
      playbook abort
      playbook abort 20260219-a7k -m "superseded by 014"
    """
    snapshot = driving.abort(options.chosen_session(named, session), message)
    output.show_notices(snapshot.notices)
    output.write(text.summary(snapshot, protocol.entries(snapshot), snapshot.manifest.status))
    return 0
