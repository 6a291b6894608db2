"""Untracked files, read as git would show them in a diff, within limits of size and time.

No symbolic link is followed, in no part of a path: an agent may put one anywhere.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from playbook_supervisor.formats.file_changes import BINARY, MODES, FileChange
from playbook_supervisor.records import Record

LARGEST = 8 << 20
"""Bytes of a file; a larger one is not compared."""
TOO_LARGE = "too large to compare"

_MOST_BYTES = 128 << 20
_SECONDS = 3.0
_LOOKED_AT = 8_000  # bytes in which git looks for a NUL
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_REPOSITORY, _UNREADABLE, _UNREAD = "repository of its own", "cannot be read", "not read"


class _Content(Record):
    mode: str
    data: bytes | None
    note: str = ""


def counted_files(root: Path, names: Sequence[str]) -> tuple[tuple[FileChange, ...], bool]:
    """Each new file with the number of its lines, and whether all of them were read.

    At most 128 MB are read, and for three seconds; the rest is noted as `not read`.
    """
    ends, room = time.monotonic() + _SECONDS, _MOST_BYTES
    files = []
    for name in names:
        if room <= 0 or time.monotonic() > ends:
            files.append(FileChange(name, kind="new", notes=(_UNREAD,)))
            continue
        content = _content(root, name)
        room -= len(content.data or b"")
        files.append(_counted(name, content))
    return tuple(files), not any(_UNREAD in file.notes for file in files)


def as_diff(root: Path, names: Sequence[str]) -> Iterator[str]:
    """The lines of git's unified diff for new files, which are read one after the other."""
    for name in names:
        content = _content(root, name)
        yield f"diff --git a/{name} b/{name}"
        yield f"new file mode {content.mode}"
        if content.data:
            yield "--- /dev/null"
            yield f"+++ b/{name}\t"
            yield f"@@ -0,0 +1,{_lines(content.data)} @@"
            lines = content.data.decode(errors="replace").split("\n")
            last = lines.pop()
            yield from ("+" + line.removesuffix("\r") for line in lines)
            if last:
                yield f"+{last}"
                yield "\\ No newline at end of file"


def _counted(name: str, content: _Content) -> FileChange:
    notes = filter(None, (content.note, MODES.get(content.mode, "")))
    return FileChange(name, kind="new", added=_lines(content.data or b""), notes=tuple(notes))


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)


def _content(root: Path, name: str) -> _Content:
    """Without data if it is binary, too large or unreadable; a link's data are its target."""
    if name.endswith("/"):
        return _Content("160000", None, _REPOSITORY)
    *folders, leaf = name.split("/")
    folder = -1
    try:
        folder = os.open(root, _FOLDER)
        for each in folders:
            inner = os.open(each, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return _Content("120000", os.fsencode(os.readlink(leaf, dir_fd=folder)))
        mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
        if status.st_size > LARGEST:
            return _Content(mode, None, TOO_LARGE)
        with os.fdopen(os.open(leaf, _READ, dir_fd=folder), "rb") as file:
            data = file.read(LARGEST)
    except (OSError, ValueError):  # ValueError: no path at all
        return _Content("100644", None, _UNREADABLE)
    finally:
        if folder >= 0:
            os.close(folder)
    binary = b"\0" in data[:_LOOKED_AT]
    return _Content(mode, None, BINARY) if binary else _Content(mode, data)
