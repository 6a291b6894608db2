"""One small content in two files: each write overwrites the older one, in place and durably.

For what changes at every step: it costs a fifth of replacing a file. A write that was cut off is
known by its digest, and then the other file, which it left alone, counts. The caller holds a
lock; nobody else reads or writes these files.
"""

from __future__ import annotations

import os
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.records import Record, field
from playbook_supervisor.system.files import digest, read_bytes, write_atomically

_HEADER = 112
"""Bytes before the content: its turn, its length and its digest, blanks, a line's end."""


class ABFile(Record, frozen=False):
    """The files `path-0` and `path-1`. `turn` counts the writes; 0 before the first."""

    path: Path
    turn: int = field(default=0, init=False)

    @property
    def exists(self) -> bool:
        """Whether anything was written, or begun to be written, here."""
        return any(os.path.lexists(self._file(turn)) for turn in (0, 1))

    def read(self) -> bytes | None:
        """The last content that was written whole, or None. StorageError PB-IO-READ."""
        found = [whole for turn in (0, 1) if (whole := _read(Path(self._file(turn))))]
        if not found:
            return None
        self.turn, content = max(found)
        return content

    def write(self, content: bytes) -> None:
        """Put `content` in place of the older one; it is on the disk when this returns.

        StorageError PB-IO-WRITE, and then the last content still counts.
        """
        turn = self.turn + 1
        framed = _header(turn, content) + content
        file = self._file(turn)
        if os.path.lexists(file):
            _overwrite(file, framed)
        else:
            write_atomically(Path(file), framed)
        self.turn = turn

    def look(self) -> tuple[bytes | None, ...]:
        """What changes with every write of anybody."""
        return tuple(_begin(self._file(turn)) for turn in (0, 1))

    def _file(self, turn: int) -> str:
        return f"{self.path}-{turn % 2}"


def _header(turn: int, content: bytes) -> bytes:
    summed = digest(b"%d\n%b" % (turn, content))
    return f"{turn} {len(content)} {summed}".ljust(_HEADER - 1).encode() + b"\n"


def _read(file: Path) -> tuple[int, bytes] | None:
    """Turn and content, if they were written whole. What is longer was longer before."""
    try:
        data = read_bytes(file)
    except FileNotFoundError:
        return None
    try:
        turn, length = map(int, data[:_HEADER].split()[:2])
    except ValueError:
        return None
    content = data[_HEADER : _HEADER + length]
    return (turn, content) if data.startswith(_header(turn, content)) else None


def _overwrite(file: str, data: bytes) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot write {file}: {reason}"
        raise StorageError("PB-IO-WRITE", message, where=file, cause=reason) from error


def _begin(file: str) -> bytes | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _HEADER)
    finally:
        os.close(descriptor)
