"""The check of a session of which this checkout knows nothing, or nothing certain, but should.

Runtime state that is missing in another clone is normal. Here it is evidence: something removed or
damaged it, and the session's files may have been changed as well. A person has to look at them.
What another clone began is taken up as it is, unless a branch has a newer copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.sessions.files import integrity
from playbook_supervisor.sessions.files.local_state import JOURNAL, Runtime
from playbook_supervisor.sessions.files.manifest import Manifest, earliest_beginning
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import digest, read_bytes
from playbook_supervisor.system.git.checkout import Checkout

_TRACES = (JOURNAL, "claude.json")  # local files that are written only after a runtime state


def recorded(place: ABFile) -> Runtime | None:
    """The runtime state, or None if there is none that can be read. StateError PB-STATE-NEWER."""
    try:
        return Runtime.load(place)
    except StateError as error:
        if error.code == "PB-STATE-NEWER":
            raise
        return None


def doubt(here: Checkout, place: ABFile, folder: Path, manifest: Callable[[], Manifest]) -> str:
    """The fault of the runtime state: `missing`, `damaged` or none. It is damaged if the
    journal is newer than what can be read of it; a killed writer leaves one that is known."""
    runtime = recorded(place)
    if runtime is not None:
        return "damaged" if place.damaged and not _knows_journal(runtime, folder) else ""
    if place.exists:
        return "damaged"
    return "missing" if _began_here(here, manifest(), place.path.parent) else ""


def unconfirmed(session_id: str, doubted: str, private: Path) -> StateError:
    """The error until a person has looked at the session."""
    said = f"the runtime state of session {session_id} is {doubted}, so nothing proves its files"
    return StateError("PB-STATE-UNCONFIRMED", said, where=str(private))


def require_newest(here: Checkout, folder: Path) -> None:
    """StateError PB-STATE-OLDER if a branch has a newer journal: what it settled would be
    redone."""
    from playbook_supervisor.sessions.files.merging import is_older
    from playbook_supervisor.system.git.git_history import on_branches

    ours = integrity.read_file(folder, JOURNAL)
    relative = (folder / JOURNAL).relative_to(here.root).as_posix()
    since = earliest_beginning(folder.name)
    for branch, theirs in on_branches(here.root, f":(top,literal){relative}", since):
        if theirs != ours and is_older(ours, theirs):
            said = f"session {folder.name} is further on branch {first_line(branch)}"
            raise StateError("PB-STATE-OLDER", said, where=relative)


def _knows_journal(runtime: Runtime, folder: Path) -> bool:
    try:
        return runtime.ours(JOURNAL, digest(read_bytes(folder / JOURNAL)))
    except FileNotFoundError:
        return True  # it is restored from its copy, and compared


def _began_here(here: Checkout, manifest: Manifest, private: Path) -> bool:
    if manifest.began_on == here.identity or any((private / name).exists() for name in _TRACES):
        return True
    reserved = (here.ids / manifest.session_id).exists()
    return reserved and (here.main_root / manifest.worktree).resolve() == here.root.resolve()
