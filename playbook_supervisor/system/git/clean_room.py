"""Clean rooms: folders of our own with the files of one tree, and what set-up has made there.

A room is kept between checks, at a path that does not change, because what set-up installs may
name it. Nothing that one check leaves reaches the next: files of the tree are restored, files of
set-up are compared with their records (a program cannot set the time of the last change of an
inode), and all others are removed. Our git directory and index lie beside the folder, and what
the code under test writes into its `.git` is never read.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git import git_process
from playbook_supervisor.system.git.tree_git import TreeGit
from playbook_supervisor.system.process.cancellation import Interrupted, cancel_requested

if TYPE_CHECKING:
    from playbook_supervisor.system.git.checkout import Checkout

MOST_ROOMS = 8
"""Rooms that are kept; the one that was used last goes last."""

_NAME = 16  # digits of the digest of a repository and a check
_SECONDS = 0.5  # between two looks whether a room is free
_SETUP = "setup.json"
_LOCK = "lock"
_OURS = frozenset({"tmp", "git", "commit", _LOCK, _SETUP})  # beside the folder of the checks
_COMMIT = """\
tree {tree}
{parent}author playbook <playbook@localhost> 0 +0000
committer playbook <playbook@localhost> 0 +0000

What is checked
"""


@dataclass(frozen=True, slots=True)
class CleanRoom:
    """A room, held by this process alone. `root` is where checks run, and `temporary` is an empty
    folder for their temporary files. Each function raises GitError or StorageError if it fails."""

    place: Path
    root: Path
    here: Checkout

    @property
    def temporary(self) -> Path:
        return self.place / "tmp"

    @property
    def _git(self) -> TreeGit:
        return TreeGit.apart(self.here, self.root, self.place / "git")

    @property
    def _index(self) -> Path:
        return self.place / "git" / "index"

    def lay(self, tree: str) -> None:
        """Leave what is in the tree, and what set-up has made, and nothing else."""
        _require_own(self.place)
        for folder in (self.root, self.place / "git"):
            if folder.is_symlink() or not folder.is_dir():
                files.remove(folder)
            files.ensure_folder(folder)
        self._empty_temporary()
        git, made = self._git, self._made_by_setup()
        tracked = _split(git.ask("ls-tree", "-r", "-z", "--name-only", tree))
        _remove_others(self.root, frozenset(tracked) | frozenset(made))
        files.remove(self._index.with_name("index.lock"))
        git.ask("read-tree", "--reset", "-u", tree, index=self._index)
        self._furnish(git, tree)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While a program runs in the room, which could write our records beside it, too, they are
        in memory alone. Those of set-up come back only if nothing has changed what it made."""
        record, index = self.place / _SETUP, self._index
        kept = {file: files.read_bytes(file) for file in (record, index) if file.exists()}
        made = self._made_by_setup()
        for file in kept:
            files.remove(file)
        try:
            yield
        finally:
            _require_own(self.place)
            if index.parent.is_symlink() or not self._unchanged(made):
                kept.clear()
            if index.parent.is_symlink():
                files.remove(index.parent)
            for file in (record, index):
                files.remove(file)
                if file in kept:
                    files.write_atomically(file, kept[file], durable=False)

    def is_prepared(self, key: str) -> bool:
        """True if the set-up with this key has made what is here, and nothing has changed it."""
        return self._recorded()[0] == key and self._unchanged(self._made_by_setup())

    def _unchanged(self, made: Mapping[str, list[int]]) -> bool:
        return all(_look(self.root / path) == known for path, known in made.items())

    def empty(self) -> None:
        """Remove all that is in the room, also what set-up has made."""
        _require_own(self.place)
        files.remove(self.place / _SETUP)
        for part in (self.root, self._index):
            _make_removable(part)
            files.remove(part)

    def keep_setup(self, key: str) -> None:
        """Record what is here beside the files of the tree as made by the set-up with this key."""
        tracked = frozenset(_split(self._git.ask("ls-files", "-z", index=self._index)))
        made = {path: _look(self.root / path) for path in _paths(self.root) if path not in tracked}
        text = json.dumps({"key": key, "made": made})
        files.write_atomically(
            self.place / _SETUP, text.encode("utf-8", "surrogateescape"), durable=False
        )

    def _made_by_setup(self) -> dict[str, list[int]]:
        return self._recorded()[1]

    def _recorded(self) -> tuple[str, dict[str, list[int]]]:
        with suppress(OSError, PlaybookError, ValueError, TypeError, KeyError, RecursionError):
            shape = json.loads(
                files.read_bytes(self.place / _SETUP).decode(errors="surrogateescape")
            )
            return str(shape["key"]), {
                str(path): list(seen) for path, seen in shape["made"].items()
            }
        return "", {}

    def _empty_temporary(self) -> None:
        _make_removable(self.temporary)
        files.remove(self.temporary)
        files.ensure_folder(self.temporary)

    def _furnish(self, git: TreeGit, tree: str) -> None:
        """Make the room a repository of its own, at a commit of the tree, with the tags."""
        folder = self.root / ".git"
        for part in ("refs", "objects/info"):
            files.ensure_folder(folder / part)
        parent = f"parent {self.here.head}\n" if self.here.head else ""
        text = self.place / "commit"
        files.write_atomically(
            text, _COMMIT.format(tree=tree, parent=parent).encode(), durable=False
        )
        ((_, commit, _),) = git.run(("hash-object", "-t", "commit", "-w", "--stdin"), stdin=text)
        asked = ("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
        for file, data in (
            ("HEAD", commit.encode()),
            ("config", files.read_bytes(git.git_dir / "config")),
            ("objects/info/alternates", f"{git.objects}\n".encode()),
            ("packed-refs", git_process.ask(self.here.root, *asked).encode()),
            ("index", files.read_bytes(self._index)),
        ):
            files.write_atomically(folder / file, data, durable=False)


def rooms() -> Path:
    """`$XDG_CACHE_HOME/playbook/rooms`, by default in `~/.cache`; it may not exist."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # the specification ignores a relative path
        base = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.expanduser may raise
    return Path(base) / "playbook" / "rooms"


@contextmanager
def clean_room(
    here: Checkout, check: str, waiting: Callable[[], None] = lambda: None
) -> Iterator[CleanRoom]:
    """The room of a repository and a check, until then held by us alone.

    `waiting` is called once if another process has it. Interrupted if a person asked to stop;
    StorageError if it cannot be made.
    """
    common = here.common_dir.resolve()
    name = files.digest(f"{common}\n{check}".encode("utf-8", "surrogateescape"))[:_NAME]
    place = rooms() / name
    folder = common.parent.name if common.name == ".git" else here.root.name
    if folder in _OURS:
        folder += ".d"
    files.ensure_folder(place)
    _require_own(place)
    with _held(place / _LOCK, waiting):
        os.utime(place / _LOCK)
        _sweep(place)
        yield CleanRoom(place, place / folder, here)


@contextmanager
def _held(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    told = False
    while True:
        if cancel_requested():
            raise Interrupted
        try:
            with files.locked(lock, timeout=_SECONDS if told else 0):
                yield
                return
        except StateError as error:
            if error.code != "PB-STATE-BUSY" or error.where != str(lock):
                raise
        if not told:
            waiting()
        told = True


def _sweep(ours: Path) -> None:
    """Remove the rooms that were not used for the longest time, if there are too many."""
    with suppress(OSError):
        others = [each for each in ours.parent.iterdir() if each != ours]
        others.sort(key=lambda each: files.written_at(each / _LOCK), reverse=True)
        for old in others[MOST_ROOMS - 1 :]:
            with suppress(PlaybookError), files.locked(old / _LOCK, timeout=0):
                _make_removable(old)
                files.remove(old)


def _require_own(place: Path) -> None:
    with suppress(OSError):
        found = place.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            return
    said = f"{place} is not a folder of ours"
    raise StorageError("PB-IO-WRITE", said, where=str(place), guidance="Remove it, and try again.")


# ── what is in a room ───────────────────────────────────────────────────────────────────────


def _look(file: Path) -> list[int]:
    """What differs once a file was changed; empty if there is none."""
    try:
        seen = file.lstat()
    except OSError:
        return []
    return [seen.st_mode, seen.st_size, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns]


def _paths(root: Path) -> Iterator[str]:
    """The files and links below a folder but for those of its `.git`; links are not followed."""
    top = os.fspath(root)
    for folder, names, found in os.walk(top):
        below = os.path.relpath(folder, top)
        if below == ".":
            names[:] = [name for name in names if name != ".git"]
        links = [name for name in names if Path(folder, name).is_symlink()]
        for name in (*found, *links):
            yield name if below == "." else f"{below}/{name}"


def _remove_others(root: Path, kept: frozenset[str]) -> None:
    """Remove all but these files, and the folders that have none of them."""
    folders = {""}
    for path in kept:
        while (path := path.rpartition("/")[0]) not in folders:
            folders.add(path)
    _remove_below(root, "", kept, folders)


def _remove_below(folder: Path, below: str, kept: frozenset[str], folders: Iterable[str]) -> None:
    os.chmod(folder, 0o700 | stat.S_IMODE(folder.lstat().st_mode))  # noqa: PTH101
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        path = f"{below}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and path in folders and path not in kept:
            _remove_below(folder / entry.name, f"{path}/", kept, folders)
        elif is_folder or path not in kept:
            _make_removable(folder / entry.name)
            files.remove(folder / entry.name)


def _make_removable(path: Path) -> None:
    """Let us remove what is in folders that the code under test has made read-only."""
    if path.is_symlink() or not path.is_dir():
        return
    with suppress(OSError):
        path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                with suppress(OSError):
                    inner.chmod(0o700)


def _split(listed: str) -> list[str]:
    return listed.split("\0")[:-1]
