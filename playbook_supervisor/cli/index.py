"""`index`: bring `.playbooks/_index.yaml` up to date."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.commands import maintain


def index(*, check: bool = False) -> int:
    """Rewrite it where its content has changed; with `check` say so only, which is 1."""
    rewritten = maintain.index(check=check)
    streams.tell("index rewritten" if rewritten else "the index is up to date")
    return 0
