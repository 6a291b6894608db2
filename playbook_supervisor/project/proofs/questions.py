"""The questions about changed tests: the lines that a person reads, kept under their digest.

A question is kept in the runtime state of the checkout where it arose. It does not travel with the
session: elsewhere the next check asks it again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.formats.sanitize import counted, printable
from playbook_supervisor.system.disk.files import (
    digest,
    ensure_folder,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.git import checkout

_DIGITS = 24
_MOST_QUESTIONS = 64  # the oldest others are removed
_MOST_LINES = 500
_LONGEST = 400  # characters of a line
_MOST_BYTES = 1 << 20


def keep_question(root: Path, lines: Sequence[str]) -> str:
    """Keep the lines, harmless and cut, and return their digest.

    The digest is that of all that was given: what was cut or made harmless counts, so that an
    accepted change is no other one that looks alike.
    """
    data = "\n".join([_digest_of(lines), *_shown(lines)]).encode()
    name = _name(data)
    folder = _folder(root)
    ensure_folder(folder)
    write_atomically(folder / name, data)
    _remove_oldest(folder, name)
    return name


def question(root: Path, name: str) -> tuple[str, ...]:
    """The lines that were kept under this digest; empty if there are none, or they were changed."""
    if not re.fullmatch(f"[0-9a-f]{{{_DIGITS}}}", name):
        return ()
    try:
        data = read_bytes(_folder(root) / name, limit=_MOST_BYTES)
    except (FileNotFoundError, StorageError):
        return ()
    return tuple(data.decode().split("\n")[1:]) if _name(data) == name else ()


def _folder(root: Path) -> Path:
    return checkout.find(root).runtime / "questions"


def _name(data: bytes) -> str:
    return digest(data)[:_DIGITS]


def _digest_of(lines: Sequence[str]) -> str:
    each = (digest(line.encode("utf-8", "surrogatepass")) for line in lines)
    return digest("\n".join(each).encode())


def _shown(lines: Sequence[str]) -> list[str]:
    kept = [_cut(printable(line)) for line in lines[:_MOST_LINES]]
    left_out = len(lines) - len(kept)
    return [*kept, f"… {counted(left_out, 'more line')}"] if left_out else kept


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _remove_oldest(folder: Path, but: str) -> None:
    with suppress(OSError), os.scandir(folder) as found:
        others = [(each.stat().st_mtime_ns, each.name) for each in found if each.name != but]
        for _, name in sorted(others, reverse=True)[_MOST_QUESTIONS - 1 :]:
            with suppress(StorageError):  # another process may be removing it, too
                remove(folder / name)
