"""The state of a working tree as one id, and what differs between two of them.

The id is that of a git tree object with the files as they are: untracked files included, ignored
ones and the folders of sessions not. The user's index is neither read nor written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from playbook_supervisor.errors import GitError
from playbook_supervisor.formats.sanitize import counted, printable
from playbook_supervisor.records import Record
from playbook_supervisor.system import checkout
from playbook_supervisor.system.checkout import NOW, Pinned
from playbook_supervisor.system.git_process import SESSIONS, SESSIONS_FOLDER, empty_tree, understood
from playbook_supervisor.system.tree_git import TreeGit
from playbook_supervisor.system.tree_index import Tree as Tree
from playbook_supervisor.system.tree_index import Unreadable as Unreadable
from playbook_supervisor.system.tree_index import taken

_ID = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_SHORT = 7
_MOST_LINES = 12


class Changed(Record):
    """A file that differs, with the lines added and removed; none are counted in a binary file."""

    path: str
    added: int = 0
    removed: int = 0


class TreeChanges(Record):
    """The files that differ between two trees, by path; a renamed file counts as two."""

    files: tuple[Changed, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)

    @property
    def summary(self) -> str:
        """`3 files, +120 −8`."""
        return f"{counted(len(self.files), 'file')}, +{self.added} \N{MINUS SIGN}{self.removed}"

    def those(self, wanted: Callable[[str], bool]) -> TreeChanges:
        """The changes of the paths that are wanted."""
        return TreeChanges(tuple(file for file in self.files if wanted(file.path)))


def pinned_now(root: Path) -> Pinned:
    """The ignore rules and the commit of this moment, for a session that begins. Errors as
    `tree_of`."""
    here = checkout.find(root)
    git = TreeGit.of(here)
    git.tidy()
    return Pinned(git.rules, here.head)


def tree_of(root: Path, pinned: Pinned = NOW) -> Tree:
    """The tree that is in the checkout at `root` now: a function of the content of its files.

    Submodules and nested repositories are folders like any other; `.git` and the sessions' folders
    are left out. Files that are known to be unchanged are not read. GitError PB-GIT-FAILED;
    StorageError if our own files cannot be written; errors of `checkout.find`.
    """
    here = checkout.find(root)
    git = TreeGit.of(here, pinned.rules)
    heads = tuple(sorted({here.head, pinned.head} - {""}))
    with understood(root):
        try:
            return taken(git, heads)
        except GitError:  # something has damaged our index
            git.forget_index()
            return taken(git, heads)


def tree_id(root: Path, pinned: Pinned = NOW) -> str:
    """The id of the tree of `tree_of`, in full."""
    return tree_of(root, pinned).id


def changes(root: Path, before: str, after: str) -> TreeChanges:
    """What differs between two trees.

    GitError PB-GIT-FAILED if git does not have one of them, as in a clone, or after git has removed
    what no commit contains.
    """
    for tree in (before, after):
        if not re.fullmatch(_ID, tree):
            raise GitError("PB-GIT-FAILED", f"{tree[:80]!r} is not the id of a tree")
    if before == after:
        return TreeChanges()
    git = TreeGit.of(checkout.find(root))
    compared = ("diff-tree", "-r", "-z", "--no-renames", "--ignore-submodules=none")
    try:
        listed = git.ask(*compared, "--numstat", before, after)
    except GitError:  # the content of a file is gone: it is named all the same
        git.forget_index()
        names = git.ask(*compared, "--name-only", before, after).split("\0")
        return TreeChanges(tuple(Changed(name) for name in names[:-1]))
    with understood(root):
        return TreeChanges(tuple(_read(listed)))


def require(root: Path, tree: str, head: str) -> None:
    """GitError with the cure if git does not have a tree of ours, or the commit below it.

    A tree that is gone, or was made by another machine, is made again if the commit has its files.
    """
    require_commit(root, head)
    git = TreeGit.of(checkout.find(root))
    if git.has(f"{tree}^{{tree}}"):
        return
    if head and re.fullmatch(_ID, head):
        with git.index("rebuilt") as index:
            git.ask("read-tree", head, index=index)
            sessions = (SESSIONS_FOLDER, "--cached", "--quiet", "--ignore-unmatch")
            git.ask("rm", "-r", *sessions, index=index)
            if git.ask("write-tree", "--missing-ok", index=index).strip() == tree:
                return
    message = "what was here when the session began is not known to git"
    cure = f"`git diff {short(head)}` shows what differs from the commit at which it began."
    raise GitError("PB-GIT-FAILED", message, guidance=cure if head else "")


def require_commit(root: Path, commit: str) -> None:
    """GitError with the cure if the repository does not have the commit; none is empty."""
    here = checkout.find(root)
    if not commit or TreeGit.of(here).has(f"{commit}^{{commit}}"):
        return
    message = f"the commit at which the session began, {short(commit)}, is not "
    if (here.common_dir / "shallow").exists():
        where, cure = "in this shallow clone", "`git fetch --unshallow` brings it."
    else:
        where, cure = "in this repository", "`git fetch` brings it if the remote has it."
    raise GitError("PB-GIT-FAILED", message + where, guidance=cure)


def stat(root: Path, since: str, now: str) -> tuple[str, ...]:
    """What differs between two trees, for people: a line per file, then the totals.

    `since` may also be a commit, or empty for no files at all. Sessions' folders are left out. At
    most twelve printable lines. Errors as `changes`.
    """
    git = TreeGit.of(checkout.find(root))
    asked = ("diff", "--stat=80", "--compact-summary", "--find-renames", f"-O{os.devnull}")
    trees = ("--end-of-options", since or empty_tree(root), now, "--", SESSIONS)
    lines = list(map(printable, git.ask(*asked, *trees).splitlines()))
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 2 : -1] = [f" … and {left} more"]
    return tuple(lines)


def short(tree: str) -> str:
    """An id as people read it: `9f31c2a`."""
    return tree[:_SHORT]


def _read(listed: str) -> Iterator[Changed]:
    for line in filter(None, listed.split("\0")):
        added, removed, path = line.split("\t", 2)
        yield Changed(path, *(0 if lines == "-" else int(lines) for lines in (added, removed)))
