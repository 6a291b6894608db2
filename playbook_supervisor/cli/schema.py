"""`schema`: the JSON Schema of a document."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.commands import view


def schema(name: str) -> int:
    """Print it."""
    streams.put(view.schema_text(name).rstrip("\n"))
    return 0
