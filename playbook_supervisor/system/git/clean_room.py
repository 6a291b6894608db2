"""Clean rooms: folders of our own with the files of one tree, and what set-up has made there.

A room is kept between checks, at a path that does not change, because what set-up installs may
name it. Nothing that one check leaves reaches the next: files of the tree are restored, files of
set-up are compared with their records (a program cannot set the time of the last change of an
inode), and all others are removed. Our git directory and index lie beside the folder, and what
the code under test writes into its `.git` is never read.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.system.disk import files, user_state
from playbook_supervisor.system.git import git_process
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.tree_git import TreeGit
from playbook_supervisor.system.git.tree_objects import TreeObjects
from playbook_supervisor.system.process.cancellation import Interrupted, cancel_requested

MOST_ROOMS = 8
MOST_BYTES = 10_000_000_000
"""Rooms that are kept, and their bytes; the one that was used last goes last."""

_OBJECTS = Path(".git/objects")
_OWN, _SHARED, _ALTERNATES = "own", "shared", "info/alternates"
_NAME = 16  # digits of the digest of a repository and a check
_SECONDS = 0.5  # between two looks whether a room is free
_SETUP = "setup.json"
_RECORD = "room.json"
_LOCK = "lock"
_OURS = frozenset(
    {"tmp", "git", "commit", "alternates", _LOCK, _SETUP, _RECORD}
)  # beside the checks' folder
_LARGEST = 1 << 16  # bytes of a record
_LEAST_SPACE = 1 << 20  # bytes
_FULL = "Free space there; `playbook doctor --clean` removes the clean rooms."
_BLOCK = 512  # bytes, in which POSIX counts what a file takes
_DAMAGED = (OSError, PlaybookError, ValueError, TypeError, AttributeError, KeyError, RecursionError)
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
        git, (_, made) = self._git, self._recorded()
        _remove_others(self.root, frozenset(TreeObjects(self.here).entries(tree)) | made.keys())
        files.remove(self._index.with_name("index.lock"))
        git.ask("read-tree", "--reset", "-u", tree, index=self._index)
        self._furnish(git, tree)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While a program runs in the room, which could write our records beside it, too, they are
        in memory alone. Those of set-up come back only if nothing has changed what it made."""
        record, index = self.place / _SETUP, self._index
        kept = {file: files.read_bytes(file) for file in (record, index) if file.exists()}
        _, made = self._recorded()
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
        prepared_for, made = self._recorded()
        return prepared_for == key and self._unchanged(made)

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
        tracked = frozenset(self._git.ask("ls-files", "-z", index=self._index).split("\0"))
        made = {path: _look(self.root / path) for path in _paths(self.root) if path not in tracked}
        data = json.dumps({"key": key, "made": made}).encode()
        files.write_atomically(self.place / _SETUP, data, durable=False)

    def _recorded(self) -> tuple[str, dict[str, list[int]]]:
        """The key of the last set-up, and how each file that it made looked then."""
        with suppress(*_DAMAGED):
            shape = json.loads(files.read_bytes(self.place / _SETUP))
            made = {str(path): list(seen) for path, seen in shape["made"].items()}
            return str(shape["key"]), made
        return "", {}

    def _empty_temporary(self) -> None:
        _make_removable(self.temporary)
        files.remove(self.temporary)
        files.ensure_folder(self.temporary)

    def _furnish(self, git: TreeGit, tree: str) -> None:
        folder = self.root / ".git"
        for part in ("refs", "objects/info"):
            files.ensure_folder(folder / part)
        parent = f"parent {self.here.head}\n" if self.here.head else ""
        text, data = self.place / "commit", _COMMIT.format(tree=tree, parent=parent).encode()
        files.write_atomically(text, data, durable=False)
        ((_, commit, _),) = git.run(("hash-object", "-t", "commit", "-w", "--stdin"), stdin=text)
        asked = ("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
        for file, data in (
            ("HEAD", commit.encode()),
            ("config", files.read_bytes(git.git_dir / "config")),
            ("objects/info/alternates", f"{git.objects}\n".encode()),
            (self.place / "alternates", f"{_OWN}\n{_SHARED}\n".encode()),
            ("packed-refs", git_process.ask(self.here.root, *asked).encode()),
            ("index", files.read_bytes(self._index)),
        ):
            files.write_atomically(folder / file, data, durable=False)


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """A room on the disk: the git directory of its repository, its check, and its size in bytes.
    The first two are empty if it has no record of them."""

    place: Path
    repository: str = ""
    check: str = ""
    size: int = 0

    @property
    def is_abandoned(self) -> bool:
        """True if its repository is gone, or its removal was interrupted."""
        gone = not os.path.lexists(self.repository or self.place)
        return gone or self.place.name.startswith(files.TEMPORARY)

    @property
    def shown(self) -> str:
        """`check test of /src/project, 412.5 MB`."""
        whose = f"check {self.check} of {self.repository}" if self.check else str(self.place)
        return f"{whose.removesuffix('/.git')}, {self.size / 1_000_000:,.1f} MB"


def lent_objects(here: Checkout, room: Path) -> Iterator[tuple[Path, Path]]:
    """What stands below `.git/objects` where the room stands at the checkout's place, so that git
    finds there the objects that it looks for elsewhere: the places, and what stands there."""
    folder = here.root / _OBJECTS
    yield folder / _OWN, TreeGit.apart(here, room, room.parent / "git").objects
    yield folder / _SHARED, here.common_dir / "objects"
    yield folder / _ALTERNATES, room.parent / "alternates"


def rooms() -> Path:
    """`$XDG_CACHE_HOME/playbook/rooms`, by default in `~/.cache`; it may not exist."""
    return user_state.cached("rooms")


def remove_rooms(unwanted: Callable[[KeptRoom], bool] = lambda _: True) -> tuple[KeptRoom, ...]:
    """Remove the unwanted rooms that no run uses; those that are gone."""
    return tuple(each for each in _kept() if unwanted(each) and _removed(each.place))


@contextmanager
def clean_room(
    here: Checkout, check: str, waiting: Callable[[], None] = lambda: None
) -> Iterator[CleanRoom]:
    """The room of a repository and a check. No other process has it inside the `with` block.

    `waiting` is called once if another process has it. Interrupted if a person asked to stop;
    StorageError if it cannot be made, or if the body fails because its disk is full.
    """
    common = here.common_dir.resolve()
    name = files.digest(f"{common}\n{check}".encode("utf-8", "surrogateescape"))[:_NAME]
    place = rooms() / name
    folder = common.parent.name if common.name == ".git" else here.root.name
    if folder in _OURS:
        folder += ".d"
    with _held(place / _LOCK, waiting):
        os.utime(place / _LOCK)
        _sweep(place)
        _record(KeptRoom(place, str(common), check))
        try:
            yield CleanRoom(place, place / folder, here)
        except PlaybookError as error:
            full = os.strerror(errno.ENOSPC) in f"{error.message} {error.cause}"
            if not full and (not place.exists() or disk_usage(place).free >= _LEAST_SPACE):
                raise
            said = f"the disk is full on which {place} is"
            raise StorageError("PB-IO-WRITE", said, where=str(place), guidance=_FULL) from error
        finally:
            _record(KeptRoom(place, str(common), check, _size(place)))


@contextmanager
def _held(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    told = False
    with ExitStack() as held:
        while True:
            if cancel_requested():
                raise Interrupted
            try:
                files.ensure_folder(lock.parent)
                _require_own(lock.parent)
                held.enter_context(files.locked(lock, timeout=_SECONDS if told else 0))
                break
            except StateError as error:
                if error.code != "PB-STATE-BUSY":
                    raise
            except StorageError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                continue  # the room was removed meanwhile
            if not told:
                waiting()
            told = True
        yield


def _kept() -> list[KeptRoom]:
    kept = map(_read, rooms().iterdir()) if rooms().is_dir() else ()
    used = {each: files.written_at(each.place / _LOCK) for each in kept}
    return sorted(used, key=lambda each: (each.is_abandoned, -used[each]))


def _sweep(ours: Path) -> None:
    size = 0
    for number, each in enumerate(_kept(), 1):
        size += each.size
        too_much = number > MOST_ROOMS or size > MOST_BYTES
        if each.place != ours and (too_much or each.is_abandoned):
            _removed(each.place)


def _removed(place: Path) -> bool:
    """True if it was removed. It is renamed first, so that no check finds half a room."""
    away = place.with_name(f"{files.TEMPORARY}{os.urandom(8).hex()}")
    with suppress(PlaybookError):
        _require_own(place)
        with files.locked(place / _LOCK, timeout=0):
            if files.rename_folder(place, away):
                _make_removable(away)
                files.remove(away)
                return True
    return False


def _record(room: KeptRoom) -> None:
    """Record whose room it is, for its removal; a full disk is found by what follows."""
    shape = {"repository": room.repository, "check": room.check, "size": room.size}
    with suppress(PlaybookError):
        _require_own(room.place)
        files.write_atomically(room.place / _RECORD, json.dumps(shape).encode(), durable=False)


def _read(place: Path) -> KeptRoom:
    with suppress(*_DAMAGED):
        shape = json.loads(files.read_bytes(place / _RECORD, limit=_LARGEST))
        whose = str(shape["repository"]), str(shape["check"])
        return KeptRoom(place, *whose, int(str(shape["size"])) or _size(place))
    return KeptRoom(place, size=_size(place))


def _size(place: Path) -> int:
    size, folders = 0, [] if place.is_symlink() else [os.fspath(place)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    return size


def _require_own(place: Path) -> None:
    said, cure = f"{place} is not a folder of ours", "Remove it, and try again."
    refused = StorageError("PB-IO-WRITE", said, where=str(place), guidance=cure)
    try:
        found = place.lstat()
    except OSError as error:
        raise refused from error
    if not (stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()):
        raise refused


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
