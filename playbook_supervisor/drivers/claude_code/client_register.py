"""Which clients drive a session here, known outside of every repository.

The binding and its marker are in the git directory, which a worker can move away. So each client
whose hooks supervise a session is also registered in the user's state folder, in a file named by
its process. The hooks' script looks for that file, too. Its lines are the program, the session,
the Claude session, the birth of the process, and the root of the checkout.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.drivers.claude_code.marker import CLIENTS
from playbook_supervisor.errors import StorageError
from playbook_supervisor.records import Record
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import (
    content,
    ensure_folder,
    locked,
    read_bytes,
    remove,
    sweep,
    write_atomically,
)
from playbook_supervisor.system.process import ancestry

_LOCK = ".lock"
_FOLDER = CLIENTS.partition("/")[2]
_TURN = ".turn"  # the suffix of the file that says whose turn it is
_SCRIPT = ".sh"  # of the script that runs its hooks
_LINES = 5
_LARGEST = 10_000
_ONLY_THE_USER = 0o600


class Registration(Record):
    """A client, and what it drives. `root` is that of the checkout."""

    program: str
    session: str
    client: str
    born: str
    root: str


def register(pid: int, registered: Registration, script: bytes = b"") -> None:
    """Remember the client, and the script that runs its hooks from now on, if one is given: what
    happens to the project's changes nothing. StorageError PB-IO-WRITE where the user's state cannot
    be written."""
    if file := _file(pid):
        ensure_folder(file.parent)
        with locked(file.parent / _LOCK):
            _sweep(file.parent)
            remove(_turn(file))
            if script:
                copy = _beside(file, _SCRIPT)
                write_atomically(copy, script, durable=False, permissions=_ONLY_THE_USER)
            text = "\n".join([*(getattr(registered, key) for key in registered.__match_args__), ""])
            data = text.encode("utf-8", "surrogateescape")
            write_atomically(file, data, durable=False, permissions=_ONLY_THE_USER)


def registered(pid: int) -> Registration | None:
    """The session that the client drives; None without one, or if another process had its id."""
    file = _file(pid)
    found = _read(file) if file else None
    if file is None or found is None or ancestry.lives(pid, found.born):
        return found
    _remove(file)
    return None


def forget(session: str, root: Path) -> None:
    """Forget every client that drives this session of this checkout."""
    for file in _files():
        found = _read(file)
        if found is not None and (found.session, found.root) == (session, str(root)):
            _remove(file)


def release(pid: int) -> None:
    """Forget that client."""
    if file := _file(pid):
        _remove(file)


def can_register() -> bool:
    """True if clients can be registered, as far as that is known without writing."""
    file = _file(0)
    above = next((each for each in file.parents if each.exists()), None) if file else None
    return above is not None and above.is_dir() and os.access(above, os.W_OK)


# ── a person's turn while the record of the session is gone ─────────────────────────────────


def turn(pid: int) -> str:
    """Whose turn it is: `person`, or `told` once the person has been told; empty before."""
    file = _file(pid)
    return content(_turn(file)).decode("utf-8", "replace") if file else ""


def set_turn(pid: int, whose: str) -> None:
    """Keep it; empty: forget it."""
    if file := _file(pid):
        if not whose:
            remove(_turn(file))
            return
        with locked(file.parent / _LOCK):
            write_atomically(_turn(file), whose.encode(), durable=False)


# ── files ───────────────────────────────────────────────────────────────────────────────────


def _file(pid: int) -> Path | None:
    """The client's file; None where the hooks' script would look for none."""
    known = os.environ.get("HOME") or os.environ.get("XDG_STATE_HOME", "").startswith("/")
    return user_state.path(_FOLDER) / str(pid) if known else None


def _turn(file: Path) -> Path:
    return _beside(file, _TURN)


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(f"{file.name}{suffix}")


def _files() -> list[Path]:
    with suppress(OSError):
        return [each for each in user_state.path(_FOLDER).iterdir() if each.name.isdecimal()]
    return []


def _read(file: Path) -> Registration | None:
    try:
        text = read_bytes(file, limit=_LARGEST).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, StorageError):
        return None
    lines = text.removesuffix("\n").split("\n", _LINES - 1)
    return Registration(*lines) if len(lines) == _LINES else None


def _sweep(folder: Path) -> None:
    sweep(folder)
    for file in _files():
        found = _read(file)
        if found is None or not ancestry.lives(int(file.name), found.born):
            _remove(file)


def _remove(file: Path) -> None:
    for each in (file, _turn(file), _beside(file, _SCRIPT)):
        with suppress(StorageError):
            remove(each)
