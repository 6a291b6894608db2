"""What prevents the removal of a worktree, a line each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.commands.worktrees import merge_detection, start_point
from playbook_supervisor.commands.worktrees.merge_detection import MergeTargets
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import GitError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.sessions.selection import open_here
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system import git
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.git_unattended import UNDER_WAY


def open_sessions(store: DiskStore, without: str = "") -> Iterator[str]:
    """The sessions of the worktree that are open or driven, but not `without`."""
    for name in open_here(store):
        if name == without:
            continue
        known = store.manifest(name)
        if known.gate is not None:
            ways = f"playbook answer {name} …, then playbook resume {name}, or abort it"
            asked = first_line(known.gate.question, 400)
            yield f"session {name} waits for an answer at {known.gate.id}: {ways}; it asks: {asked}"
            continue
        at = f" at {known.current_step}" if known.current_step else ""
        ways = "resume it to its end, or abort it"
        if known.status is SessionStatus.PENDING:
            ways = f"begin it, or take it away: playbook abort --clean {name}"
        yield f"session {name} is {known.status}{at}: {ways}"
    for name in store.ids():
        if name == without or not store.drives(name):
            continue
        if driver := driver_lock.living(store.runtime(name)):
            yield f"session {name} is being driven by process {driver.pid}"


def local_changes(here: Checkout) -> Iterator[str]:
    """What is not committed in the worktree, or not finished."""
    for name, what in {**UNDER_WAY, "BISECT_LOG": "a bisection"}.items():
        if (here.git_dir / name).exists():
            yield f"{what} is in progress in the worktree"
    if (here.git_dir / "locked").exists():
        yield "the worktree is locked: unlock it with `git worktree unlock`"
    if _has_submodules(here):
        ways = "push them, then run `git submodule deinit --all`"
        yield f"submodules are checked out, and their own commits cannot be compared: {ways}"
    for change in start_point.changes(here.root):
        yield f"not committed: {change.strip()}"


def _has_submodules(here: Checkout) -> bool:
    """Whether any is checked out; git keeps its folder for deinitialised ones."""
    if not (here.git_dir / "modules").is_dir():
        return False
    try:
        with git.repository(here.root) as repo:
            listed = repo.git.submodule("status")
    except GitError:
        return True
    return any(not line.startswith("-") for line in listed.splitlines())


def unmerged(main: Path, targets: MergeTargets, commit: str) -> Iterator[str]:
    """The commits that no target has."""
    if not targets.targets:
        yield "there is no other branch that it could have been merged into"
        return
    target = targets.targets[0]
    for line in merge_detection.missing_commits(main, commit, target) or (commit[:7],):
        yield f"not merged into {target.name}: {line}"
