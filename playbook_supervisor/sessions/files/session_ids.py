"""Session ids: reserving a new one, listing those of a folder, and the references of sessions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.timestamps import from_time, to_time
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.system.disk.files import ensure_folder, reserve_folder

REF = "refs/playbook/sessions/{id}"
"""The reference of a session's snapshots at a remote."""
FALLBACK_REF = "refs/heads/playbook-sessions/{id}"
"""Where a session is if the forge refuses the namespace of `REF`."""
REF_FOLDERS = (REF.removesuffix("{id}"), FALLBACK_REF.removesuffix("{id}"))

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_TWO_DAYS = 2 * 86_400  # seconds


def reserve(ids: Path, now: int, taken: Callable[[str], bool]) -> str:
    """Reserve an id that no worktree of the repository has; mkdir in `ids` decides collisions.

    `now` is ms since the epoch.
    """
    day = to_time(now)[:10].replace("-", "")
    ensure_folder(ids)
    while True:
        tail = "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(3))
        session_id = f"{day}-{tail}"
        if reserve_folder(ids / session_id) and not taken(session_id):
            return session_id


def names(folder: Path) -> list[str]:
    """The ids that have an entry in the folder, oldest first."""
    try:
        return sorted(path.name for path in folder.iterdir() if SESSION_ID.match(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def valid(session_id: str) -> str:
    """The id. StateError PB-STATE-NO-SESSION if it is none; ids become paths."""
    if not SESSION_ID.match(session_id):
        raise StateError(
            "PB-STATE-NO-SESSION",
            f"{session_id[:40]!r} is neither a session id, such as 20260219-a7k, nor a part of one",
            guidance="`playbook status --all` lists the sessions.",
        )
    return session_id


def unknown(session_id: str) -> StateError:
    """The error for a session that is not here."""
    return StateError(
        "PB-STATE-NO-SESSION",
        f"there is no session {session_id} here",
        guidance="`playbook status --all` lists the sessions.",
    )


def earliest(session_id: str) -> int:
    """A time before every commit of the session, in seconds: two days before the date of its id."""
    day = from_time(f"{session_id[:4]}-{session_id[4:6]}-{session_id[6:8]}T00:00:00Z")
    return max(0, (day or 0) // 1000 - _TWO_DAYS)
