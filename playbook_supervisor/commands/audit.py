"""`playbook audit`: report what cannot be true of sessions, which any tool may have written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.audit.examination import AuditReport, examine_tree
from playbook_supervisor.commands import session_files


def audit(
    names: Sequence[str] = (), *, every: bool = False, cwd: Path | None = None
) -> tuple[AuditReport, ...]:
    """Audit the sessions named by id or path, all of them, or this worktree's; with their children.

    Reads only. StateError if a name means no session.
    """
    now = time.time_ns() // 1_000_000
    records = session_files.find(names, every=every, cwd=cwd)
    return tuple(
        report
        for record in records
        for report in examine_tree(session_files.with_history(record), now)
    )
