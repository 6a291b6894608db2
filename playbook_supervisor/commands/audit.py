"""`playbook audit`: report what cannot be true of sessions, which any tool may have written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.audit.examination import AuditReport, examine_tree
from playbook_supervisor.commands import locate, session_files
from playbook_supervisor.errors import StateError
from playbook_supervisor.sessions.session_clock import system_clock


def audit(
    names: Sequence[str] = (), *, every: bool = False, cwd: Path | None = None
) -> tuple[AuditReport, ...]:
    """Audit the sessions named by id or path, all of them, or this worktree's; with their children.

    Reads only. StateError if a name means no session.
    """
    now = _now(cwd)
    records = session_files.find(names, every=every, cwd=cwd)
    return tuple(
        report
        for record in records
        for report in examine_tree(session_files.with_history(record), now)
    )


def _now(cwd: Path | None) -> int:
    """The machine's time, or the one of this checkout's sessions if that is ahead."""
    now = system_clock()
    with suppress(StateError):
        now = max(now, locate.store(cwd).clock())
    return now
