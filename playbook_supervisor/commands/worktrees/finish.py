"""`playbook finish`: remove a session's worktree and branch after the merge.

Everything is checked first, and obstacles are listed. Only work that exists elsewhere is removed.
If the merge came before the session's end, the rest of the journal is copied to the main checkout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.worktrees import merge_detection, start_point, worktree
from playbook_supervisor.commands.worktrees.merge_detection import MergeTargets
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import GitError, StateError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.selection import open_here
from playbook_supervisor.sessions.store import SESSIONS, DiskStore
from playbook_supervisor.system import checkout, git, git_process
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.files import contained, ensure_folder, read_bytes, write_atomically

_IN_PROGRESS = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


class FinishPlan(Record):
    """What would be removed, and the obstacles, a line each.

    `root` is the worktree, which may be `gone` already; `main` is the main checkout. `branch` is
    empty if none is to be removed; `merged` says how its work was merged.
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
    """What was removed, with notices for the user.

    `journals` are the sessions whose journals were copied to `main`, where they are not committed.
    """

    plan: FinishPlan
    journals: tuple[str, ...]
    notices: tuple[str, ...]


def plan(session: str = "", *, cwd: Path | None = None) -> FinishPlan:
    """What `finish` would remove, and what prevents it. Writes nothing.

    StateError if the session has no worktree; it names sessions that have one.
    """
    try:
        return _plan(*locate.select(session, cwd))
    except StateError as error:
        others = [] if session else _with_worktrees(locate.store(cwd))
        if not others or error.code not in ("PB-STATE-NO-SESSION", "PB-STATE-NO-WORKTREE"):
            raise
        guidance = f"Name one that has a worktree: playbook finish {' or '.join(others[:4])}."
        raise StateError(error.code, error.message, where=error.where, guidance=guidance) from error


def require_human(plan: FinishPlan) -> None:
    """StateError PB-STATE-HUMAN-ONLY if a model asks to remove unmerged work."""
    locate.require_human(plan.store, plan.session_id, "finish --force")


def finish(plan: FinishPlan, *, force: bool = False) -> FinishResult:
    """Remove worktree and branch, with `force` despite the obstacles; abort open sessions first.

    GitError PB-GIT-UNFINISHED, with every obstacle, before anything is changed; PB-GIT-FAILED if
    git refuses.
    """
    from playbook_supervisor.commands import driving

    if plan.obstacles and not force:
        raise GitError(
            "PB-GIT-UNFINISHED",
            f"session {plan.session_id} cannot be finished: "
            f"{counted(len(plan.obstacles), 'obstacle')}",
            where=str(plan.root),
            details=plan.obstacles,
        )
    if not plan.gone:
        for name in open_here(plan.store):
            driving.abort(name, "finish --force", cwd=plan.root)
    journals = () if plan.gone else tuple(_copy_journals(plan))
    return FinishResult(plan, journals, _remove(plan))


def _remove(plan: FinishPlan) -> tuple[str, ...]:
    main, here = plan.main, plan.store.checkout
    with worktree.locked_worktrees(here):
        notices = worktree.clean_up(here)
        if plan.root in {each.path for each in git.worktrees(main)}:
            # forced: the obstacles were checked, and git would refuse because of our own files
            git_process.change(
                main, "worktree", "remove", "--force", "--force", "--", str(plan.root)
            )
        if plan.branch:
            git_process.change(main, "branch", "-D", "--quiet", "--", plan.branch)
    return notices


# ── planning ────────────────────────────────────────────────────────────────────────────────


def _with_worktrees(store: DiskStore) -> list[str]:
    from playbook_supervisor.commands import overview

    seen = [each for each in overview.sessions(store) if each.manifest is not None]
    return [each.session_id for each in seen if _owns_worktree(each.store, each.session_id)]


def _plan(store: DiskStore, session_id: str) -> FinishPlan:
    here = store.checkout
    main = here.main_root
    if not _owns_worktree(store, session_id):
        return _plan_without_worktree(store, session_id)
    base = start_point.saved(store.runtime(session_id))
    targets = _targets(main, here.branch, base.ref if base else "")
    stays = here.branch in targets.kept
    merged = "" if stays else _merged(main, targets, here.branch, here.head)
    obstacles = [*_open_sessions(store), *_local_changes(here)]
    if not stays and not merged:
        obstacles += _unmerged(main, targets, here.head)
    branch = "" if stays else here.branch
    return FinishPlan(store, session_id, main, here.root, branch, merged, tuple(obstacles))


def _owns_worktree(store: DiskStore, session_id: str) -> bool:
    """Whether this is the session's own worktree; a merge copies sessions to others."""
    here = store.checkout
    if here.git_dir == here.common_dir:
        return False
    named = here.main_root / store.manifest(session_id).worktree
    return store.drives(session_id) or named.resolve() == here.root.resolve()


def _plan_without_worktree(store: DiskStore, session_id: str) -> FinishPlan:
    """The worktree was removed by hand; the branch may still exist."""
    manifest, main = store.manifest(session_id), store.checkout.main_root
    branch, root = manifest.branch, Path(os.path.normpath(main / manifest.worktree))
    if root == main or root.exists():
        raise StateError(
            "PB-STATE-NO-WORKTREE",
            f"session {session_id} has no worktree of its own to remove",
            where=str(main),
        )
    targets = _targets(main, branch, "")
    taken = {each.branch for each in git.worktrees(main) if each.path.exists()}
    commit = start_point.heads(main).get(branch, "")
    if not commit or branch in targets.kept | taken:
        return FinishPlan(store, session_id, main, root, "", "", (), gone=True)
    merged = _merged(main, targets, branch, commit)
    obstacles = () if merged else tuple(_unmerged(main, targets, commit))
    return FinishPlan(store, session_id, main, root, branch, merged, obstacles, gone=True)


def _targets(main: Path, branch: str, started_from: str) -> MergeTargets:
    try:
        checked_out = checkout.find(main).branch
    except StateError:  # a bare repository
        checked_out = ""
    return merge_detection.find_targets(main, branch, started_from, checked_out)


def _merged(main: Path, targets: MergeTargets, branch: str, commit: str) -> str:
    for target in targets.targets:
        if how := merge_detection.merged(main, commit, target):
            return how
    return merge_detection.merged_pull_request(main, branch, commit)


# ── obstacles ───────────────────────────────────────────────────────────────────────────────


def _open_sessions(store: DiskStore) -> Iterator[str]:
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


def _local_changes(here: Checkout) -> Iterator[str]:
    for name, what in _IN_PROGRESS.items():
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


def _unmerged(main: Path, targets: MergeTargets, commit: str) -> Iterator[str]:
    if not targets.targets:
        yield "there is no other branch that it could have been merged into"
        return
    target = targets.targets[0]
    for line in merge_detection.missing_commits(main, commit, target) or (commit[:7],):
        yield f"not merged into {target.name}: {line}"


# ── the rest of the journal ─────────────────────────────────────────────────────────────────


def _copy_journals(plan: FinishPlan) -> Iterator[str]:
    """Copy journals that exist nowhere else to the main checkout; the merge may lack their end.

    A copy must not block a later pull, nor overwrite a change.
    """
    try:
        home = DiskStore(checkout.find(plan.main))
    except StateError:  # a bare repository
        return
    for name in plan.store.ids():
        if plan.store.drives(name) and _should_copy(plan, home, name):
            _copy(plan.store.folder(name), home.folder(name))
            yield name


def _should_copy(plan: FinishPlan, home: DiskStore, name: str) -> bool:
    here, there = plan.store.folder(name), home.folder(name)
    if not there.exists():
        return not _committed_elsewhere(plan, name)
    if all(_same(here / file, there / file) for file in _files(here)):
        return False
    with git.repository(plan.main) as repo:
        tracked = repo.git.ls_files("--", there)
        changed = repo.git.status("--porcelain", "--", there)
    return bool(tracked) and not changed


def _committed_elsewhere(plan: FinishPlan, name: str) -> bool:
    """Whether a commit that the main checkout may receive contains the session."""
    with git.repository(plan.main) as repo:
        listed = repo.git.log(
            "--single-worktree",
            f"--exclude=refs/heads/{plan.branch}",
            "--all",
            "--max-count=1",
            "--format=%h",
            "--",
            f":(top,literal){SESSIONS}/{name}",
        )
    return bool(listed)


def _files(folder: Path) -> list[str]:
    paths = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sorted(os.path.relpath(path, folder) for path in paths if not path.is_symlink())


def _same(one: Path, other: Path) -> bool:
    try:
        return read_bytes(one) == read_bytes(other)
    except FileNotFoundError:
        return False


def _copy(source: Path, target: Path) -> None:
    for file in _files(source):
        copy = contained(target, file)
        ensure_folder(copy.parent)
        write_atomically(copy, read_bytes(source / file))
