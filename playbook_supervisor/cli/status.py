"""`status`: the sessions of all worktrees, those that wait for a human first."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import json_shapes, sessions
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.commands import view


def status(session: str = "", *, all: bool = False, json: bool = False) -> int:
    """Print the open ones; with `all` the ended ones, too; or only the one that is named."""
    seen = view.status(session)
    shown = [each for each in seen if all or session or each.open]
    if json:
        streams.put_json(json_shapes.sessions(shown))
        return 0
    for each in shown:
        for line in sessions.brief(each, now()):
            streams.put(line)
    hidden = len(seen) - len(shown)
    if not shown:
        streams.tell("No session is open.")
    if hidden:
        streams.tell(f"{hidden} ended: `playbook status --all` shows them.")
    return 0
