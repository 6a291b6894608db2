"""`playbook abort --clean`: take away a session that came to nothing, and what `start` made for it.

It came to nothing if none of its steps ran and no commit has it. Everything else is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.worktrees import finish as finishing
from playbook_supervisor.commands.worktrees import start_point, worktree
from playbook_supervisor.commands.worktrees.finish import FinishPlan
from playbook_supervisor.commands.worktrees.journal_home import read_files
from playbook_supervisor.commands.worktrees.worktree import WorktreePlan
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.sessions.files.integrity import FILES
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.system.disk.files import remove
from playbook_supervisor.system.git import gitpython


@dataclass(frozen=True, slots=True)
class Discarded:
    """What was removed: the session's folder, and worktree and branch if `start` made them.

    `root` is None if the worktree stays; `branch` is empty if it stays, and then `stays` names it.
    """

    session_id: str
    folder: Path
    root: Path | None = None
    branch: str = ""
    merged: str = ""
    stays: str = ""


def discard(session: str = "", *, cwd: Path | None = None) -> Discarded:
    """Remove a session that came to nothing; without an end in the journal, which goes with it.

    If it was killed, the next call continues. StateError PB-STATE-KEPT, with every reason to keep
    it, before anything is changed.
    """
    if done := _completed(locate.store(cwd), session):
        return done
    store, session_id = locate.select(session, cwd)
    locate.require_human(store, session_id, "abort --clean")
    private, folder = store.runtime(session_id), store.folder(session_id)
    _plan(store, session_id)
    with driver_lock.driving(private, "abort --clean"):  # so that no runner begins meanwhile
        plan = _plan(store, session_id)
        authorization.release(store.checkout, private)
        if plan is None:
            store.discard(session_id)
            return Discarded(session_id, folder)
        here = store.checkout
        tree = WorktreePlan(
            session_id, str(plan.root), plan.branch, bool(plan.branch), here.head, ""
        )
        with worktree.recorded(here, tree):
            finishing.finish(plan)
            remove(here.ids / session_id)
    stays = "" if plan.branch else here.branch
    return Discarded(session_id, folder, plan.root, plan.branch, plan.merged, stays)


def _completed(store: DiskStore, session: str) -> Discarded | None:
    """What is removed now because a killed call left it; None if there is nothing."""
    here, session_id = store.checkout, locate.named(store, session)
    tree = worktree.left(here, session_id) if SESSION_ID.match(session_id) else None
    if tree is None or Path(tree.path).exists():
        return None
    locate.require_no_agent(store, "abort --clean")
    with worktree.locked_worktrees(here):
        worktree.clean_up(here)
    if worktree.left(here, session_id):
        return None
    folder = Path(tree.path) / SESSIONS / session_id
    return Discarded(session_id, folder, Path(tree.path), tree.branch)


def _plan(store: DiskStore, session_id: str) -> FinishPlan | None:
    """What becomes of the session's worktree; None if `start` did not create one for it."""
    plan, reasons = None, [*_worth_keeping(store, session_id)]
    if start_point.saved(store.runtime(session_id)) is not None:
        plan = finishing.plan_worktree(store, session_id, discards=True)
        reasons += [*plan.obstacles, *plan.unsafe]
    if reasons:
        raise StateError(
            "PB-STATE-KEPT",
            f"session {session_id} is kept: {counted(len(reasons), 'reason')}",
            where=str(store.folder(session_id)),
            details=tuple(reasons),
        )
    return plan


def _worth_keeping(store: DiskStore, session_id: str) -> Iterator[str]:
    if ran := [entry.id for entry in store.journal(session_id).entries if entry.ran]:
        yield f"{', '.join(ran)} ran"
    folder = f":(top,literal){SESSIONS}/{session_id}"
    with gitpython.repository(store.checkout.root) as repo:
        if commit := repo.git.log("--all", "-1", "--format=%h", "--", folder):
            yield f"it is in a commit: {commit}"
        elif repo.git.ls_files("--", folder):
            yield "it is staged for a commit"
    for file in sorted(read_files(store.folder(session_id)).keys() - set(FILES)):
        yield f"{file} is in its folder"
