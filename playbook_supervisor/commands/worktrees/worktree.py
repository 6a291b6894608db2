"""A session's worktree: created completely or not at all, under a lock shared by all starts.

`git worktree add` races with itself. Each creation is recorded first, so that a later start can
remove what a killed one left. A person's work is never removed.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from playbook_supervisor.commands.worktrees import start_point
from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.store.disk_store import SESSIONS
from playbook_supervisor.system.disk.files import (
    ensure_folder,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.disk.locks import locked
from playbook_supervisor.system.git import git_process, gitpython
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.git_programs import Runs
from playbook_supervisor.system.process.process_groups import worker_alive

_TIMEOUT = 600.0
"""Seconds to wait for other starts: a checkout may be large, and a hook slow."""


@dataclass(frozen=True, slots=True)
class WorktreePlan:
    """A worktree to create: its path, its branch, whether that is new, and the commit at its tip.

    `source` is what a new branch is created from; if it is a remote branch, it is tracked.
    """

    session_id: str
    path: str
    branch: str
    new: bool
    commit: str
    source: str


# ── creating ────────────────────────────────────────────────────────────────────────────────


def locked_worktrees(here: Checkout) -> AbstractContextManager[None]:
    """Lock the repository's worktrees. StateError PB-STATE-BUSY after ten minutes."""
    folder = here.common_dir / "playbook"
    ensure_folder(folder)
    return locked(folder / "worktrees.lock", timeout=_TIMEOUT)


@contextmanager
def created(here: Checkout, plan: WorktreePlan) -> Iterator[None]:
    """Create the worktree; remove it, with its branch and id, if the body fails.

    Enter it while holding `locked_worktrees`, and leave it after releasing that. GitError
    PB-GIT-FAILED if git or one of its hooks refuses.
    """
    with recorded(here, plan) as record:
        try:
            if plan.new:
                try:
                    git_process.change(here.root, "branch", "--", plan.branch, plan.source)
                except GitError:
                    plan = replace(plan, new=False)  # the branch is not ours to remove
                    raise
            add = ("worktree", "add", "--quiet", "--", plan.path, plan.branch)
            git_process.change(here.root, *add, runs=Runs.ALL)
        except BaseException:
            _roll_back(here, plan, record)
            raise
        try:
            yield
        except BaseException:
            with uninterrupted(), locked_worktrees(here):
                _roll_back(here, plan, record)
            raise


# ── removing ────────────────────────────────────────────────────────────────────────────────


def _roll_back(here: Checkout, plan: WorktreePlan, record: Path) -> None:
    """Remove what was created; if that fails, the record stays for the next start."""
    with uninterrupted(), suppress(PlaybookError):
        remove_all(here, plan)
        remove(record)


def remove_all(here: Checkout, plan: WorktreePlan) -> None:
    """Remove everything that the plan created, except a branch with new commits."""
    remove(Path(plan.path))
    with suppress(PlaybookError):  # it was not created yet
        git_process.change(here.root, "worktree", "remove", "--force", "--force", "--", plan.path)
    if plan.new and start_point.heads(here.root).get(plan.branch) == plan.commit:
        git_process.change(here.root, "branch", "-D", "--quiet", "--", plan.branch)
    with suppress(OSError):
        (here.ids / plan.session_id).rmdir()


def uninterrupted() -> AbstractContextManager[None]:
    """Ignore signals during cleanup, also a second Ctrl-C."""
    return handling(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handling(
    handler: Callable[[int, object], None] | signal.Handlers, *numbers: signal.Signals
) -> Iterator[None]:
    """Call `handler` for these signals; outside the main thread Python delivers none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in previous.items():
            signal.signal(number, former)


@contextmanager
def recorded(here: Checkout, plan: WorktreePlan) -> Iterator[Path]:
    """While the body creates or removes this worktree: if it is killed, `clean_up` removes the
    rest, but for a session that is there. The file that says so.
    """
    record = _records(here) / f"{plan.session_id}.json"
    ensure_folder(record.parent)
    lock = record.with_suffix(".lock")
    try:
        with locked(lock):
            write_atomically(record, json.dumps(as_mapping(plan)).encode())
            yield record
            remove(record)
    finally:
        lock.unlink(missing_ok=True)


# ── what killed commands left ─────────────────────────────────────────────────────────────────


def left(here: Checkout, session_id: str) -> WorktreePlan | None:
    """The worktree that a killed command was creating or removing; None if there is none."""
    try:
        return WorktreePlan(**json.loads(read_bytes(_records(here) / f"{session_id}.json")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def clean_up(here: Checkout) -> tuple[str, ...]:
    """Remove what killed commands left; notices for the user. The caller holds the lock."""
    records = sorted(_records(here).glob("*.json"))
    idle = (each for each in records if not worker_alive(each.with_suffix(".lock")))
    return tuple(filter(None, (_clean_up(here, each) for each in idle)))


def _records(here: Checkout) -> Path:
    return here.common_dir / "playbook" / "starting"


def _clean_up(here: Checkout, record: Path) -> str:
    plan = left(here, record.stem)
    if plan is None:
        remove(record)
        return ""
    if (Path(plan.path) / SESSIONS / plan.session_id / "session.yaml").is_file():
        notice = f"a killed command left session {plan.session_id} complete; it waits in "
        notice += plan.path
    elif _has_changes(plan):
        notice = f"a killed command left {plan.path} on branch {plan.branch}, with changes; "
        notice += "`git worktree remove` removes it"
    else:
        try:
            remove_all(here, plan)
        except PlaybookError as error:  # the record stays for the next start
            return f"what a killed command left of session {plan.session_id} stays: {error.message}"
        notice = f"removed what a killed command left of session {plan.session_id}"
    remove(record)
    record.with_suffix(".lock").unlink(missing_ok=True)
    return notice


def _has_changes(plan: WorktreePlan) -> bool:
    """True if the checkout was complete and has changed since, perhaps by a person's work."""
    if not (Path(plan.path) / ".git").is_file():
        return False
    try:
        with gitpython.repository(Path(plan.path)) as repo:
            if not Path(repo.index.path).exists():
                return False  # git was killed during the checkout
            head = repo.git.rev_parse("HEAD")
        return head != plan.commit or bool(start_point.changes(Path(plan.path)))
    except PlaybookError:
        return True


# ── a worktree that was removed by hand ─────────────────────────────────────────────────────


def restore(removed: Checkout) -> None:
    """Recreate the worktree's folder from its index. GitError PB-GIT-TAKEN, PB-GIT-FAILED."""
    root = removed.root
    with locked_worktrees(removed):
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise GitError(
                "PB-GIT-TAKEN",
                f"the worktree's path is in use: {root}",
                where=str(root),
                guidance="Move away what is there, then repeat.",
            )
        ensure_folder(root)
        try:
            write_atomically(root / ".git", f"gitdir: {removed.git_dir}\n".encode())
            git_process.change(root, "checkout-index", "--all", "--quiet", runs=Runs.ALL)
        except BaseException:
            remove(root)
            raise
