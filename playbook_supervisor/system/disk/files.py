"""Files: atomic writes, digests, containment, locks and stamps.

The only module that writes the project's and the sessions' files. A write is a temporary file in
the same folder and a rename, so a reader sees the old content or the new one, never a mixture.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.records import Record

if TYPE_CHECKING:
    import hashlib


TEMPORARY = ".playbook-tmp-"
_SMALL = 1 << 15
_SHOWN = 200  # characters of a path that is none
_LEAST_SPACE = 1 << 20
_SHA2_MODULE = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
_IN_THE_WAY = "Move it away; `playbook repair {session} --restore` restores a session's files."

# ── writing ─────────────────────────────────────────────────────────────────────────────────


def write_atomically(
    path: Path, data: bytes, *, durable: bool = True, permissions: int | None = None
) -> None:
    """Replace the content of `path` wholly or not at all.

    An existing file keeps its permissions unless others are given; a symbolic link is replaced,
    never followed. With `durable`, content and name are on the disk when this returns. On failure:
    StorageError PB-IO-WRITE, with the old content unchanged and no temporary file left.
    """
    temporary = _temporary_in(path.parent)
    written = False
    try:
        _fill(temporary, data, permissions or _permissions(path), durable=durable)
        if durable:
            _replace_durably(temporary, path)
        else:
            os.replace(temporary, path)
        written = True
    except OSError as error:
        raise unwritable("cannot write", path, error) from error
    finally:
        if not written:
            with suppress(OSError):
                os.unlink(temporary)


def _temporary_in(folder: Path) -> str:
    return f"{folder}/{TEMPORARY}{os.urandom(8).hex()}"


def _permissions(path: Path) -> int | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _fill(temporary: str, data: bytes, permissions: int | None, *, durable: bool) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        if permissions is not None:
            os.fchmod(descriptor, permissions)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_durably(temporary: str, path: Path) -> None:
    """Rename and sync the folder; if that sync fails, put the old file back.

    After an error the new content must not appear later. A second name keeps the old inode
    meanwhile; on a file system without hard links the old file cannot be put back.
    """
    former = _temporary_in(path.parent)
    kept = False
    with suppress(OSError):
        os.link(path, former)
        kept = True
    existed = kept or os.path.lexists(path)
    try:
        os.replace(temporary, path)
        try:
            _sync_folder(path.parent)
        except OSError:
            if kept:
                os.replace(former, path)
            elif not existed:
                os.unlink(path)
            raise
    finally:
        if kept:
            with suppress(OSError):
                os.unlink(former)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


def require_space(folder: Path) -> None:
    """StorageError PB-IO-WRITE if hardly anything can be written to the disk of a folder."""
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        raise unwritable("cannot write in", folder, error) from error
    if disk.f_bavail * disk.f_frsize < _LEAST_SPACE:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise unwritable("cannot write in", folder, full)


def sweep(folder: Path) -> None:
    """Remove the temporary files of killed writers. The caller holds the lock of that folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(TEMPORARY):
                with suppress(OSError):
                    Path(entry.path).unlink()


# ── folders ─────────────────────────────────────────────────────────────────────────────────


def ensure_folder(path: Path) -> None:
    """Make `path` and its parents, durably; StorageError PB-IO-WRITE on failure."""
    try:
        missing = []
        folder = path
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)  # another process may be making it, too
            _sync_folder(folder.parent)
    except OSError as error:
        raise unwritable("cannot make the folder", folder, error) from error


def reserve_folder(path: Path) -> bool:
    """Make `path`, whose parent exists; False if it is there. Of several callers one gets True."""
    try:
        path.mkdir()
        _sync_folder(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise unwritable("cannot make the folder", path, error) from error
    return True


@contextmanager
def assembled(path: Path) -> Iterator[Path]:
    """A folder beside `path` to be filled; it is renamed to `path` at the end, durably.

    If that is never reached, there is no `path`, and the folder beside it is one of `unfinished`.
    StorageError PB-IO-WRITE, also if there is a `path` with something in it.
    """
    aside = path.with_name(f"{TEMPORARY}{path.name}")
    ensure_folder(path.parent)
    reserve_folder(aside)
    yield aside
    try:
        os.rename(aside, path)
        try:
            _sync_folder(path.parent)
        except OSError:
            os.rename(path, aside)
            raise
    except OSError as error:
        raise unwritable("cannot make the folder", path, error) from error


def put_aside(path: Path) -> None:
    """Make a folder one of `unfinished`, durably. StorageError PB-IO-WRITE."""
    try:
        os.rename(path, path.with_name(f"{TEMPORARY}{path.name}"))
        _sync_folder(path.parent)
    except OSError as error:
        raise unwritable("cannot remove", path, error) from error


def unfinished(folder: Path) -> Iterator[tuple[str, Path]]:
    """The folders that `assembled` did not finish here: the name it was to have, and its place."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(TEMPORARY):
                yield entry.name.removeprefix(TEMPORARY), Path(entry.path)


def rename_folder(path: Path, target: Path) -> bool:
    """Give a folder another name; False if that is impossible, across file systems for instance."""
    try:
        os.rename(path, target)
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it exists; symbolic links are not followed."""
    try:
        if path.is_dir() and not path.is_symlink():
            import shutil

            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ENAMETOOLONG):  # nothing has such a path
            raise unwritable("cannot remove", path, error) from error


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def read_bytes(path: Path, *, limit: int | None = None) -> bytes:
    """The content of a regular file of at most `limit` bytes; a pipe or a device is not waited for.

    FileNotFoundError passes through; anything else is StorageError PB-IO-READ.
    """
    try:
        descriptor = open_regular(path)
        if descriptor is None:
            said = f"{path} is not a regular file"
            raise StorageError("PB-IO-READ", said, where=str(path), guidance=_IN_THE_WAY)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read() if limit is None else file.read(limit + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if limit is not None and len(data) > limit:
        cure, said = "Make it smaller, or remove it.", f"{path} is larger than {limit:,} bytes"
        raise StorageError("PB-IO-READ", said, where=str(path), guidance=cure)
    return data


def content(path: Path, *, limit: int | None = None) -> bytes:
    """As `read_bytes`; empty if there is no such file."""
    try:
        return read_bytes(path, limit=limit)
    except FileNotFoundError:
        return b""


def written_at(path: Path) -> int:
    """When the file was written, in ns since the epoch; 0 if it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def open_regular(path: Path) -> int | None:
    """A descriptor, or None if `path` is something other than a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    summed = sha256(len(data))
    summed.update(data)
    return summed.hexdigest()


def sha256(size: int) -> hashlib._Hash:
    """A hash for `size` bytes: hashlib loads OpenSSL, which pays only for large data."""
    if size <= _SMALL:
        with suppress(ImportError):
            small: hashlib._Hash = __import__(_SHA2_MODULE).sha256()
            return small
    import hashlib

    return hashlib.sha256()


# ── containment ───────────────────────────────────────────────────────────────────


def contained(root: Path, relative: str) -> Path:
    """The real path of `root/relative`, which may not exist. PB-IO-ESCAPE if it is outside."""
    try:
        base = Path(os.path.realpath(root))
        resolved = Path(os.path.realpath(base / relative))
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            resolved.lstat()
    except (ValueError, OSError) as error:  # a NUL in it, or thousands of characters
        message = f"{relative[:_SHOWN]!r} is not a path"
        raise StorageError("PB-IO-ESCAPE", message, where=str(root)) from error
    if Path(relative).is_absolute() or not resolved.is_relative_to(base):
        message = f"{relative[:_SHOWN]!r} leads outside {base}"
        raise StorageError("PB-IO-ESCAPE", message, where=str(root))
    return resolved


def unwritable(what: str, path: Path, error: OSError) -> StorageError:
    """The error PB-IO-WRITE for what could not be done to a path, with its cure if one is known."""
    reason = error.strerror or str(error)
    cure = _IN_THE_WAY if error.errno in (errno.EISDIR, errno.EEXIST, errno.ENOTDIR) else ""
    said = f"{what} {path}: {reason}"
    return StorageError("PB-IO-WRITE", said, where=str(path), guidance=cure, cause=reason)


def unreadable(path: Path, error: OSError | ValueError) -> StorageError:
    """The error PB-IO-READ for a path that cannot be read."""
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    said = f"cannot read {str(path)!r}: {reason}"
    return StorageError("PB-IO-READ", said, where=str(path), cause=reason)


# ── locks ─────────────────────────────────────────────────────────────────────────────────────

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05  # seconds between two tries


@contextmanager
def locked(path: Path, *, timeout: float = 30.0) -> Iterator[None]:
    """Hold the lock file `path`, against other processes and other threads.

    The file has no other purpose and is never replaced, since a lock belongs to an inode. The
    operating system frees it when its holder dies. StateError PB-STATE-BUSY after `timeout` s.
    """
    deadline = time.monotonic() + timeout
    descriptor = None
    pause = _FIRST_PAUSE
    try:
        while (descriptor := _try_lock(path)) is None:
            if time.monotonic() >= deadline:
                said = f"another process has held {path} for {timeout:g} seconds"
                raise StateError("PB-STATE-BUSY", said, where=str(path))
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
    except OSError as error:
        raise unwritable("cannot lock", path, error) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # If the file was removed since it was opened, this lock protects nothing.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


# ── stamps: whether a file was written between two looks ──────────────────────────────────────

_CHUNK = 1 << 20


class Stamp(Record):
    """Tells whether a file was written again.

    Inode and time detect a rewrite with the same content, the digest one that reset the time. A
    stamp that was made on another machine has the digest alone, and inode and time 0.
    """

    inode: int
    mtime_ns: int
    digest: str

    @classmethod
    def of_content(cls, digest: str) -> Stamp:
        return cls(0, 0, digest)

    @property
    def portable(self) -> bool:
        return self.inode == 0

    def as_list(self) -> list[int | str]:
        return [self.inode, self.mtime_ns, self.digest]

    @classmethod
    def from_list(cls, values: Sequence[object]) -> Stamp:
        """The stamp of `as_list`; StateError PB-STATE-CORRUPT for anything else."""
        match values:
            case [int() as inode, int() as mtime_ns, str() as of_content]:
                return cls(inode, mtime_ns, of_content)
        raise StateError("PB-STATE-CORRUPT", "a recorded stamp has the wrong form")


def rewritten(before: Stamp | None, now: Stamp | None) -> bool:
    """True if a file was written between two stamps of it; None if it was absent."""
    if before is not None and now is not None and before.portable:
        return before.digest != now.digest
    return before != now


def stamp(path: Path) -> Stamp | None:
    """The present stamp of a regular file; None if there is none (absent, a folder, …)."""
    try:
        descriptor = open_regular(path)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            summed = sha256(status.st_size)
            while chunk := file.read(_CHUNK):
                summed.update(chunk)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    return Stamp(status.st_ino, status.st_mtime_ns, summed.hexdigest())
