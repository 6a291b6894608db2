"""`show`: one session's timeline, with conditions, evidence and what humans said."""

from __future__ import annotations

from playbook_supervisor.api import reading
from playbook_supervisor.cli import streams
from playbook_supervisor.errors import StateError
from playbook_supervisor.render import sessions, shapes
from playbook_supervisor.render.log import now


def show(session: str = "", *, json: bool = False) -> int:
    """Print it; what can be read is shown even where something cannot, which is 3."""
    shown = reading.show(session)
    if json and not shown.problem:
        streams.put_json(shapes.session(shown.seen, shown.entries, shown.playbook))
        return 0
    if not json:
        for line in sessions.timeline(shown.seen, shown.entries, shown.playbook, now()):
            streams.put(line)
    if shown.problem:
        raise StateError("PB-STATE-CORRUPT", shown.problem, where=shown.seen.session_id)
    return 0
