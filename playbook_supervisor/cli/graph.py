"""`graph`: a playbook, or a session of it, as a Mermaid flowchart."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render.graph import flowchart
from playbook_supervisor.commands import diagrams


def graph(playbook: str = "", *, session: str = "") -> int:
    """Print it."""
    drawn = diagrams.graph(playbook, session=session)
    streams.put(flowchart(drawn.playbook, drawn.entries, drawn.status))
    return 0
