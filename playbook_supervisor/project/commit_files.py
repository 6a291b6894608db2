"""Which files a `commit` step takes and a `pr` step publishes.

The step asks the same function as the gate before it, so the gate shows what is taken. What was
there before the session is not taken, unless the playbook says `also: uncommitted`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line, some
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.records import Record
from playbook_supervisor.system.disk.files import TEMPORARY
from playbook_supervisor.system.git import checkout, git_process, tree
from playbook_supervisor.system.git.checkout import NOW, Pinned
from playbook_supervisor.system.git.tree_git import TreeGit
from playbook_supervisor.system.git.uncommitted import uncommitted

COMMIT, PR = "commit", "pr"
TAKING = (COMMIT, PR)
"""The namespaces of steps that take files of the checkout."""
ALSO = "uncommitted"
"""The word of a step that takes what was there before the session as well."""
_MOST_NAMED, _MOST_LEFT = 12, 3  # files
_MOST_PUBLISHED = 6  # files; the gate tells below what the session has changed
_UNFINISHED = f":(exclude,top,glob)**/{TEMPORARY}*"
_CHANGED = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z")
_NEW = ("ls-files", "--others", "--exclude-standard", "--full-name", "-z")
_SHOW_FLAG = "`git update-index --no-skip-worktree --no-assume-unchanged FILE` removes the flag."


class Before(Record):
    """The state of the files when a session began.

    `tree` is empty if that is not known. `uncommitted` are the paths that were not committed then,
    None if that is not known.
    """

    tree: str = ""
    pinned: Pinned = NOW
    uncommitted: tuple[str, ...] | None = None


class Taken(Record):
    """The `files` that a commit takes, in order.

    Those in `whole` were not committed before the session either: all of their changes are taken.
    `unsure`: it is not known which these are. `left` would match, but were there before the session
    and have not changed since.
    """

    files: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    unsure: bool = False

    @property
    def lines(self) -> Iterator[str]:
        """The lines that a person reads about it."""
        yield from _listed("commits", self.files, self.whole)
        if self.unsure:
            yield "which of their changes are older than the session is not known"
        if self.left:
            yield f"leaves alone {_some(self.left, 'not committed before the session')}"


def left_alone(root: Path, steps: Iterable[Step]) -> list[str]:
    """A note, before a session begins, of files that its commits will not take."""
    if not any(step.namespace == COMMIT and not step.also for step in steps):
        return []
    try:
        paths = uncommitted(root).paths
    except PlaybookError:  # the gate and the step say why
        return []
    return [f"left alone: {_some(paths, 'not committed before')}"] if paths else []


def taken(root: Path, paths: Sequence[str], also: str, before: Before | None) -> Taken:
    """The files that a commit takes that names these patterns; `before` is None outside a session.

    Folders of sessions are left out unless a pattern names them, and so is what is in a repository
    inside. GitError with the cure if that is not known, or if git cannot commit one of them.
    """
    found = uncommitted(root, before.pinned if before else NOW)
    matching = _matching(root, paths, found.tree) if found.paths else ()
    files = [path for path in found.paths if path in matching and not _inside(root, path)]
    left: list[str] = []
    if files and before is not None and also != ALSO:
        if not before.tree:
            said = "it is not known what was here before the session"
            cure = "Commit by hand, or let the step say `also: uncommitted`."
            raise GitError("PB-GIT-FAILED", said, guidance=cure)
        tree.require(root, before.tree, before.pinned.head)
        changed = tree.changes(root, before.tree, found.tree).paths
        folders = {str(folder) for path in changed for folder in PurePosixPath(path).parents}
        known = {*changed, *folders}
        left = [path for path in files if path not in known]
        files = [path for path in files if path in known]
    if hidden := [path for path in found.hidden if path in files]:
        message = f"a flag of the index hides {first_line(hidden[0], 80)} from git"
        raise GitError("PB-GIT-FAILED", message, guidance=_SHOW_FLAG)
    older = before.uncommitted if before is not None and also != ALSO else ()
    whole = [path for path in files if path in (older or ())]
    unsure = older is None and bool(files)
    files += _of_sessions(root, paths)
    return Taken(tuple(sorted(files)), tuple(whole), tuple(left), unsure)


def announced(
    root: Path, namespace: str, options: Mapping[str, Any], also: str, before: Before
) -> tuple[str, ...]:
    """The lines at the gate before a `commit` or `pr` step about the files that it will take."""
    try:
        if namespace == COMMIT:
            patterns = tuple(map(str, options.get("paths", ())))
            return tuple(taken(root, patterns, also, before).lines)
        files = published(root, str(options.get("base", "")))
        return tuple(_listed("publishes", files, most=_MOST_PUBLISHED))
    except PlaybookError as error:
        said = f"which files it takes is not known: {error.message}. {error.guidance}"
        return (said.removesuffix(". "),)


def published(root: Path, base: str) -> tuple[str, ...]:
    """The files that HEAD has changed since it left `base`, or the default branch, those whose
    path begins with a dot last. GitError."""
    name = base or git_process.default_branch(root)
    references = (f"refs/remotes/origin/{name}", f"refs/heads/{name}")
    commit = next(filter(None, (git_process.commit_of(root, each) for each in references)), "")
    if not commit:
        message = f"there is no branch {first_line(name, 60) or 'to compare with'} here"
        raise GitError("PB-GIT-FAILED", message, guidance="`git fetch` brings it.")
    since = f"{commit}...HEAD"
    listed = git_process.ask(root, *_CHANGED, since, "--", git_process.SESSIONS)
    return tuple(sorted(_split(listed), key=lambda path: (path.startswith("."), path)))


def _some(paths: Sequence[str], what: str) -> str:
    """`2 files not committed before: a.py, b.py`."""
    return f"{counted(len(paths), 'file')} {what}: {some(paths, _MOST_LEFT, 60)}"


def _listed(
    verb: str, files: Sequence[str], whole: Sequence[str] = (), most: int = _MOST_NAMED
) -> Iterator[str]:
    yield f"{verb} {counted(len(files), 'file') if files else 'no files'}{':' if files else ''}"
    for path in files[:most]:
        note = " (not committed before the session either: all of it)" if path in whole else ""
        yield f"  {first_line(path, 100)}{note}"
    if len(files) > most:
        yield f"  … and {len(files) - most} more"


def _matching(root: Path, patterns: Sequence[str], now: str) -> set[str]:
    here = checkout.find(root)
    globs = (str(PurePosixPath(pattern)) for pattern in patterns)
    wanted = (f":(top,glob){'**' if glob == '.' else glob}" for glob in globs)
    compared = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none")
    trees = (here.head or git_process.empty_tree(root), now)
    return set(_split(TreeGit.for_objects(here).ask(*compared, *trees, "--", *wanted, _UNFINISHED)))


def _inside(root: Path, path: str) -> bool:
    folders = [root / folder for folder in PurePosixPath(path).parents if str(folder) != "."]
    return any(os.path.lexists(folder / ".git") for folder in folders)


def _of_sessions(root: Path, patterns: Sequence[str]) -> list[str]:
    named = [
        f":(top,glob){path}" for path in patterns if path.startswith(git_process.SESSIONS_FOLDER)
    ]
    if not named:
        return []
    head = git_process.commit_of(root, "HEAD") or git_process.empty_tree(root)
    changed = git_process.ask(root, *_CHANGED, head, "--", *named, _UNFINISHED)
    return [*{*_split(changed), *_split(git_process.ask(root, *_NEW, "--", *named, _UNFINISHED))}]


def _split(listed: str) -> list[str]:
    return listed.split("\0")[:-1]
