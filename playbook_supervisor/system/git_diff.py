"""All changes since a commit, line by line: git's own diff and the new files that it does not know.

It takes seconds at most and little memory, whatever has changed: git first counts, and then gives
the text only as far as it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from playbook_supervisor.formats.file_changes import BINARY, MODES, Changes, FileChange
from playbook_supervisor.formats.unified_diff import parse
from playbook_supervisor.records import replace
from playbook_supervisor.system import new_files
from playbook_supervisor.system.cancellation import Interrupted
from playbook_supervisor.system.git_process import (
    NEW_FILES,
    SESSIONS,
    empty_tree,
    failure,
    may_have_changed,
)
from playbook_supervisor.system.git_programs import Runs, command, environment
from playbook_supervisor.system.processes import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["changed", "new", "deleted", "renamed"]

_LISTING, _COUNTING, _SHOWING = 4.0, 5.0, 3.0  # seconds
_MOST_LISTED = 1 << 25  # bytes
_MOST_LARGE = 100  # files that git is told to leave out, as it would read them to name their blobs
_MOST_OF_A_LINE = 1 << 14  # bytes; a header has two paths of up to 4096
_LARGE = ("large", "")
_NOTES = {"": "not counted", "-": BINARY, "large": new_files.TOO_LARGE}
_LEFT_OUT = "\n[… "  # the mark of a `Capture` that was cut
_KINDS: dict[str, Kind] = {"A": "new", "D": "deleted", "R": "renamed"}
_BINARY = ("-c", f"core.bigFileThreshold={new_files.LARGEST}")  # above, and is not read
_DIFF = (  # whatever the user's settings say
    "diff",
    *("--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", f"-O{os.devnull}"),
    *("--find-renames", "-l1000", "--submodule=short", "--ignore-submodules=dirty"),
)
_TEXT = ("--patch", "--unified=3", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/")


def changes_of(root: Path, since: str, since_ms: int = 0) -> Changes:
    """What differs between the commit `since` and the working tree, new files last.

    `since` is empty before the first commit. Untracked files that last changed before `since_ms`
    (ms since the epoch), ignored ones and sessions' folders are left out. Files that are binary or
    larger than 8 MB are named, not shown. It takes at most about 20 seconds; where they do not
    suffice, the changes are not `exact`. GitError PB-GIT-FAILED with git's own words, StorageError
    if git cannot be started.
    """
    base = since or empty_tree(root)
    named, all_named = _named(root, base)
    large = [file for file in named if _is_large(root / file.path)]
    where = (base, "--", SESSIONS, *_without(large[:_MOST_LARGE]))
    counts, all_counted = _counts(root, where)
    counts |= {file.path: _LARGE for file in large}
    listed = [_counted(file, *counts.get(file.path, ("", ""))) for file in named]
    untracked, all_found = _fields(root, (*NEW_FILES, "--", SESSIONS), _LISTING)
    names = [name for name in untracked if may_have_changed(root / name, since_ms)]
    added, all_read = new_files.counted_files(root, names)
    shown = new_files.as_diff(root, [file.path for file in added if file.added])
    with closing(_patch(root, where)) as patch:
        changes = parse(chain(patch, shown), (*listed, *added))
    return replace(changes, exact=all_named and all_counted and all_found and all_read)


def _named(root: Path, base: str) -> tuple[list[FileChange], bool]:
    """Each file that git knows, without its totals, and whether these are all."""
    asked = (*_DIFF, "--raw", "-z", "--end-of-options", base, "--", SESSIONS)
    fields, complete = _fields(root, asked, _LISTING)
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


def _counts(root: Path, where: Sequence[str]) -> tuple[dict[str, tuple[str, str]], bool]:
    """Path → added and removed lines, `-` in binary files, and whether these are all.

    Git prints them when it has counted all files, so if it takes too long, there are none.
    """
    asked = (*_DIFF, "--numstat", "-z", "--end-of-options", *where)
    fields, complete = _fields(root, asked, _COUNTING)
    counts: dict[str, tuple[str, str]] = {}
    left = iter(fields)
    for field in left:
        added, removed, path = field.split("\t", 2)
        if not path:  # a renamed file: its two paths follow
            _, path = next(left, ""), next(left, "")
        counts[path] = added, removed
    return counts, complete


def _counted(file: FileChange, added: str, removed: str) -> FileChange:
    if added.isdecimal():
        return replace(file, added=int(added), removed=int(removed))
    return replace(file, notes=(*file.notes, _NOTES[added]))


def _is_large(file: Path) -> bool:
    try:
        return file.lstat().st_size > new_files.LARGEST
    except OSError:  # deleted
        return False


def _without(files: Sequence[FileChange]) -> Iterator[str]:
    """The pathspecs that leave out these files."""
    for file in files:
        for path in filter(None, (file.path, file.former_path)):
            yield f":(exclude,top,literal){path}"


def _patch(root: Path, where: Sequence[str]) -> Generator[str, None, None]:
    """The lines of git's diff; git is ended as soon as this is closed, and after a few seconds."""
    asked = (*_DIFF, *_TEXT, "--end-of-options", *where)
    worker = _git(root, asked, _SHOWING, cap=_MOST_OF_A_LINE)
    yield from worker.lines()
    _check(root, asked, worker)


def _fields(root: Path, arguments: Sequence[str], seconds: float) -> tuple[list[str], bool]:
    """The fields of an output, each ended by a NUL, and whether these are all."""
    worker = _git(root, arguments, seconds, cap=_MOST_LISTED)
    for _ in worker.lines():
        pass
    _check(root, arguments, worker)
    text = worker.stdout
    if worker.truncated:
        text = text.partition(_LEFT_OUT)[0]
    *fields, _ = text.split("\0")  # what follows the last NUL is nothing, or cut
    return fields, not (worker.truncated or worker.stopped_by)


def _git(root: Path, arguments: Sequence[str], seconds: float, *, cap: int) -> Worker:
    argv = [*command(root, Runs.NOTHING), *_BINARY, *arguments]
    return Worker(argv, cwd=root, env=environment(Runs.NOTHING), wall=seconds, cap=cap)


def _check(root: Path, arguments: Sequence[str], worker: Worker) -> None:
    """Raise if git failed or a person asked to stop; a deadline is no failure."""
    if worker.stopped_by == "stop":
        raise Interrupted
    if not worker.stopped_by and worker.returncode:
        raise failure(root, arguments, worker.stderr)
