"""Where a command acts: the store of this worktree, and the session that is meant."""

from __future__ import annotations

import os
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.observers import Observer
    from playbook_supervisor.sessions.snapshot import Snapshot
    from playbook_supervisor.sessions.store import DiskStore
    from playbook_supervisor.sessions.supervisor import Supervisor

VARIABLE = "PLAYBOOK_SESSION"
"""Names the session where no argument does."""


def current_folder() -> Path:
    """The folder that this process stands in. StateError if somebody has removed it."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise StateError(
            "PB-STATE-NO-REPOSITORY",
            "the folder that you stand in is gone",
            guidance="Change to one that is there.",
        ) from error


def store(cwd: Path | None = None) -> DiskStore:
    """The sessions of the worktree that the folder lies in. StateError outside of one."""
    from playbook_supervisor.sessions.store import DiskStore
    from playbook_supervisor.system import checkout

    here = cwd or current_folder()
    return DiskStore(checkout.find(here), seen_from=Path(os.path.realpath(here)))


def supervisor(store: DiskStore, session_id: str, *, exports: bool = True) -> Supervisor:
    """What drives a session of that store; `exports`: workers are given its environment."""
    from playbook_supervisor.sessions.supervisor import Supervisor

    return Supervisor(store, session_id, exports=exports)


def undriven(store: DiskStore, session_id: str) -> Supervisor:
    """What a client drives a session with; StateError `PB-STATE-DRIVEN` while a runner does."""
    from playbook_supervisor.drivers import driver_lock

    driving = supervisor(store, session_id, exports=False)
    if driver_lock.living(driving.private) is not None:
        raise driver_lock.driven(driving.private)
    return driving


def admitted(store: DiskStore, session_id: str) -> Supervisor:
    """The same, for a conversation of Claude Code only where our hooks have seen it."""
    driving = undriven(store, session_id)
    if inside():
        from playbook_supervisor.drivers.claude_code import authorization

        authorization.admit(store.checkout, driving.private, os.environ)
    return driving


def a_human(store: DiskStore, session_id: str, command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY where a client drives the session and a model may ask."""
    from playbook_supervisor.drivers.claude_code import authorization

    if command == "repair" and not store.drives(session_id):
        return  # nothing is kept of it: there is no difference to decide about
    authorization.require_human(store.runtime(session_id), command, os.environ)


def inside() -> bool:
    """Whether this is a shell of Claude Code."""
    return bool(os.environ.get("CLAUDECODE"))


def named() -> str:
    """The session that the environment names, or nothing."""
    return os.environ.get(VARIABLE, "")


def meant(
    session: str, cwd: Path | None = None, watcher: Observer | None = None
) -> tuple[DiskStore, str]:
    """The session that is meant, and the store of the worktree that it lives in.

    One that is named, by argument or environment, may live in any worktree of the repository.
    """
    here, name = store(cwd), session or named()
    if not name:
        name = chosen(here, "", watcher)
    elif not here.drives(name):
        from playbook_supervisor.commands.overview import find

        here = find(here, name)
    if not here.drives(name):
        from playbook_supervisor.drivers.claude_code import authorization

        authorization.note_unknown_driver(here, name)
    return here, name


def chosen(store: DiskStore, session: str, watcher: Observer | None = None) -> str:
    """The session of that name, else of the environment, else of this worktree (kai FR15).

    Where this worktree has none, the error tells a person which are open in the others.
    """
    from playbook_supervisor.sessions.selection import choose

    name = session or named()
    try:
        found = choose(store, name)
    except StateError as error:
        if name or inside():
            raise
        raise _open_elsewhere(error, store) from error
    if found.others and watcher is not None:
        watcher.on_notice(f"taking {found.session_id}; also open: {', '.join(found.others)}")
    return found.session_id


def _open_elsewhere(error: StateError, store: DiskStore) -> StateError:
    from playbook_supervisor.commands.overview import sessions
    from playbook_supervisor.sessions.selection import OPEN

    known = (seen.manifest for seen in sessions(store))
    others = [each.session_id for each in known if each and each.status in OPEN]
    if not others:
        return error
    guidance = f"Name one that is open elsewhere, {' or '.join(others[:4])}, or begin one here."
    return StateError(error.code, error.message, where=error.where, guidance=guidance)


def name_from_here(outlook: Snapshot, cwd: Path | None = None) -> str:
    """The session's id, where a command that names none would mean another; else empty."""
    from playbook_supervisor.sessions.selection import choose

    session_id = outlook.manifest.session_id
    try:
        here = store(cwd)
        unnamed = named() or choose(here).session_id
        same = unnamed == session_id and (bool(named()) or here.drives(session_id))
    except StateError:  # none belongs here, or there is no repository
        same = False
    return "" if same else session_id


def away(outlook: Snapshot, cwd: Path | None = None) -> str:
    """Where an open session lives that is not of this worktree; else empty."""
    from playbook_supervisor.sessions.selection import OPEN

    known = outlook.manifest
    home = meant(known.session_id, cwd)[0].checkout.root
    if known.status not in OPEN or home == store(cwd).checkout.root:
        return ""
    folder = os.path.relpath(home, cwd or current_folder())
    return f"It lives in {folder}."


def waiting_elsewhere(error: StateError, cwd: Path | None = None) -> StateError:
    """The same error; where a gate waits in some worktree, it says how to answer that one."""
    if error.code not in ("PB-STATE-NO-SESSION", "PB-STATE-NO-GATE"):
        return error
    from playbook_supervisor.commands.overview import sessions

    manifests = (seen.manifest for seen in sessions(store(cwd)))
    waiting = [known.session_id for known in manifests if known and known.gate]
    if not waiting:
        return error
    guidance = f"What waits: `playbook answer {waiting[0]} …`"
    more = f", or {' or '.join(waiting[1:4])}" if waiting[1:] else ""
    return StateError(error.code, error.message, where=error.where, guidance=f"{guidance}{more}.")


def kept(store: DiskStore, outlook: Snapshot) -> Snapshot:
    """The same, with what the store has to say; what was journaled is copied out of reach."""
    if outlook.events:
        with store.open(outlook.manifest.session_id) as opened:
            opened.copy()
    return replace(outlook, notices=(*outlook.notices, *store.notices))
