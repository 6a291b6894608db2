"""What a new worktree rests on: a clean tree, a base commit, a place, a branch.

Only looked up and judged here, so that whatever stands in the way is said before anything is made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, CheckError, GitError
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.records import Record
from playbook_supervisor.system import git
from playbook_supervisor.system.checkout import Checkout

_SESSIONS = ":(exclude,top).playbooks/sessions"
_HEADS = "refs/heads/"
_REMOTES = "refs/remotes/"
_SHOWN = 5


class Base(Record):
    """The commit from which a new branch grows. `ref` is its full name, empty where it has none;
    `told` is what people call it."""

    commit: str
    ref: str
    told: str


class Branch(Record):
    """The branch of a worktree: `commit` is its tip, `new` whether it has to be made."""

    name: str
    commit: str
    new: bool


# ── a clean tree ────────────────────────────────────────────────────────────────────────────


def changes(root: Path) -> tuple[str, ...]:
    """What is not committed, as `git status` marks it; what happens in sessions does not count."""
    with git.repository(root) as repo:
        listed = repo.git.status(
            "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--", _SESSIONS
        )
    return tuple(printable(line) for line in listed.split("\0") if line)


def require_clean(root: Path) -> None:
    """GitError PB-GIT-DIRTY, with the first changes; a new worktree would not have them."""
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
    """The commit that `given` means, HEAD where nothing is. ArgumentError PB-ARG-BASE if none."""
    name = given or "HEAD"
    shown = first_line(given, 80)
    if name.startswith("-") or printable(name) != name:
        raise ArgumentError("PB-ARG-BASE", f"{shown!r} is no commit")
    with git.repository(root) as repo:
        wanted = f"{name}^{{commit}}"
        commit = repo.git.rev_parse("--verify", "--quiet", wanted, with_exceptions=False)
        ref = repo.git.rev_parse("--symbolic-full-name", name, with_exceptions=False)
    if not commit:
        said = f"there is no commit {shown!r}" if given else "there is no commit yet to start from"
        raise ArgumentError("PB-ARG-BASE", said, where=str(root))
    if not ref.startswith((_HEADS, _REMOTES)):
        return Base(commit, "", f"{name} ({commit[:7]})")
    return Base(commit, ref, ref.removeprefix(_HEADS).removeprefix(_REMOTES))


# ── a place ─────────────────────────────────────────────────────────────────────────────────


def place(here: Checkout, pattern: str, session_id: str) -> Path:
    """Where the worktree of the session comes, by the pattern of the settings.

    CheckError PB-CHECK-CONFIG for a place inside the repository, GitError PB-GIT-TAKEN where
    something stands.
    """
    main = here.main_root
    name = pattern.replace("{repo}", main.name.removesuffix(".git"))
    path = Path(os.path.normpath(main / name.replace("{session}", session_id)))
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(top) for top in (main, here.root, here.common_dir)):
        raise CheckError(
            "PB-CHECK-CONFIG",
            f"worktrees: {path} lies inside the repository, which would see it as a change",
            where=".playbooks/config.yaml",
            guidance="Name a place beside it, as in ../{repo}-session-{session}.",
        )
    if os.path.lexists(path):
        raise _taken(
            f"{path} is there already",
            "Move it away, or choose another place: `worktrees` in .playbooks/config.yaml.",
        )
    return path


# ── a branch ────────────────────────────────────────────────────────────────────────────────


def heads(root: Path) -> dict[str, str]:
    """Every local branch and its commit."""
    with git.repository(root) as repo:
        listed = repo.git.for_each_ref(_HEADS, format="%(objectname) %(refname)")
    pairs = (line.partition(" ")[::2] for line in listed.splitlines())
    return {ref.removeprefix(_HEADS): commit for commit, ref in pairs}


def branch(root: Path, feature: str, session_id: str, at: Base, given: str = "") -> Branch:
    """The branch that is given, else the feature's own if it is free or can be made, else another.

    A new one grows from the base. ArgumentError PB-ARG-BRANCH for what cannot be the name of one,
    GitError PB-GIT-TAKEN for one that is given and checked out somewhere.
    """
    known = heads(root)
    taken = {each.branch: each.path for each in git.worktrees(root)}
    if given:
        _require_name(root, given, known)
        if given in taken:
            raise _taken(f"branch {given} is checked out in {taken[given]}", "Name another one.")
    wanted = given or feature
    if wanted in known and wanted not in taken:
        return Branch(wanted, known[wanted], new=False)
    if given or (wanted not in known and not _flaw(root, wanted, known)):
        return Branch(wanted, at.commit, new=True)
    stem = feature.replace("/", "-") or "session"
    return Branch(f"{stem}-{session_id}", at.commit, new=True)


def _require_name(root: Path, given: str, known: Mapping[str, str]) -> None:
    if flaw := _flaw(root, given, known):
        raise ArgumentError("PB-ARG-BRANCH", f"{first_line(given, 80)!r} {flaw}")


def _flaw(root: Path, name: str, known: Mapping[str, str]) -> str:
    """Why no branch can have that name; empty where one can, or has."""
    plain = printable(name) == name and not name.startswith("-") and name != "HEAD"
    if not plain or not _well_formed(root, _HEADS + name):
        return "is not a valid branch name"
    for other in known:
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            return f"cannot stand beside the branch {other}"
    return ""


def _well_formed(root: Path, ref: str) -> bool:
    with git.repository(root) as repo:
        return not repo.git.check_ref_format(ref, with_extended_output=True, with_exceptions=False)[
            0
        ]


def _taken(message: str, guidance: str) -> GitError:
    return GitError("PB-GIT-TAKEN", message, guidance=guidance)
