"""A small content in two files: each write replaces the older one, in place and durably.

For what changes at every step: it takes a fifth of the time of replacing a file. A digest detects a
write that was cut off; then the other file, which that write did not touch, counts. Callers hold a
lock, and nothing else reads or writes these files.
"""

from __future__ import annotations

import os
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.records import Record, field
from playbook_supervisor.system.disk.files import digest, read_bytes, unwritable, write_atomically

_HEADER_SIZE = 112
"""Bytes before the content: turn, length and digest, padded with blanks to a line."""


class ABFile(Record, frozen=False):
    """The files `path-0` and `path-1`. `turn` counts the writes; it is 0 before the first.

    `content` is what was last read or written here. `damaged`: when it was read, one of the files
    was not complete, or a folder, or missing although both had been written. `headers` are those of
    the two files then, None for a file that is not there.
    """

    path: Path
    turn: int = field(default=0, init=False)
    content: bytes = field(default=b"", init=False)
    damaged: bool = field(default=False, init=False)
    headers: list[bytes | None] = field(default_factory=lambda: [None, None], init=False)

    @property
    def exists(self) -> bool:
        """True if a write was at least begun."""
        return any(os.path.lexists(self._file(turn)) for turn in (0, 1))

    def read(self) -> bytes | None:
        """The last complete content, or None. StorageError PB-IO-READ."""
        datas = [_read(Path(self._file(turn))) for turn in (0, 1)]
        self.headers = [None if data is None else data[:_HEADER_SIZE] for data in datas]
        complete = list(filter(None, (_complete(data or b"") for data in datas)))
        self.turn, content = max(complete, default=(self.turn, None))
        other = os.path.lexists(self._file(self.turn + 1))
        self.damaged = len(complete) == 1 and (other or self.turn > 1)
        if content is not None:
            self.content = content
        return content

    def write(self, content: bytes) -> None:
        """Replace the older content; the new one is on the disk when this returns.

        StorageError PB-IO-WRITE; the last content then still counts.
        """
        turn = self.turn + 1
        data = _header(turn, content) + content
        file = self._file(turn)
        if os.path.lexists(file):
            _overwrite(file, data)
        else:
            write_atomically(Path(file), data)
        self.turn, self.content = turn, content
        self.headers[turn % 2] = data[:_HEADER_SIZE]

    @property
    def unchanged(self) -> bool:
        """True if no process has written since this object last read or wrote.

        The next write, by whichever process, begins with the file that is not the newest.
        """
        oldest = self.turn + 1
        there = os.path.lexists(self._file(self.turn)) == (self.headers[self.turn % 2] is not None)
        return there and _read_header(self._file(oldest)) == self.headers[oldest % 2]

    def _file(self, turn: int) -> str:
        return f"{self.path}-{turn % 2}"


def _header(turn: int, content: bytes) -> bytes:
    checksum = digest(b"%d\n%b" % (turn, content))
    return f"{turn} {len(content)} {checksum}".ljust(_HEADER_SIZE - 1).encode() + b"\n"


def _read(file: Path) -> bytes | None:
    """The bytes of the file: none of a folder, None where nothing is."""
    try:
        return read_bytes(file)
    except FileNotFoundError:
        return None
    except StorageError:
        if file.is_dir():
            return b""
        raise


def _complete(data: bytes) -> tuple[int, bytes] | None:
    """Turn and content, if complete. Bytes after the content are left from a longer one."""
    try:
        turn, length = map(int, data[:_HEADER_SIZE].split()[:2])
    except ValueError:
        return None
    content = data[_HEADER_SIZE : _HEADER_SIZE + length]
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
        raise unwritable("cannot write", Path(file), error) from error


def _read_header(file: str) -> bytes | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _HEADER_SIZE)
    except OSError:  # it is a folder
        return b""
    finally:
        os.close(descriptor)
