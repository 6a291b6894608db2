"""`pause`: take the driver away and leave the session open."""

from __future__ import annotations

from playbook_supervisor.api import driving, place
from playbook_supervisor.cli import streams
from playbook_supervisor.errors import naming
from playbook_supervisor.plain_text import printable
from playbook_supervisor.render import text


def pause(session: str) -> int:
    """What runs may return; nothing else is launched."""
    outlook = driving.pause(session)
    streams.tell_notices(outlook.notices)
    streams.put(f"session {outlook.manifest.session_id} is paused")
    streams.put(naming(text.what_next(outlook), place.name_from_here(outlook)))
    if where := place.away(outlook):
        streams.tell(printable(where))
    return 0
