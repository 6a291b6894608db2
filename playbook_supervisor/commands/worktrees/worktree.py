"""A session's worktree: created completely or not at all, under a lock shared by all starts.

`git worktree add` races with itself. Each creation is recorded first, so that a later start can
remove what a killed one left. A person's work is never removed.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, CheckError, GitError, PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.records import as_mapping, replace
from playbook_supervisor.sessions.store.disk_store import SESSIONS
from playbook_supervisor.system.disk.files import (
    ensure_folder,
    locked,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.git import git_process, gitpython
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.git_programs import Runs
from playbook_supervisor.system.process.process_groups import worker_alive

HEADS = "refs/heads/"
REMOTES = "refs/remotes/"
_SESSIONS = ":(exclude,top).playbooks/sessions"
_SHOWN = 5
_FILE = "base.json"


@dataclass(frozen=True, slots=True)
class Base:
    """Where a new branch starts; `ref` is its full reference or empty, `name` is for messages."""

    commit: str
    ref: str
    name: str


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch of a worktree, the commit at its tip, and whether it has to be created."""

    name: str
    commit: str
    new: bool


# ── a clean tree ────────────────────────────────────────────────────────────────────────────


def changes(root: Path) -> tuple[str, ...]:
    """The uncommitted changes, as `git status` prints them, without those of sessions."""
    with gitpython.repository(root) as repo:
        listed = repo.git.status(
            "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--", _SESSIONS
        )
    return tuple(printable(line) for line in listed.split("\0") if line)


def require_clean(root: Path) -> None:
    """GitError PB-GIT-DIRTY if changes are not committed: a new worktree would not have them."""
    found = changes(root)
    if found:
        shown = ", ".join(line.strip() for line in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise GitError(
            "PB-GIT-DIRTY",
            f"{counted(len(found), 'change')} not committed: {shown}{more}",
            where=str(root),
            details=found,
        )


# ── the base commit ─────────────────────────────────────────────────────────────────────────


def base(root: Path, given: str) -> Base:
    """The commit that `given` names, by default HEAD. ArgumentError PB-ARG-BASE if none."""
    name = given or "HEAD"
    shown = first_line(given, 80)
    if name.startswith("-") or printable(name) != name:
        raise ArgumentError("PB-ARG-BASE", f"{shown!r} is not a commit")
    with gitpython.repository(root) as repo:
        wanted = f"{name}^{{commit}}"
        commit = repo.git.rev_parse("--verify", "--quiet", wanted, with_exceptions=False)
        ref = repo.git.rev_parse("--symbolic-full-name", name, with_exceptions=False)
    if not commit:
        said = f"there is no commit {shown!r}" if given else "there is no commit yet to start from"
        raise ArgumentError("PB-ARG-BASE", said, where=str(root))
    if not ref.startswith((HEADS, REMOTES)):
        return Base(commit, "", f"{name} ({commit[:7]})")
    return Base(commit, ref, ref.removeprefix(HEADS).removeprefix(REMOTES))


def save(private: Path, base: Base) -> None:
    """Save the base of a session's worktree in its private folder."""
    ensure_folder(private)
    known = {"commit": base.commit, "ref": base.ref, "told": base.name}
    write_atomically(private / _FILE, json.dumps(known).encode())


def saved(private: Path) -> Base | None:
    """The base that was saved there; None if it is not known."""
    try:
        known = json.loads(read_bytes(private / _FILE))
        return Base(known["commit"], known["ref"], known["told"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


# ── the path ────────────────────────────────────────────────────────────────────────────────


def path(here: Checkout, pattern: str, session_id: str) -> Path:
    """The path of the session's worktree, by the pattern in config.yaml.

    CheckError PB-CHECK-CONFIG if it lies inside the repository or no folder can be created there,
    GitError PB-GIT-TAKEN if it exists.
    """
    main = here.main_root
    name = pattern.replace("{repo}", main.name.removesuffix(".git"))
    path = Path(os.path.normpath(main / name.replace("{session}", session_id)))
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(top) for top in (main, here.root, here.common_dir)):
        raise _unsuitable(f"{path} is inside the repository, which would see it as a change")
    if os.path.lexists(path):
        raise _taken(
            f"{path} already exists",
            "Move it away, or choose another path: `worktrees` in .playbooks/config.yaml.",
        )
    if flaw := _flaw_of_place(path):
        raise _unsuitable(f"{path} cannot be created: {flaw}")
    return path


def _flaw_of_place(path: Path) -> str:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # the name is too long, links are circular, …
        return error.strerror or str(error)
    above = path.parent
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        return f"{above} is not a folder"
    return "" if os.access(above, os.W_OK | os.X_OK) else f"{above} is not writable"


def _unsuitable(message: str) -> CheckError:
    return CheckError(
        "PB-CHECK-CONFIG",
        f"worktrees: {message}",
        where=".playbooks/config.yaml",
        guidance="Name a path beside the repository, such as ../{repo}-session-{session}.",
    )


# ── the branch ──────────────────────────────────────────────────────────────────────────────


def heads(root: Path) -> dict[str, str]:
    """Every local branch and its commit."""
    with gitpython.repository(root) as repo:
        listed = repo.git.for_each_ref(HEADS, format="%(objectname) %(refname)")
    pairs = (line.partition(" ")[::2] for line in listed.splitlines())
    return {ref.removeprefix(HEADS): commit for commit, ref in pairs}


def branch(root: Path, feature: str, session_id: str, base: Base, given: str = "") -> Branch:
    """The given branch; else the feature's own if it is free or can be created; else another.

    A new branch starts from the base. ArgumentError PB-ARG-BRANCH for an invalid name, GitError
    PB-GIT-TAKEN if the given branch is checked out somewhere.
    """
    known = heads(root)
    taken = {each.branch: each.path for each in gitpython.worktrees(root)}
    if given:
        if flaw := _flaw(root, given, known):
            raise ArgumentError("PB-ARG-BRANCH", f"{first_line(given, 80)!r} {flaw}")
        if given in taken:
            raise _taken(f"branch {given} is checked out in {taken[given]}", "Name another branch.")
    wanted = given or feature
    if wanted in known and wanted not in taken:
        return Branch(wanted, known[wanted], new=False)
    if given or (wanted not in known and not _flaw(root, wanted, known)):
        return Branch(wanted, base.commit, new=True)
    stem = feature.replace("/", "-") or "session"
    return Branch(f"{stem}-{session_id}", base.commit, new=True)


def _flaw(root: Path, name: str, known: Iterable[str]) -> str:
    plain = printable(name) == name and not name.startswith("-") and name != "HEAD"
    if not plain or not _well_formed(root, HEADS + name):
        return "is not a valid branch name"
    for other in known:
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            return f"conflicts with the branch {other}"
    return ""


def _well_formed(root: Path, ref: str) -> bool:
    with gitpython.repository(root) as repo:
        status, *_ = repo.git.check_ref_format(
            ref, with_extended_output=True, with_exceptions=False
        )
    return bool(status == 0)


def _taken(message: str, guidance: str) -> GitError:
    return GitError("PB-GIT-TAKEN", message, guidance=guidance)


# ── the worktree ──────────────────────────────────────────────────────────────────────────────

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
    if plan.new and heads(here.root).get(plan.branch) == plan.commit:
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
    if not (Path(plan.path) / ".git").is_file():
        return False
    try:
        with gitpython.repository(Path(plan.path)) as repo:
            if not Path(repo.index.path).exists():
                return False  # git was killed during the checkout
            head = repo.git.rev_parse("HEAD")
        return head != plan.commit or bool(changes(Path(plan.path)))
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
