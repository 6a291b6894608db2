"""The state of a working tree as one id, and what differs between two of them.

The id is that of a git tree object with everything that is there: untracked files included, ignored
ones and the folders of sessions not. The user's index is copied, never written.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import GitError
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.records import Record
from playbook_supervisor.system import checkout
from playbook_supervisor.system.files import TEMPORARY, read_bytes, write_atomically
from playbook_supervisor.system.git_process import ask

_SESSIONS = ".playbooks/sessions"
_ID = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_SHORT = 7
_INDEX = f"{TEMPORARY}index-"
_ABANDONED = 3600.0  # seconds after which the index of a killed process is removed
_HASHING = 120.0  # seconds for git to hash what is new


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


def tree_id(root: Path) -> str:
    """The id of the tree that is in the checkout at `root` now, in full.

    Files that git knows to be unchanged are not read. GitError PB-GIT-FAILED, for instance if a
    file cannot be read; StorageError if the index cannot be copied; errors of `checkout.find`.
    """
    with _own_index(checkout.find(root).git_dir) as index:
        everything = ("--all", "--", ".", f":(exclude,top){_SESSIONS}")
        ask(root, "add", *everything, index=index, seconds=_HASHING)
        forced = ("--cached", "--force", "--quiet", "--ignore-unmatch")
        ask(root, "rm", "-r", *forced, "--", _SESSIONS, index=index)
        return ask(root, "write-tree", index=index).strip()


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
    plain = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
    listed = ask(root, "diff-tree", "-r", "-z", "--numstat", *plain, before, after)
    return TreeChanges(tuple(_read(listed)))


def short(tree: str) -> str:
    """An id as people read it: `9f31c2a`."""
    return tree[:_SHORT]


def _read(listed: str) -> Iterator[Changed]:
    for line in filter(None, listed.split("\0")):
        added, removed, path = line.split("\t", 2)
        yield Changed(path, *(0 if lines == "-" else int(lines) for lines in (added, removed)))


@contextmanager
def _own_index(git_dir: Path) -> Iterator[Path]:
    """A copy of the user's index, in the git directory because git looks for its parts there."""
    _remove_abandoned(git_dir)
    index = git_dir / f"{_INDEX}{os.urandom(8).hex()}"
    try:
        _copy(git_dir / "index", index)
        yield index
    finally:
        for left in (index, index.with_name(f"{index.name}.lock")):
            with suppress(OSError):
                left.unlink()


def _copy(index: Path, copy: Path) -> None:
    """Copy it, with its time: git reads a file again if it changed at that time or later."""
    try:
        at = index.stat().st_mtime_ns
        data = read_bytes(index)
    except FileNotFoundError:  # nothing was ever added
        return
    write_atomically(copy, data, durable=False)
    os.utime(copy, ns=(at, at))


def _remove_abandoned(git_dir: Path) -> None:
    before = time.time() - _ABANDONED
    with suppress(OSError):
        for left in git_dir.glob(f"{TEMPORARY}*"):
            if left.stat().st_ctime < before:
                left.unlink()
