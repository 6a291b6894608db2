"""`playbook finish`: remove a session's worktree and branch after the merge.

Everything is checked first, and obstacles are listed. Only work that exists elsewhere is removed.
What only the worktree has of a session is first brought home, to a checkout that stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate, overview
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.worktrees import journal_home, merge_detection, worktree
from playbook_supervisor.commands.worktrees.journal_home import Homecoming, Leaving, read_files
from playbook_supervisor.commands.worktrees.merge_detection import (
    Merged,
    MergeTarget,
    MergeTargets,
)
from playbook_supervisor.commands.worktrees.worktree import WorktreePlan
from playbook_supervisor.drivers import driver_lock, own_agents
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import CODES, GitError, StateError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.integrity import FILES
from playbook_supervisor.sessions.files.manifest import (
    SESSION_ID,
    Manifest,
    earliest_beginning,
    read_manifest,
)
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.sessions.store.selection import OPEN, open_here
from playbook_supervisor.system.disk.files import remove, rename_folder
from playbook_supervisor.system.git import (
    checkout,
    git_history,
    git_process,
    git_unattended,
    gitpython,
)
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.git_unattended import UNDER_WAY

_NOT_MERGED = "not merged into"
_REMOVED = "removed"
_IN_THE_CHECKOUT = (
    "It ran in the checkout itself. Once its work is merged, switch to another branch and remove "
    "its own with `git branch -d`."
)
_STILL = "what was written of session {} is not what was read again"


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """The things that would be removed, and the obstacles, a line each.

    `root` is the worktree, which may be `gone` already. `branch` is empty if none is to be removed;
    `merged` says how its work was merged. `unsafe` are obstacles that cannot be forced: what only
    the worktree has of a session could not be brought home.
    """

    store: DiskStore
    session_id: str
    root: Path
    branch: str
    merged: str
    obstacles: tuple[str, ...]
    unsafe: tuple[str, ...]
    leaving: Leaving
    gone: bool = False


def plan(session: str = "", *, cwd: Path | None = None) -> FinishPlan:
    """The plan of `finish`: what it would remove, and what prevents it. Writes nothing.

    StateError if the session has no worktree; it names sessions that have one.
    """
    try:
        store, session_id = locate.select(session, cwd)
        return plan_worktree(_driving(store, session_id), session_id)
    except StateError as error:
        if error.code == "PB-STATE-NO-SESSION" and (left := _left_branch(cwd, session)):
            return left
        seen = [] if session else overview.sessions(locate.store(cwd))
        known = [each for each in seen if each.manifest is not None]
        others = [each.session_id for each in known if _owns_worktree(each.store, each.session_id)]
        if not others or error.code not in ("PB-STATE-NO-SESSION", "PB-STATE-NO-WORKTREE"):
            raise
        guidance = f"Name one that has a worktree: playbook finish {' or '.join(others[:4])}."
        raise StateError(error.code, error.message, where=error.where, guidance=guidance) from error


def finish(
    plan: FinishPlan, *, force: bool = False
) -> tuple[tuple[Homecoming, ...], tuple[str, ...]]:
    """Remove worktree and branch, with `force` despite the obstacles; abort open sessions first.

    Returns the sessions that were brought to another checkout, where they are not committed, and
    notices for the user.
    GitError PB-GIT-UNFINISHED, with every obstacle, before anything is changed; PB-GIT-FAILED if
    git refuses, StorageError PB-IO-WRITE if a session cannot be brought home.
    """
    if plan.unsafe or (plan.obstacles and not force):
        raise _unfinished(plan, (*plan.obstacles, *plan.unsafe))
    if not plan.gone:
        for name in set(open_here(plan.store)) - {plan.leaving.discarded}:
            driving.abort(name, "finish --force", cwd=plan.root)
    with worktree.locked_worktrees(plan.store.checkout):
        brought = _bring_home(plan)
        return brought, _remove(plan)


def _unfinished(plan: FinishPlan, obstacles: Sequence[str]) -> GitError:
    guidance = ""
    if any(each.startswith(_NOT_MERGED) for each in obstacles):
        guidance = f"`git fetch` brings a merge at the forge. {CODES['PB-GIT-UNFINISHED']}"
    if plan.unsafe:
        guidance = "Resolve what the message lists, then try again; --force discards no journal."
    return GitError(
        "PB-GIT-UNFINISHED",
        f"session {plan.session_id} cannot be finished: {counted(len(obstacles), 'obstacle')}",
        where=str(plan.root),
        guidance=guidance,
        details=tuple(obstacles),
    )


def _bring_home(plan: FinishPlan) -> tuple[Homecoming, ...]:
    journal_home.sweep_homes(plan.leaving, plan.session_id)
    found = journal_home.homecomings(plan.leaving)
    if not any(each.obstacle for each in found):
        for each in found:
            journal_home.bring(each)
        left = journal_home.homecomings(plan.leaving)
        if not left:
            return found
        found = left
    unsafe = tuple(each.obstacle or _STILL.format(each.session_id) for each in found)
    raise _unfinished(replace(plan, unsafe=unsafe), unsafe)


def _remove(plan: FinishPlan) -> tuple[str, ...]:
    main = plan.leaving.main
    notices = worktree.clean_up(plan.store.checkout)
    if plan.root in {each.path for each in gitpython.worktrees(main)}:
        if not plan.gone:  # whole or not at all, whenever this process dies
            rename_folder(plan.root, plan.store.checkout.git_dir / "playbook" / _REMOVED)
        # forced: the obstacles were checked, and git would refuse because of our own files
        git_process.change(main, "worktree", "remove", "--force", "--force", "--", str(plan.root))
    if plan.branch:
        git_process.change(main, "branch", "-D", "--quiet", "--", plan.branch)
    return notices


# ── planning ─────────────────────────────────────────────────────────────────────────────────


def _left_branch(cwd: Path | None, session: str) -> FinishPlan | None:
    store = locate.store(cwd)
    main, session_id = store.checkout.main_root, locate.named(store, session)
    if not SESSION_ID.match(session_id):
        return None
    file = f":(top,literal){SESSIONS}/{session_id}/session.yaml"
    for _, text in git_history.on_branches(main, file, earliest_beginning(session_id)):
        with suppress(StateError):
            manifest = read_manifest(text, session_id)
            if manifest.branch in worktree.heads(main):
                return _plan_without_worktree(store, session_id, manifest)
    return None


def _driving(store: DiskStore, session_id: str) -> DiskStore:
    here = store.checkout
    lost = [DiskStore(each) for each in checkout.lost_worktrees(here)]
    linked = [each for each in overview.stores(store) if each.checkout.root != here.main_root]
    return next((each for each in (*linked, *lost) if each.drives(session_id)), store)


def plan_worktree(store: DiskStore, session_id: str, *, discards: bool = False) -> FinishPlan:
    """As `plan`, for the session of that store. With `discards` the session goes, too."""
    here = store.checkout
    main = here.main_root
    if not (here.root / ".git").exists() or not _owns_worktree(store, session_id):
        return _plan_without_worktree(store, session_id)
    base = worktree.saved(store.runtime(session_id))
    started = base.ref if base else ""
    targets = _targets(main, here.branch, started)
    merged = None
    if not (stays := here.branch in targets.kept):
        targets, merged = _merged(main, targets, here.branch, here.head, started)
    found = [
        *_open_sessions(store, session_id if discards else ""),
        *_local_changes(here),
    ]
    if not stays and not merged:
        if discards:
            stays = True
        else:
            found += _unmerged(main, targets, here.head)
    branch = "" if stays else here.branch
    leaving = _leaving(main, store, targets, merged, MergeTarget(here.branch, here.head), branch)
    leaving = replace(leaving, discarded=session_id if discards else "")
    how, unsafe = merged.how if merged else "", _unsafe(leaving)
    return FinishPlan(store, session_id, here.root, branch, how, tuple(found), unsafe, leaving)


def _unsafe(leaving: Leaving) -> tuple[str, ...]:
    return tuple(each.obstacle for each in journal_home.homecomings(leaving) if each.obstacle)


def _leaving(
    main: Path,
    store: DiskStore | None,
    targets: MergeTargets,
    merged: Merged | None,
    tip: MergeTarget,
    removed: str,
) -> Leaving:
    stays = [*targets.targets, *([merged.into] if merged else []), *([] if removed else [tip])]
    here = store.checkout.root if store else None
    branches = {each.path: each.branch for each in gitpython.worktrees(main)}
    roots = [main, *(path for path, name in branches.items() if name in targets.kept)]
    homes = []
    for root in dict.fromkeys(roots):
        with suppress(StateError):  # a bare repository, or a folder that is gone
            if root != here:
                homes.append(checkout.find(root))
    return Leaving(main, store, tip.commit, tuple(dict.fromkeys(stays)), tuple(homes))


def _owns_worktree(store: DiskStore, session_id: str) -> bool:
    """True if this is the session's own worktree; a merge copies sessions to others."""
    here = store.checkout
    if here.git_dir == here.common_dir:
        return False
    if store.drives(session_id):
        return True
    named = here.main_root / store.manifest(session_id).worktree
    return named.resolve() == here.root.resolve()


def _plan_without_worktree(
    store: DiskStore, session_id: str, manifest: Manifest | None = None
) -> FinishPlan:
    """The worktree was removed, by hand or by a killed `finish`; the branch may still exist."""
    main, lost = store.checkout.main_root, not (store.checkout.root / ".git").exists()
    manifest = manifest or store.written_manifest(session_id) or store.manifest(session_id)
    if lost and manifest.status in OPEN:
        store.require_worktree(session_id)
    branch, root = manifest.branch, Path(os.path.normpath(main / manifest.worktree))
    if root == main or (root.exists() and any(root.iterdir())):
        raise StateError(
            "PB-STATE-NO-WORKTREE",
            f"session {session_id} has no worktree of its own to remove",
            where=str(main),
            guidance=_IN_THE_CHECKOUT if root == main else "",
        )
    targets = _targets(main, branch, "")
    taken = {each.branch for each in gitpython.worktrees(main) if each.path.exists()}
    commit = worktree.heads(main).get(branch, "")
    removed = "" if not commit or branch in targets.kept | taken else branch
    merged = None
    if removed:
        targets, merged = _merged(main, targets, branch, commit)
    found = _unmerged(main, targets, commit) if removed and not merged else ()
    tip = MergeTarget(branch, commit)
    leaving = _leaving(main, store if lost else None, targets, merged, tip, removed)
    how, unsafe = merged.how if merged else "", _unsafe(leaving)
    return FinishPlan(
        store, session_id, root, removed, how, tuple(found), unsafe, leaving, gone=True
    )


def _targets(main: Path, branch: str, started_from: str) -> MergeTargets:
    try:
        checked_out = checkout.find(main).branch
    except StateError:  # a bare repository
        checked_out = ""
    return merge_detection.find_targets(main, branch, started_from, checked_out)


def _merged(
    main: Path, targets: MergeTargets, branch: str, commit: str, started_from: str = ""
) -> tuple[MergeTargets, Merged | None]:
    """The way it was merged, and the targets: what a forge calls merged is fetched first."""
    if merged := _merged_here(main, targets, commit):
        return targets, merged
    pull = merge_detection.merged_pull_request(main, branch, commit)
    if pull is None:
        return targets, None
    git_unattended.fetch(main)
    targets = _targets(main, branch, started_from)
    found = _merged_here(main, targets, commit)
    return targets, replace(pull, into=found.into) if found else pull


def _merged_here(main: Path, targets: MergeTargets, commit: str) -> Merged | None:
    for target in targets.targets:
        if how := merge_detection.merged(main, commit, target):
            return Merged(how, target)
    return None


# ── obstacles ────────────────────────────────────────────────────────────────────────────────


def _open_sessions(store: DiskStore, without: str = "") -> Iterator[str]:
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


def _local_changes(here: Checkout) -> Iterator[str]:
    for name, what in {**UNDER_WAY, "BISECT_LOG": "a bisection"}.items():
        if (here.git_dir / name).exists():
            yield f"{what} is in progress in the worktree"
    if (here.git_dir / "locked").exists():
        yield "the worktree is locked: unlock it with `git worktree unlock`"
    if _has_submodules(here):
        ways = "push them, then run `git submodule deinit --all`"
        yield f"submodules are checked out, and their own commits cannot be compared: {ways}"
    for change in worktree.changes(here.root):
        yield f"not committed: {change.strip()}"


def _has_submodules(here: Checkout) -> bool:
    if not (here.git_dir / "modules").is_dir():
        return False
    try:
        with gitpython.repository(here.root) as repo:
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
        yield f"{_NOT_MERGED} {target.name}: {line}"


# ── abort --clean: a session that came to nothing ─────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Discarded:
    """The things that were removed: the session's folder, and what `start` made.

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
            finish(plan)
            remove(here.ids / session_id)
    stays = "" if plan.branch else here.branch
    return Discarded(session_id, folder, plan.root, plan.branch, plan.merged, stays)


def _completed(store: DiskStore, session: str) -> Discarded | None:
    """Remove what a killed call left; None if there is nothing."""
    here, session_id = store.checkout, locate.named(store, session)
    tree = worktree.left(here, session_id) if SESSION_ID.match(session_id) else None
    if tree is None or Path(tree.path).exists():
        return None
    own_agents.require_none_above(store.checkout, "abort --clean")
    with worktree.locked_worktrees(here):
        worktree.clean_up(here)
    if worktree.left(here, session_id):
        return None
    folder = Path(tree.path) / SESSIONS / session_id
    return Discarded(session_id, folder, Path(tree.path), tree.branch)


def _plan(store: DiskStore, session_id: str) -> FinishPlan | None:
    plan, reasons = None, [*_worth_keeping(store, session_id)]
    if worktree.saved(store.runtime(session_id)) is not None:
        plan = plan_worktree(store, session_id, discards=True)
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
