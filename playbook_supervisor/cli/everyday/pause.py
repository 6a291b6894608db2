"""`pause`: stop driving a session and leave it open."""

from __future__ import annotations

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.formats.sanitize import printable


@options.command
@options.session_argument
def pause(named: str, *, session: str) -> int:
    """Stop driving a session and leave it open.

    Steps that are running may finish; no further step is launched. Continue with `playbook
    resume`.

    \b
    Examples:
      playbook pause
      playbook pause 20260219-a7k
    """
    snapshot = driving.pause(options.chosen_session(named, session), on_wait=output.inform)
    output.show_notices(snapshot.notices)
    output.write(f"session {snapshot.manifest.session_id} is paused")
    output.write(text.next_move(snapshot, locate.required_id(snapshot)))
    if where := locate.other_worktree(snapshot):
        output.inform(printable(where))
    return 0
