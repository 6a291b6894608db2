"""`index`: update `.playbooks/_index.yaml`."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.commands.index import index as update_index


def index(*, check: bool = False) -> int:
    """Rewrite the index if it is stale; with `check`, fail instead."""
    rewritten = update_index(check=check)
    streams.tell("index rewritten" if rewritten else "the index is up to date")
    return 0
