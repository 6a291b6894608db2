"""Resume, pause and abort as a person asks for them, at a terminal or at a client's prompt."""

from __future__ import annotations

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.selection import OPEN
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree


def require_open(snapshot: Snapshot, *, or_failed: bool = False) -> None:
    """StateError PB-STATE-ENDED if the session has ended; with `or_failed`, not if it failed."""
    session_id, status = snapshot.session_id, snapshot.manifest.status
    if status in OPEN or (or_failed and status is SessionStatus.FAILED):
        return
    message, guidance = f"session {session_id} is already {status}", "Begin a new session."
    if status is SessionStatus.FAILED:
        message = f"session {session_id} has already failed"
        retry, end = f"playbook resume {session_id} --retry", f"playbook abort {session_id}"
        guidance = f"`{retry}` resumes it, `{end}` ends it."
    raise StateError("PB-STATE-ENDED", message, guidance=guidance)


def abort(tree: SessionTree, words: str, by: Principal) -> Snapshot:
    """End the session and its workers. The caller keeps other drivers away meanwhile."""
    driver_lock.end_detached(tree.private)
    tree.end_workers()
    return tree.abort(words or Resolution.ABORT.value, by)
