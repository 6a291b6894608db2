"""The checkout of a folder: its git directory, branch and commit, by reading `.git`.

It reads a few small files and starts no process. Only the folder counts, not the environment, so
`GIT_DIR` and the like have no effect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.records import Record, replace
from playbook_supervisor.system.disk.files import content, digest, read_bytes

_SMALL = 1 << 16
_PACKED = 1 << 26
_LEVELS = 5  # git follows as many symbolic references
_IDENTITY_LENGTH = 12

_REFERENCE = rb"ref:\s*(refs/[^\x00-\x20\x7f~^:?*\[\\]+)\s*"
_ORIGIN = "refs/remotes/origin/"
_REFTABLE = b"refs/heads/.invalid"


class Checkout(Record):
    """A working tree of a repository: the main one, a linked worktree, or a submodule.

    `branch` is empty when detached, `head` before the first commit. Both are empty if the
    repository keeps its references in a reftable, which only git can read.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    branch: str
    head: str

    @property
    def runtime(self) -> Path:
        """The folder of this checkout's runtime state: never committed, removed with a worktree."""
        return self.git_dir / "playbook"

    @property
    def ids(self) -> Path:
        """The folder in which session ids are reserved for all worktrees."""
        return self.common_dir / "playbook" / "ids"

    @property
    def identity(self) -> str:
        """A short id of this checkout on this machine, which a clone or a copy does not share.

        It is not stored, so that it cannot be lost.
        """
        facts = (_machine(), os.fspath(self.git_dir), str(self.git_dir.stat().st_ino))
        return digest("\n".join(facts).encode())[:_IDENTITY_LENGTH]

    @property
    def key(self) -> str:
        """A short id of this repository on this machine, which all of its worktrees share."""
        place = os.path.realpath(self.common_dir)
        return digest(os.fsencode(place))[:_IDENTITY_LENGTH]

    @property
    def main_root(self) -> Path:
        """The root of the main checkout; of a bare repository, that repository itself."""
        if self.git_dir == self.common_dir:
            return self.root
        if self.common_dir.name == ".git":
            return self.common_dir.parent
        elsewhere = _core(self.common_dir).get("worktree", "")  # a submodule's
        return Path(os.path.realpath(self.common_dir / elsewhere))


class Pinned(Record):
    """The rules, commit and tree of a session's beginning, so that nothing can be hidden later.

    `rules` stand for the ignore rules outside the tree; empty for those that hold now. What the
    commit `head` contains is never ignored (`tree.py`). `tree` is empty if it is not known.
    `search_path` is PATH for checks in clean rooms; empty for that of the process.
    """

    rules: str = ""
    head: str = ""
    tree: str = ""
    search_path: str = ""


NOW = Pinned()


def current_folder() -> Path:
    """The current folder. StateError if it has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise StateError(
            "PB-STATE-NO-REPOSITORY",
            "the current folder no longer exists",
            guidance="Change to one that does.",
        ) from error


def find(start: Path) -> Checkout:
    """The checkout that contains the folder `start`.

    StateError PB-STATE-TAMPERED if its settings are read from elsewhere, as git never arranges it;
    StateError PB-STATE-NO-REPOSITORY if there is none, in a bare repository, inside a git
    directory, and if `.git` points nowhere; StorageError PB-IO-READ if it cannot be read.
    """
    try:
        if not start.is_dir():
            raise _no_repository(f"there is no folder {str(start)!r}")
        git_dir, root = _nearest(Path(os.path.realpath(start)))
        common_dir = _common(git_dir)
        if git_dir == root / ".git" and common_dir != git_dir:
            raise _misled(git_dir, common_dir)
        bare = _core(common_dir).get("bare", "").lower() if git_dir == common_dir else ""
        if bare in {"true", "yes", "on", "1"}:
            raise _no_repository(f"{git_dir} is a bare repository, where nothing is checked out")
        return Checkout(root, git_dir, common_dir, *_head(git_dir, common_dir))
    except OSError as error:
        raise _unreadable(start, error) from error


def shared_settings(start: Path) -> Path:
    """The settings that the worktrees of a repository share. Errors as `find`."""
    try:
        git_dir, _ = _nearest(Path(os.path.realpath(start)))
    except OSError as error:
        raise _unreadable(start, error) from error
    return _common(git_dir) / "config"


def refreshed(known: Checkout) -> Checkout:
    """The same checkout with its present branch and commit. Errors as `find`, if it is gone."""
    if not (os.path.lexists(f"{known.root}/.git") and os.path.lexists(f"{known.git_dir}/HEAD")):
        return find(known.root)
    try:
        branch, head = _head(known.git_dir, known.common_dir)
    except OSError as error:
        raise _unreadable(known.root, error) from error
    return replace(known, branch=branch, head=head)


def tip(here: Checkout, branch: str) -> str:
    """The commit of a local branch; empty if there is no such branch. StorageError PB-IO-READ."""
    return _tip(here, f"refs/heads/{branch}")


def default_of_origin(here: Checkout) -> str:
    """The default branch of `origin`, as it was when it was cloned; empty if it is not known."""
    symbolic = re.fullmatch(_REFERENCE, _small(here.common_dir / f"{_ORIGIN}HEAD") or b"")
    target = os.fsdecode(symbolic[1]) if symbolic else ""
    return target.removeprefix(_ORIGIN) if target and _tip(here, target) else ""


def _tip(here: Checkout, reference: str) -> str:
    name = os.fsencode(reference)
    if not re.fullmatch(_REFERENCE, b"ref: " + name) or b".." in name:
        return ""
    try:
        content = _small(here.common_dir / os.fsdecode(name))
        return _commit(_packed(here.common_dir, name) if content is None else content)
    except OSError as error:
        raise _unreadable(here.root, error) from error


def rebased(here: Checkout) -> str:
    """The branch that a rebase under way in this checkout is going to move; empty without one."""
    for place in ("rebase-merge", "rebase-apply"):
        name = _small(here.git_dir / place / "head-name")
        if name is not None and name.startswith(b"refs/heads/"):
            return name.rstrip().removeprefix(b"refs/heads/").decode("utf-8", "replace")
    return ""


def branch_log(here: Checkout) -> Iterator[tuple[int, str, str]]:
    """Git's log of the branch that is checked out, oldest first; nothing where there is none.

    Each entry is its time in ms, the commit before it (zeros where there was none), its message.
    """
    try:
        with (here.common_dir / "logs/refs/heads" / here.branch).open("rb") as log:
            for line in log:
                about, _, message = line.rstrip().partition(b"\t")
                words = about.split()
                if len(words) > 4 and words[-2].isdigit():
                    before = words[0].decode("ascii", "replace")
                    yield int(words[-2]) * 1000, before, message.decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return
    except OSError as error:
        raise _unreadable(here.root, error) from error


def worktrees(here: Checkout) -> tuple[Path, ...]:
    """The folders of the main checkout, even if bare, and of the linked worktrees, even if gone."""
    return (here.main_root, *(root for _, root in _linked(here)))


def others(here: Checkout) -> Iterator[Checkout]:
    """The other checkouts of the repository, as far as they can be read."""
    for root in worktrees(here):
        try:
            other = find(root)
        except PlaybookError:
            continue  # its folder is gone, or the repository is bare
        if other.common_dir == here.common_dir and other.root != here.root:
            yield other


def lost_worktrees(here: Checkout) -> tuple[Checkout, ...]:
    """The linked worktrees whose folder was removed, as far as git still knows their branch."""
    found = []
    for folder, root in _linked(here):
        if not os.path.lexists(root / ".git") and (folder / "HEAD").is_file():
            with suppress(OSError, PlaybookError):
                head = _head(folder, here.common_dir)
                found.append(Checkout(root, folder, here.common_dir, *head))
    return tuple(found)


def _linked(here: Checkout) -> list[tuple[Path, Path]]:
    linked = here.common_dir / "worktrees"
    try:
        folders = sorted(linked.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(linked, error) from error
    pointers = ((folder, _small(folder / "gitdir")) for folder in folders if folder.is_dir())
    known = ((folder, folder / _path(pointer)) for folder, pointer in pointers if pointer)
    return [(folder, Path(os.path.realpath(place.parent))) for folder, place in known]


def _nearest(folder: Path) -> tuple[Path, Path]:
    for root in (folder, *folder.parents):
        git_dir = _git_directory(root)
        if git_dir is not None:
            return git_dir, root
        if _is_git_directory(root, root):
            said = f"{folder} is inside a git directory, where nothing is checked out"
            raise _no_repository(said)
    raise _no_repository(f"{folder} is not in a git repository")


def _git_directory(root: Path) -> Path | None:
    entry = root / ".git"
    if entry.is_dir():
        git_dir = Path(os.path.realpath(entry))
        return git_dir if _is_git_directory(git_dir, git_dir) else None  # as git does
    pointer = _small(entry)
    if pointer is None:
        return None
    git_dir = Path(os.path.realpath(root / _path(pointer.removeprefix(b"gitdir:"))))
    if not pointer.startswith(b"gitdir:") or not _is_git_directory(git_dir, _common(git_dir)):
        raise _no_repository(f"{entry} does not point to a git directory")
    return git_dir


def _misled(git_dir: Path, common_dir: Path) -> StateError:
    file = git_dir / "commondir"
    said = f"{file} lets git read its settings from {common_dir}, and git never makes such a file"
    cure = "Look at it, and remove it before you use git here."
    return StateError("PB-STATE-TAMPERED", said, where=str(file), guidance=cure)


def _is_git_directory(folder: Path, common: Path) -> bool:
    there = (folder / "HEAD").is_file()
    return there and (common / "objects").is_dir() and (common / "refs").is_dir()


def _common(git_dir: Path) -> Path:
    pointer = _small(git_dir / "commondir")
    return git_dir if pointer is None else Path(os.path.realpath(git_dir / _path(pointer)))


def _head(git_dir: Path, common_dir: Path) -> tuple[str, str]:
    """Branch and commit; symbolic references are followed as git does."""
    content = _small(git_dir / "HEAD")
    name = b""
    for _ in range(_LEVELS):
        symbolic = re.fullmatch(_REFERENCE, content or b"")
        if symbolic is None or b".." in symbolic[1]:
            break
        name = symbolic[1]
        if name == _REFTABLE:
            return "", ""
        content = _small(common_dir / os.fsdecode(name))
    if content is None:
        content = _packed(common_dir, name)
    in_heads = name.startswith(b"refs/heads/")
    branch = name.removeprefix(b"refs/heads/").decode("utf-8", "replace") if in_heads else ""
    return branch, _commit(content)


def _commit(content: bytes) -> str:
    commit = content.rstrip()
    if len(commit) not in (40, 64) or commit.strip(b"0123456789abcdef"):
        return ""
    return commit.decode()


def _packed(common_dir: Path, name: bytes) -> bytes:
    packed = content(common_dir / "packed-refs", limit=_PACKED)
    before, found, _ = packed.partition(b" " + name + b"\n")
    return before.rpartition(b"\n")[2] if found else b""


def _core(git_dir: Path) -> dict[str, str]:
    """The settings of section `[core]`, names in lower case; includes are ignored."""
    settings: dict[str, str] = {}
    section = ""
    for line in (_small(git_dir / "config") or b"").decode("utf-8", "replace").splitlines():
        setting = line.strip()
        if setting.startswith("["):
            section, _, setting = setting[1:].partition("]")
        setting = setting.partition("#")[0].partition(";")[0]
        name, given, value = setting.partition("=")
        if section.strip().lower() == "core" and name.strip():
            settings[name.strip().lower()] = value.strip().strip('"') if given else "true"
    return settings


def _machine() -> str:
    known = b""
    with suppress(PlaybookError):
        known = _small(Path("/etc/machine-id")) or b""
    return known.decode("ascii", "replace").strip() or os.uname().nodename


def _small(path: Path) -> bytes | None:
    if path.is_dir():  # git leaves empty folders in place of removed references
        return None
    try:
        content = read_bytes(path, limit=_SMALL)
    except FileNotFoundError:
        return None
    if b"\0" in content:
        raise _no_repository(f"{path} is damaged")
    return content


def _path(content: bytes) -> str:
    return os.fsdecode(content.strip(b"\r\n").lstrip(b" "))


def _unreadable(start: Path, error: OSError) -> StorageError:
    said = f"cannot read {str(start)!r}: {error.strerror}"
    return StorageError("PB-IO-READ", said, where=str(start))


def _no_repository(message: str) -> StateError:
    return StateError("PB-STATE-NO-REPOSITORY", message)
