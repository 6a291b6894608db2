"""Where a command acts: the store of this worktree, and the selected session."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.drivers import driver_lock, own_agents
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.engine.session_engine import EngineOptions
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.store import selection
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.selection import OPEN, top_of
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import current_folder as current_folder
from playbook_supervisor.system.process import ancestry

if TYPE_CHECKING:
    from playbook_supervisor.drivers.observers import Observer

VARIABLE = "PLAYBOOK_SESSION"
"""Names the session where no argument does."""


def store(cwd: Path | None = None) -> DiskStore:
    """The sessions of the worktree that contains the folder. StateError outside of one."""
    here = cwd or current_folder()
    return DiskStore(checkout.find(here), seen_from=Path(os.path.realpath(here)))


def tree(store: DiskStore, session_id: str) -> SessionTree:
    """The supervisor for one command, which keeps copies of what it journals."""
    return SessionTree(store, session_id, EngineOptions(copies=True))


def client_tree(store: DiskStore, session_id: str) -> SessionTree:
    """The supervisor for a client: checks are left to `next --wait`. StateError PB-STATE-DRIVEN."""
    options = EngineOptions(
        exports=False, runs_checks=False, copies=True, isolation=ancestry.isolation()
    )
    found = SessionTree(store, session_id, options)
    driver_lock.require_no_runner(found.private)
    return found


def admitted_tree(store: DiskStore, session_id: str) -> SessionTree:
    """As `client_tree`; in Claude Code, only for a conversation that our hooks have seen."""
    found = client_tree(store, session_id)
    if in_claude_code():
        authorization.admit(store.checkout, found.private, os.environ)
        authorization.require_isolation(found.config)
    return found


def require_human(store: DiskStore, session_id: str, command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY where an agent of ours asks, or may ask."""
    own_agents.require_none_above(store.checkout, command)
    if command == "repair" and not store.drives(session_id):
        return  # nothing is recorded of it, so there is no difference to decide about
    private = store.runtime(driven_as(store, session_id))
    authorization.require_human(store.checkout, private, command, os.environ)


def driven_as(store: DiskStore, session_id: str) -> str:
    """The session whose driver drives this one: its top, whatever has become of its files."""
    try:
        return top_of(store, session_id)
    except PlaybookError:
        return session_id


def in_claude_code() -> bool:
    """True if this is a shell of Claude Code."""
    return bool(os.environ.get("CLAUDECODE"))


def named_by_environment() -> str:
    """The session that the environment names; empty if none."""
    return os.environ.get(VARIABLE, "")


def select(
    session: str,
    cwd: Path | None = None,
    observer: Observer | None = None,
    *,
    itself: bool = False,
) -> tuple[DiskStore, str]:
    """The selected session, and the store of the worktree that it lives in; its files are restored.

    One that is named, by argument or environment, may live in any worktree of the repository, and
    its id may be abbreviated. The name of a child means the session that a person began, unless
    the files of the child `itself` are meant.
    """
    here = store(cwd)
    name = named(here, session)
    if not name:
        name = choose(here, "", observer)
    elif not here.drives(name):
        from playbook_supervisor.commands.overview import find

        here = find(here, name)
    if not itself and (session or named_by_environment()):
        name = top_of(here, name)
    if not here.drives(name):
        authorization.note_unknown_driver(here, name)
    if not itself:
        restore(here, name)
    return here, name


def restore(store: DiskStore, session_id: str) -> None:
    """Restore the session's files if something has removed them; what is wrong is said later."""
    if store.drives(session_id) and store.lacks_files(session_id):
        with suppress(PlaybookError), store.open(session_id):
            pass


def named(store: DiskStore, session: str = "") -> str:
    """The full id of the session, in any worktree, that argument or environment names; or empty."""
    name = session or named_by_environment()
    if not name or SESSION_ID.match(name):
        return name
    from playbook_supervisor.commands.overview import stores

    return selection.full_id({id_ for each in stores(store) for id_ in each.found()}, name)


def choose(store: DiskStore, session: str, observer: Observer | None = None) -> str:
    """The session of that name, else of the environment, else of this worktree.

    Where this worktree has none, the error tells a person which are unfinished in any worktree.
    """
    name = named(store, session)
    try:
        found = selection.choose(store, name)
    except StateError as error:
        if name or in_claude_code():
            raise
        from playbook_supervisor.commands.overview import sessions

        known = [seen.manifest for seen in sessions(store) if seen.manifest and not seen.stale]
        raise selection.no_session(known) from error
    if found.others and observer is not None:
        observer.on_notice(f"taking {found.session_id}; also open: {', '.join(found.others)}")
    return found.session_id


# ── what the person at the current folder has to know of a snapshot ─────────────────────────


def required_id(snapshot: Snapshot, cwd: Path | None = None) -> str:
    """The session's id, where a command that names none would select another; else empty."""
    session_id, named = snapshot.session_id, named_by_environment()
    if named:
        return "" if named == session_id else session_id
    try:
        here = store(cwd)
        if here.checkout == checkout.refreshed(snapshot.store.checkout):
            here = snapshot.store
        found = here.drives(session_id) and selection.choose(here).session_id == session_id
    except StateError:  # there is no repository
        found = False
    return "" if found else session_id


def other_worktree(snapshot: Snapshot, cwd: Path | None = None) -> str:
    """A sentence that says where an open session lives, if not in this worktree; else empty."""
    home = snapshot.store.checkout.root
    if snapshot.manifest.status not in OPEN or home == store(cwd).checkout.root:
        return ""
    folder = os.path.relpath(home, cwd or current_folder())
    return f"It lives in {folder}."


def with_store_notices(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the notices of its store."""
    return replace(snapshot, notices=(*snapshot.notices, *snapshot.store.notices))
