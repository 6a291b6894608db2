"""`schema`: the JSON Schema of a document."""

from __future__ import annotations

from playbook_supervisor.api import reading
from playbook_supervisor.cli import streams


def schema(name: str) -> int:
    """Print it."""
    streams.put(reading.schema_text(name).rstrip("\n"))
    return 0
