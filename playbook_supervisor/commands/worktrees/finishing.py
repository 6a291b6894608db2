"""`playbook finish`: the worktree and the branch of a session go once their work is merged.

Looked at first, and told line by line where something is in the way. What is removed is only what
stands elsewhere, too; the journal's end is brought home where the merge came before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.commands.worktrees import merge_detection, start_point, worktree
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import GitError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.selection import open_here
from playbook_supervisor.sessions.store import SESSIONS, DiskStore
from playbook_supervisor.system import checkout, git, git_process
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.files import contained, ensure_folder, read_bytes, write_atomically

_UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


class FinishPlan(Record):
    """What would go, and what is in the way of it, a line each.

    `root` is the worktree, which may be `gone` already, `main` where git is asked. `branch` is
    empty where none is to go; `merged` says how its work came to where it was to go.
    """

    store: DiskStore
    session_id: str
    main: Path
    root: Path
    branch: str
    merged: str
    obstacles: tuple[str, ...]
    gone: bool = False


class FinishResult(Record):
    """What has gone. `journals` are sessions whose end now stands, uncommitted, in `main`;
    `notices` are sentences for the person."""

    parting: FinishPlan
    journals: tuple[str, ...]
    notices: tuple[str, ...]


# ── looking ─────────────────────────────────────────────────────────────────────────────────


def examine(store: DiskStore, session_id: str) -> FinishPlan:
    """Look at the session's worktree and branch. StateError where it has none to remove."""
    here = store.checkout
    main = here.main_root
    if not lives(store, session_id):
        return _without_worktree(store, session_id)
    at = worktree.started_from(store.runtime(session_id))
    lines = merge_detection.lines(main, here.branch, at.ref if at else "", _checked_out(main))
    stays = here.branch in lines.kept
    merged = "" if stays else _merged(main, lines, here.branch, here.head)
    obstacles = [*_unsettled(store), *_uncommitted(here)]
    if not stays and not merged:
        obstacles += _unmerged(main, lines, here.head)
    branch = "" if stays else here.branch
    return FinishPlan(store, session_id, main, here.root, branch, merged, tuple(obstacles))


def lives(store: DiskStore, session_id: str) -> bool:
    """Whether this is the session's own worktree: a merge brings copies into those of others."""
    here = store.checkout
    if here.git_dir == here.common_dir:
        return False
    named = here.main_root / store.manifest(session_id).worktree
    return store.drives(session_id) or named.resolve() == here.root.resolve()


def _without_worktree(store: DiskStore, session_id: str) -> FinishPlan:
    """Somebody has removed the worktree by hand; the branch may have stayed."""
    known, main = store.manifest(session_id), store.checkout.main_root
    root = Path(os.path.normpath(main / known.worktree))
    if root == main or root.exists():
        raise StateError(
            "PB-STATE-NO-WORKTREE",
            f"session {session_id} has no worktree of its own: there is none to remove",
            where=str(main),
        )
    lines = merge_detection.lines(main, known.branch, "", _checked_out(main))
    taken = {each.branch for each in git.worktrees(main) if each.path.exists()}
    commit = start_point.heads(main).get(known.branch, "")
    if not commit or known.branch in lines.kept | taken:
        return FinishPlan(store, session_id, main, root, "", "", (), gone=True)
    merged = _merged(main, lines, known.branch, commit)
    obstacles = () if merged else tuple(_unmerged(main, lines, commit))
    return FinishPlan(store, session_id, main, root, known.branch, merged, obstacles, gone=True)


def _checked_out(main: Path) -> str:
    """The branch of the main checkout; empty where it is bare."""
    try:
        return checkout.find(main).branch
    except StateError:
        return ""


def _merged(main: Path, lines: merge_detection.Lines, branch: str, commit: str) -> str:
    for target in lines.targets:
        if how := merge_detection.merged(main, commit, target):
            return how
    return merge_detection.pull_request(main, branch, commit)


# ── what is in the way ──────────────────────────────────────────────────────────────────────


def _unsettled(store: DiskStore) -> Iterator[str]:
    for name in open_here(store):
        known = store.manifest(name)
        if known.gate is not None:
            ways = f"playbook answer {name} …, then playbook resume {name}, or abort it"
            asked = first_line(known.gate.question, 400)
            yield f"session {name} waits for an answer at {known.gate.id}: {ways}; it asks: {asked}"
            continue
        at = f" at {known.current_step}" if known.current_step else ""
        yield f"session {name} is {known.status}{at}: resume it to its end, or abort it"
    for name in store.ids():
        if store.drives(name) and (driver := driver_lock.living(store.runtime(name))):
            yield f"session {name} is being driven by process {driver.pid}"


def _uncommitted(here: Checkout) -> Iterator[str]:
    for name, what in _UNDER_WAY.items():
        if (here.git_dir / name).exists():
            yield f"{what} is under way there"
    if (here.git_dir / "locked").exists():
        yield "the worktree is locked: `git worktree unlock` frees it"
    if _submodules(here):
        ways = "push them, then `git submodule deinit --all`"
        yield f"submodules are checked out there, whose own commits nobody compares: {ways}"
    for change in start_point.changes(here.root):
        yield f"not committed: {change.strip()}"


def _submodules(here: Checkout) -> bool:
    """Whether any is checked out; git keeps its folder for them when they have been given up."""
    if not (here.git_dir / "modules").is_dir():
        return False
    try:
        with git.repository(here.root) as repo:
            listed = repo.git.submodule("status")
    except GitError:
        return True
    return any(not line.startswith("-") for line in listed.splitlines())


def _unmerged(main: Path, lines: merge_detection.Lines, commit: str) -> Iterator[str]:
    if not lines.targets:
        yield "there is no other branch that it could have been merged into"
        return
    target = lines.targets[0]
    for line in merge_detection.lacking(main, commit, target) or (commit[:7],):
        yield f"not merged into {target.told}: {line}"


# ── removing ────────────────────────────────────────────────────────────────────────────────


def carry_out(parting: FinishPlan) -> FinishResult:
    """Remove it all, whatever is in the way: that has been told, and is the caller's to decide.

    GitError PB-GIT-FAILED where git refuses; then nothing further is removed.
    """
    main, root = parting.main, str(parting.root)
    journals = () if parting.gone else tuple(_brought_home(parting))
    with worktree.alone(parting.store.checkout):
        notices = worktree.tidied(parting.store.checkout)
        if parting.root in {each.path for each in git.worktrees(main)}:
            # What it would refuse for has been looked at; of our own files it knows nothing.
            git_process.change(main, "worktree", "remove", "--force", "--force", "--", root)
        if parting.branch:
            git_process.change(main, "branch", "-D", "--quiet", "--", parting.branch)
    return FinishResult(parting, journals, notices)


# ── the journal's end ───────────────────────────────────────────────────────────────────────


def _brought_home(parting: FinishPlan) -> Iterator[str]:
    """The ends of journals that are nowhere else: what was merged may stop before the last word.

    Nothing is written where a later pull would meet a file of its own, nor over a change.
    """
    try:
        home = DiskStore(checkout.find(parting.main))
    except StateError:
        return  # a bare repository: nothing is checked out
    for name in parting.store.ids():
        if parting.store.drives(name) and _comes_home(parting, home, name):
            _copy(parting.store.folder(name), home, name)
            yield name


def _comes_home(parting: FinishPlan, home: DiskStore, name: str) -> bool:
    here, there = parting.store.folder(name), home.folder(name)
    if not there.exists():
        return not _in_git_elsewhere(parting, name)
    if all(_same(here / each, there / each) for each in _files(here)):
        return False
    with git.repository(parting.main) as repo:
        tracked = repo.git.ls_files("--", there)
        changed = repo.git.status("--porcelain", "--", there)
    return bool(tracked) and not changed


def _in_git_elsewhere(parting: FinishPlan, name: str) -> bool:
    """Whether a commit that the main checkout may come to have holds the session."""
    with git.repository(parting.main) as repo:
        listed = repo.git.log(
            "--single-worktree",
            f"--exclude=refs/heads/{parting.branch}",
            "--all",
            "--max-count=1",
            "--format=%h",
            "--",
            f":(top,literal){SESSIONS}/{name}",
        )
    return bool(listed)


def _files(folder: Path) -> list[str]:
    """The regular files in it, as seen from there."""
    paths = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sorted(os.path.relpath(path, folder) for path in paths if not path.is_symlink())


def _same(one: Path, other: Path) -> bool:
    try:
        return read_bytes(one) == read_bytes(other)
    except FileNotFoundError:
        return False


def _copy(source: Path, home: DiskStore, name: str) -> None:
    for file in _files(source):
        target = contained(home.folder(name), file)
        ensure_folder(target.parent)
        write_atomically(target, read_bytes(source / file))
