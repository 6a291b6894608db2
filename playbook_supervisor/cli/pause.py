"""`pause`: take the driver away and leave the session open."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands import driving, locate
from playbook_supervisor.formats.sanitize import printable


def pause(session: str) -> int:
    """What runs may return; nothing else is launched."""
    outlook = driving.pause(session)
    streams.tell_notices(outlook.notices)
    streams.put(f"session {outlook.manifest.session_id} is paused")
    streams.put(text.what_next(outlook, locate.name_from_here(outlook)))
    if where := locate.away(outlook):
        streams.tell(printable(where))
    return 0
