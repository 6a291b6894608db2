"""What a new worktree needs: a clean tree, a base commit, a path and a branch. Only looked up."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, CheckError, GitError
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically
from playbook_supervisor.system.git import gitpython
from playbook_supervisor.system.git.checkout import Checkout

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
