"""Selects the session that a command applies to (kai FR15, FR16).

Without a name it is the session of *this* worktree: one that its runtime state knows, else one of
HEAD's branch, else one whose manifest names this worktree; never one that lives in another
worktree.
"""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.manifest import Manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.session_store import SessionStore

OPEN = frozenset({SessionStatus.PENDING, SessionStatus.IN_PROGRESS})


class SelectedSession(Record):
    """The selected session, and other open ones."""

    session_id: str
    others: tuple[str, ...] = ()


def choose(store: SessionStore, named: str = "") -> SelectedSession:
    """The session of that name, else the one of this worktree: an open one, else the last ended.

    StateError `PB-STATE-NO-SESSION` if there is none, `PB-STATE-ELSEWHERE` if only its files are
    here and it lives in another worktree.
    """
    if named:
        if not store.drives(named):
            _require_home(store, store.manifest(named))  # raises if there is none
        return SelectedSession(named)
    if candidates := open_here(store):
        return SelectedSession(candidates[0], tuple(candidates[1:]))
    if ended := _by_activity(store, _here(store, ended=True)):
        return SelectedSession(ended[0])
    raise StateError("PB-STATE-NO-SESSION", "no session belongs to this worktree")


def open_here(store: SessionStore) -> list[str]:
    """The open sessions of this worktree, the one with the latest activity first."""
    return _by_activity(store, _here(store, ended=False))


def strayed(store: SessionStore, session_id: str) -> str:
    """A sentence if the session began on another branch than the one checked out; else empty."""
    known, here = store.manifest(session_id), store.checkout.branch
    if known.branch in ("", here):
        return ""
    now = f"{first_line(here)} is checked out" if here else "no branch is checked out"
    return f"session {session_id} began on branch {first_line(known.branch)}, and {now}"


def _require_home(store: SessionStore, manifest: Manifest) -> None:
    if _lives_elsewhere(store, manifest):
        import shlex

        place = _place(store, manifest)
        raise StateError(
            "PB-STATE-ELSEWHERE",
            f"session {manifest.session_id} lives in another worktree",
            where=str(place),
            guidance=f"Go on there: cd {shlex.quote(str(place))} && claude, then /playbook.resume.",
        )


def _here(store: SessionStore, *, ended: bool) -> list[str]:
    if not ended and (driven := store.driven()):
        return driven
    manifests = {name: _readable(store, name) for name in store.ids()}
    wanted = {
        name: manifest
        for name, manifest in manifests.items()
        if manifest is not None and (manifest.status not in OPEN) is ended
    }
    if ours := [name for name in wanted if store.drives(name)]:
        return ours
    home = {name: m for name, m in wanted.items() if not _lives_elsewhere(store, m)}
    branch = store.checkout.branch
    same_branch = [name for name, m in home.items() if branch and m.branch == branch]
    return same_branch or [name for name, m in home.items() if _lives_here(store, m)]


def _readable(store: SessionStore, session_id: str) -> Manifest | None:
    """The manifest, or None for a broken session, which must not hide the others."""
    try:
        return store.manifest(session_id)
    except StateError:
        return None


def _place(store: SessionStore, manifest: Manifest) -> Path:
    return (store.checkout.main_root / manifest.worktree).resolve()


def _lives_here(store: SessionStore, manifest: Manifest) -> bool:
    return _place(store, manifest) == store.checkout.root.resolve()


def _lives_elsewhere(store: SessionStore, manifest: Manifest) -> bool:
    return not _lives_here(store, manifest) and (_place(store, manifest) / ".git").exists()


def _by_activity(store: SessionStore, names: list[str]) -> list[str]:
    if len(names) < 2:
        return names
    return sorted(names, key=lambda name: (store.activity(name), name), reverse=True)
