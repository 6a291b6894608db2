"""A growing text file of bounded size: its beginning and its end are kept.

Lines are appended in place and not synced, for nothing depends on them. When the file has grown too
long, it is replaced by its head, a mark and its tail; a reader that follows it continues there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically

HEAD = TAIL = 256 * 1024  # bytes that are kept of the beginning and of the end

_MARK = b"\n[\xe2\x80\xa6 %d bytes left out \xe2\x80\xa6]"
_MARKED = rb"\n\[\xe2\x80\xa6 (\d{1,20}) bytes left out \xe2\x80\xa6\] *\n"
_MARK_SIZE = 64  # with blanks and a line end, for any number of bytes
_CUT_SIZE = HEAD + _MARK_SIZE + TAIL
_LARGEST = _CUT_SIZE + TAIL
"""The file is cut again when its end has doubled, so that cutting stays rare."""


class LogFile:
    """Writes one log, and continues the one that is there. A full disk ends it and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size, self._omitted = 0, 0
        self._descriptor = -1
        with suppress(PlaybookError, OSError):
            ensure_folder(path.parent)
            try:
                self._descriptor = self._open()
                self._size, self._omitted = _state(path)
            except FileNotFoundError:
                write_atomically(path, b"", durable=False)
                self._descriptor = self._open()

    def add(self, line: str) -> None:
        """Append a line; it is in the file when this returns."""
        if self._descriptor < 0:
            return
        data = f"{line}\n".encode(errors="replace")
        try:
            self._size += os.write(self._descriptor, data)
            if self._size > _LARGEST:
                self._cut()
        except (PlaybookError, OSError):
            self.close()

    def close(self) -> None:
        """Stop writing; further lines are dropped."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _cut(self) -> None:
        data = read_bytes(self._path)
        marked = HEAD + (_MARK_SIZE if self._omitted else 0)
        self._omitted += len(data) - TAIL - marked
        mark = (_MARK % self._omitted).ljust(_MARK_SIZE - 1) + b"\n"
        cut = data[:HEAD] + mark + data[-TAIL:]
        write_atomically(self._path, cut, durable=False)
        os.close(self._descriptor)
        self._descriptor = self._open()
        self._size = len(cut)


def put(path: Path, data: bytes, at: int) -> None:
    """Write these bytes at this place of the file, not synced; a full disk may leave them out."""
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
        try:
            os.pwrite(descriptor, data, at)
        finally:
            os.close(descriptor)


def whole(path: Path) -> str:
    """The content of the log; FileNotFoundError if there is none."""
    return read_bytes(path).decode("utf-8", "replace")


def last_part(path: Path, size: int) -> str:
    """About the last `size` bytes of the log; empty if there is none."""
    try:
        with path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - size))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""


def followed(path: Path, ended: Callable[[], bool], wait: Callable[[], None]) -> Iterator[str]:
    """The log's complete lines as they are written, until `ended`; `wait` between two readings."""
    rest = b""
    log = path.open("rb")
    try:
        while True:
            over = ended()  # before reading, so that what was written until then is read
            rest += log.read()
            *lines, rest = rest.split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
            if _replaced(log.fileno(), path):
                log.close()
                log = path.open("rb")
                log.seek(_CUT_SIZE)
            elif over:
                break
            else:
                wait()
        if rest:
            yield rest.decode("utf-8", "replace")
    finally:
        log.close()


def _state(path: Path) -> tuple[int, int]:
    with path.open("rb") as log:
        log.seek(HEAD)
        said = re.match(_MARKED, log.read(_MARK_SIZE))
        return log.seek(0, os.SEEK_END), int(said[1]) if said else 0


def _replaced(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino != path.stat().st_ino
    except OSError:
        return False
