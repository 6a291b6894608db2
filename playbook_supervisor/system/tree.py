"""The state of a working tree as one id, and what differs between two of them.

The id is that of a git tree object with the files as they are: untracked files included, ignored
ones and the folders of sessions not. The user's index is neither read nor written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from playbook_supervisor.errors import GitError
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.records import Record
from playbook_supervisor.system import checkout
from playbook_supervisor.system.checkout import NOW, Pinned
from playbook_supervisor.system.tree_git import TreeGit
from playbook_supervisor.system.tree_index import Tree as Tree
from playbook_supervisor.system.tree_index import Unreadable as Unreadable
from playbook_supervisor.system.tree_index import taken

_ID = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_SHORT = 7


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
        names = git.ask(*compared, "--name-only", before, after).split("\0")
        return TreeChanges(tuple(Changed(name) for name in names[:-1]))
    return TreeChanges(tuple(_read(listed)))


def short(tree: str) -> str:
    """An id as people read it: `9f31c2a`."""
    return tree[:_SHORT]


def _read(listed: str) -> Iterator[Changed]:
    for line in filter(None, listed.split("\0")):
        added, removed, path = line.split("\t", 2)
        yield Changed(path, *(0 if lines == "-" else int(lines) for lines in (added, removed)))
