"""The tree of a snapshot: which files of a clone travel.

Those are all files that git does not ignore; of those that it ignores, the folders of the session
and what an agent has added to the clone's index. Git runs with an index of our own, which is kept;
everything in the clone is hostile data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.system.disk.files import TEMPORARY, remove
from playbook_supervisor.system.git import git_process
from playbook_supervisor.system.git.git_plumbing import LOCAL, Plumbing, checked

_ALL = ("add", "--all", "--ignore-errors")
_FORCED = ("--literal-pathspecs", "add", "--force", "--ignore-errors", "--")
_IGNORED = ("check-ignore", "--no-index", "-z", "--stdin")
_NONE = 1  # its exit status if git ignores none of them
_STAGED = (
    *("diff-index", "--cached", "--name-only", "--diff-filter=AU", "--no-renames"),
    *("--ita-visible-in-index", "-z"),
)
_UNFINISHED = (  # what is being written, files and folders
    f":(exclude,top,glob)**/{TEMPORARY}*",
    f":(exclude,top,glob)**/{TEMPORARY}*/**",
)
_AT_ONCE = 500  # paths in an argument list


def write(
    git: Plumbing, path: Path, folders: Sequence[str], before: str
) -> tuple[str, tuple[str, ...]]:
    """Write the tree of the clone at `path`; its id, and sentences about what is not in it.

    `folders` travel whatever git ignores. Our index, if there is one, has the files of the commit
    `before`, so that only others are looked for in the clone's; empty if no agent has been there.
    GitError PB-GIT-FAILED if a file of the folders cannot be read.
    """
    index = git.git_dir / "index"
    if not (kept := index.exists()):
        before = git.ask("hash-object", "-t", "tree", os.devnull).strip()  # nothing
    inside = {folder: names for folder in folders if (names := _files(path, folder))}
    ignored, staged = _ignored(git, path, inside, before)
    done = git(*_ALL)
    if done.returncode not in (0, 1) or done.timed_out:
        if done.timed_out or not kept:
            checked(path, _ALL, done)
        remove(index)  # an agent may have damaged it
        return write(git, path, folders, before)
    if inside and (done.returncode or ignored):
        git.ask("add", "--all", "--force", "--", *inside, *_UNFINISHED)
    for first in range(0, len(staged), _AT_ONCE):
        git(*_FORCED, *staged[first : first + _AT_ONCE])
    said = printable(done.stderr, keep_newlines=True) if done.returncode else ""
    return git.ask("write-tree").strip(), tuple(
        f"not in the snapshot: {first_line(line.removeprefix('error: '))}"
        for line in said.splitlines()
        if line.startswith("error: ")
    )


def _ignored(
    git: Plumbing, path: Path, inside: Mapping[str, Sequence[str]], before: str
) -> tuple[bool, list[str]]:
    """Whether git ignores a file of the folders, and the files that an agent has added all the
    same."""
    staged = _staged(path, before) if before else []
    names = [*(name for names in inside.values() for name in names), *staged]
    if not names:
        return False, []
    try:
        done = git(*_IGNORED, stdin=b"\0".join(map(os.fsencode, names)))
    except StorageError:  # the next git says it
        return True, staged
    if done.returncode not in (0, _NONE) or done.truncated:
        return True, staged
    ignored = {*done.stdout.split("\0")[:-1]}
    prefixes = tuple(f"{folder}/" for folder in inside)
    ours = any(name.startswith(prefixes) for name in ignored)
    return ours, [name for name in staged if name in ignored]


def _staged(path: Path, before: str) -> list[str]:
    listed = ""
    with suppress(PlaybookError):  # an agent may have damaged the index
        listed = git_process.ask(path, *_STAGED, before, seconds=LOCAL)
    root = Path(os.path.realpath(path))
    return [name for name in dict.fromkeys(listed.split("\0")[:-1]) if _is_file(root, name)]


def _is_file(root: Path, name: str) -> bool:
    """True if git can add it: it is there, and in no folder that is a symbolic link."""
    file = root / name
    return os.path.lexists(file) and os.path.realpath(file.parent) == str(file.parent)


def _files(root: Path, folder: str) -> list[str]:
    walked = os.walk(root / folder)
    return [os.path.relpath(Path(up, name), root) for up, _, names in walked for name in names]
