"""`abort`: end a session for good."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands import driving, protocol


def abort(session: str, words: str) -> int:
    """End it, journaled; a runner ends what runs first."""
    outlook = driving.abort(session, words)
    streams.tell_notices(outlook.notices)
    status = outlook.manifest.status
    streams.put(text.summary(outlook, protocol.entries(outlook), status))
    return 0
