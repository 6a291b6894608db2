"""`repair`: show what something else changed in a session, take it, or put back what was there."""

from __future__ import annotations

import os

from playbook_supervisor.cli import streams
from playbook_supervisor.commands import repair as repairing
from playbook_supervisor.formats.sanitize import printable

DIFFERS = 3


def repair(session: str, *, take: bool, restore: bool) -> int:
    """Show the difference, 3 while there is one; or mend it in the way that was asked for."""
    repaired = repairing.repair(session, accept=take, undo=restore)
    for difference in repaired.differences:
        streams.put(printable(f"{difference.file}: {difference.what}"))
        for key, before, after in difference.changes:
            if before:
                streams.put(printable(f"  - {key}: {before}"))
            if after:
                streams.put(printable(f"  + {key}: {after}"))
    name = repaired.session_id
    if repaired.root is not None:
        streams.tell(printable(f"the worktree {os.path.relpath(repaired.root)} is there again"))
    if not repaired.differences and not take and not restore:
        streams.tell(f"session {name} is as it was written")
        return 0
    if take or restore:
        done = "counts as it is now" if take else "is again as it was written"
        streams.tell(f"session {name} {done}")
        return 0
    streams.tell(f"put back what was written: playbook repair {name} --restore")
    streams.tell(f"let it count as it is now: playbook repair {name} --take")
    return DIFFERS
