"""Stamps: whether a file was written between two looks at it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.records import Record
from playbook_supervisor.system.disk.files import open_regular, sha256, unreadable

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
        """The stamp of a file on another machine."""
        return cls(0, 0, digest)

    @property
    def portable(self) -> bool:
        """True if only the content is known."""
        return self.inode == 0

    def as_list(self) -> list[int | str]:
        """Its form in JSON: inode, mtime in ns, digest."""
        return [self.inode, self.mtime_ns, self.digest]

    @classmethod
    def from_list(cls, values: Sequence[object]) -> Stamp:
        """The stamp of such a list; StateError PB-STATE-CORRUPT for anything else."""
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
