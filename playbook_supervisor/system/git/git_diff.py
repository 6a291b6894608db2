"""All changes since a tree or commit, line by line: git's own diff between two trees.

It takes seconds at most and little memory, whatever has changed: git first counts, and then gives
the text only as far as it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from playbook_supervisor.formats.file_changes import BINARY, MODES, Changes, FileChange, Kind, parse
from playbook_supervisor.records import replace
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import NOW, Pinned
from playbook_supervisor.system.git.git_process import SESSIONS, empty_tree, failure, understood
from playbook_supervisor.system.git.tree import tree_of
from playbook_supervisor.system.git.tree_git import TreeGit
from playbook_supervisor.system.process.cancellation import Interrupted, within
from playbook_supervisor.system.process.processes import Worker

LARGEST = 8 << 20  # bytes of a file; a larger one is not compared
_READING, _LISTING, _COUNTING, _SHOWING = 5.0, 4.0, 5.0, 3.0  # seconds
_MOST_LISTED = 1 << 25  # bytes
_MOST_OF_A_LINE = 1 << 14  # bytes; a header has two paths of up to 4096
_NOTES = {"": "not counted", "-": BINARY}
_LEFT_OUT = "\n[… "  # the mark of a `Capture` that was cut
_KINDS: dict[str, Kind] = {"A": "new", "D": "deleted", "R": "renamed"}
_BINARY = ("-c", f"core.bigFileThreshold={LARGEST}")  # above, and is not read
_DIFF = (  # whatever the user's settings say
    "diff",
    *("--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", f"-O{os.devnull}"),
    *("--find-renames", "-l1000", "--submodule=short", "--ignore-submodules=dirty"),
)
_TEXT = ("--patch", "--unified=3", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/")


def changes_of(root: Path, since: str, pinned: Pinned = NOW) -> Changes:
    """The changes between the tree or commit `since` and the checkout, new files last.

    `since` is empty before the first commit. Sessions' folders are left out, and what is not in the
    tree (`tree.py`). Files that are binary or larger than 8 MB are named, not shown. It takes at
    most about 20 seconds; where they do not suffice, the changes are not `exact`. GitError
    PB-GIT-FAILED with git's own words, StorageError if git cannot be started.
    """
    try:
        with within(_READING):
            now = tree_of(root, pinned)
    except TimeoutError:
        return Changes(exact=False)
    with understood(root):
        git = TreeGit.of(checkout.find(root), pinned.rules)
        where = (since or empty_tree(root), now.id, "--", SESSIONS)
        named, all_named = _named(git, where)
        counts, all_counted = _counts(git, where)
        listed = [_counted(file, root, *counts.get(file.path, ("", ""))) for file in named]
        listed.sort(key=lambda file: file.kind == "new")
        with closing(_patch(git, where)) as patch:
            changes = parse(patch, listed)
        return replace(changes, exact=all_named and all_counted and not now.unreadable)


def _named(git: TreeGit, where: Sequence[str]) -> tuple[list[FileChange], bool]:
    asked = (*_DIFF, "--raw", "-z", "--end-of-options", *where)
    fields, complete = _fields(git, asked, _LISTING)
    left = iter(fields)
    files = [_file(field, left) for field in left]
    return [file for file in files if file.path], complete


def _file(field: str, left: Iterator[str]) -> FileChange:
    """The file of `:100644 100644 9f31c2a 0000000 R087` and the one or two paths after it."""
    mode, *_, status = field.split()[1:]
    former = next(left, "") if status.startswith("R") else ""
    kind = _KINDS.get(status[0], "changed")
    noted = mode != "100755" or kind == "new"
    note = "unmerged" if status == "U" else MODES.get(mode, "") if noted else ""
    return FileChange(next(left, ""), former, kind, notes=(note,) if note else ())


def _counts(git: TreeGit, where: Sequence[str]) -> tuple[dict[str, tuple[str, str]], bool]:
    """Path → added and removed lines, `-` in binary files, and whether these are all.

    There are none if it takes too long: git prints them when it has counted all files.
    """
    asked = (*_DIFF, "--numstat", "-z", "--end-of-options", *where)
    fields, complete = _fields(git, asked, _COUNTING)
    counts: dict[str, tuple[str, str]] = {}
    left = iter(fields)
    for field in left:
        added, removed, path = field.split("\t", 2)
        if not path:  # a renamed file: its two paths follow
            _, path = next(left, ""), next(left, "")
        counts[path] = added, removed
    return counts, complete


def _counted(file: FileChange, root: Path, added: str, removed: str) -> FileChange:
    if added.isdecimal():
        return replace(file, added=int(added), removed=int(removed))
    note = _NOTES[added]
    with suppress(OSError):  # deleted
        if (root / file.path).lstat().st_size > LARGEST:
            note = "too large to compare"
    return replace(file, notes=(*file.notes, note))


def _patch(git: TreeGit, where: Sequence[str]) -> Generator[str, None, None]:
    """The lines of git's diff; git is ended as soon as this is closed, and after a few seconds."""
    asked = (*_DIFF, *_TEXT, "--end-of-options", *where)
    worker = _worker(git, asked, _SHOWING, cap=_MOST_OF_A_LINE)
    yield from worker.lines()
    _check(git.root, asked, worker)


def _fields(git: TreeGit, arguments: Sequence[str], seconds: float) -> tuple[list[str], bool]:
    worker = _worker(git, arguments, seconds, cap=_MOST_LISTED)
    for _ in worker.lines():
        pass
    _check(git.root, arguments, worker)
    text = worker.stdout
    if worker.truncated:
        text = text.partition(_LEFT_OUT)[0]
    *fields, _ = text.split("\0")  # what follows the last NUL is nothing, or cut
    return fields, not (worker.truncated or worker.stopped_by)


def _worker(git: TreeGit, arguments: Sequence[str], seconds: float, *, cap: int) -> Worker:
    argv = [*git.argv, *_BINARY, *arguments]
    return Worker(argv, cwd=git.root, env=git.environment, wall=seconds, cap=cap)


def _check(root: Path, arguments: Sequence[str], worker: Worker) -> None:
    if worker.stopped_by == "stop":
        raise Interrupted
    if not worker.stopped_by and worker.returncode:
        raise failure(root, arguments, worker.stderr)
