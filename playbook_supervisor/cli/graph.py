"""`graph`: a playbook, or a session of it, as a Mermaid flowchart."""

from __future__ import annotations

from playbook_supervisor.api import pictures
from playbook_supervisor.cli import streams
from playbook_supervisor.render.graph import flowchart


def graph(playbook: str = "", *, session: str = "") -> int:
    """Print it."""
    drawn = pictures.graph(playbook, session=session)
    streams.put(flowchart(drawn.playbook, drawn.entries, drawn.status))
    return 0
