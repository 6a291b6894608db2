"""The sessions of one worktree as they are on its disk: which there are, and what their files say.

Nothing here takes a session's lock or changes a session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.kernel.vocabulary import ENDED
from playbook_supervisor.sessions import (
    integrity,
    opening,
    portable_records,
    session_branch,
    session_ids,
)
from playbook_supervisor.sessions.local_state import NAME, Runtime
from playbook_supervisor.sessions.manifest import Manifest, manifest_from_json, read_manifest
from playbook_supervisor.sessions.session_branch import Standing
from playbook_supervisor.sessions.session_clock import SessionClock
from playbook_supervisor.sessions.settled_entries import History, entries
from playbook_supervisor.sessions.unfinished import UnfinishedSessions
from playbook_supervisor.system.ab_file import ABFile
from playbook_supervisor.system.checkout import Checkout, refreshed
from playbook_supervisor.system.files import contained, read_bytes

SESSIONS = ".playbooks/sessions"


class SessionFolders:
    """The folders of a worktree's sessions, in the work tree and in its git directory."""

    clock: SessionClock

    def __init__(self, checkout: Checkout, seen_from: Path | None = None) -> None:
        self.checkout = checkout
        self.seen_from = seen_from or checkout.root
        """Paths in messages are relative to this folder."""
        self._unfinished = UnfinishedSessions(checkout, checkout.root / SESSIONS)

    # ── where things are ────────────────────────────────────────────────────────────────────

    def folder(self, session_id: str) -> Path:
        """The session's folder in the work tree; raises for a link and what is not an id."""
        folder = self.checkout.root / SESSIONS / session_ids.valid(session_id)
        if contained(self.checkout.root, f"{SESSIONS}/{session_id}") != folder:
            shown = self._shown(folder)
            raise StorageError("PB-IO-ESCAPE", f"{shown} is a symbolic link", where=shown)
        return folder

    def runtime(self, session_id: str) -> Path:
        """The session's folder in this worktree's git directory."""
        return self.checkout.runtime / session_ids.valid(session_id)

    def _place(self, session_id: str) -> ABFile:
        return ABFile(self.runtime(session_id) / NAME)

    def ids(self) -> list[str]:
        """The sessions whose folders are in this work tree, by name."""
        self._unfinished.sweep()
        return [
            name for name in session_ids.names(self.checkout.root / SESSIONS) if self._has(name)
        ]

    def known(self) -> list[str]:
        """Every session that this worktree drives or drove, also if its folder is gone."""
        self._unfinished.sweep()
        return [name for name in session_ids.names(self.checkout.runtime) if self.drives(name)]

    def found(self) -> list[str]:
        """Every session of this worktree by name, with a folder or without: what commands find."""
        return sorted({*self.ids(), *self.known()})

    def driven(self) -> list[str]:
        """Open sessions that this worktree drives, including those whose folders are gone.

        A child session is driven with its parent and is none of them.
        """
        return [name for name in self.known() if self._is_open(name)]

    def _has(self, session_id: str) -> bool:
        """A folder that another user has closed counts: reading it reports that."""
        try:
            return (self.checkout.root / SESSIONS / session_id / "session.yaml").is_file()
        except PermissionError:
            return True

    def lacks_files(self, session_id: str) -> bool:
        """Whether files of a session that this worktree drives are missing, or older than known."""
        folder, known = self.folder(session_id), self._recorded(session_id)
        if known is not None and known.away:
            return True
        return any(not os.path.lexists(folder / name) for name in integrity.FILES[:2])

    def _is_open(self, session_id: str) -> bool:
        """A runtime state that cannot be read counts as open; opening the session reports it."""
        runtime = self._recorded(session_id)
        if runtime is None:
            return True
        return runtime.manifest.get("status") not in ENDED and not runtime.manifest.get("parent")

    def _recorded(self, session_id: str) -> Runtime | None:
        folder = self.checkout.root / SESSIONS / session_id
        return opening.on_disk(folder, self._place(session_id))

    def drives(self, session_id: str) -> bool:
        """Whether this worktree's runtime state knows the session."""
        return self._place(session_id).exists

    # ── reading, without the lock ───────────────────────────────────────────────────────────

    def manifest(self, session_id: str) -> Manifest:
        """The session's manifest, without its lock. StateError if session.yaml is unreadable.

        If this worktree drives the session, its runtime state counts: session.yaml may be out of
        date after a crash, and may have been edited.
        """
        path = self.folder(session_id) / "session.yaml"
        try:
            with self._explaining(session_id):
                found = read_manifest(read_bytes(path), integrity.shown(path.parent, path.name))
        except FileNotFoundError as error:
            if written := self.written_manifest(session_id):
                self.require_worktree(session_id)
                return written
            raise session_ids.unknown(session_id) from error
        return self.written_manifest(session_id) or found

    def standing(self, session_id: str) -> Standing:
        """Whether the session's branch is checked out here. Errors as `manifest`."""
        known = self.written_manifest(session_id) or self.manifest(session_id)
        return self._standing(known, self._recorded(session_id))

    def _standing(self, known: Manifest, runtime: Runtime | None) -> Standing:
        here = refreshed(self.checkout)
        return session_branch.standing(here, known, runtime, known.started_at - self.clock.ahead)

    def written_manifest(self, session_id: str) -> Manifest | None:
        """The manifest as this worktree last wrote it, even if the file has changed since."""
        runtime = self._recorded(session_id)
        return manifest_from_json(runtime.manifest) if runtime and runtime.manifest else None

    def parent(self, session_id: str) -> str:
        """The session that this one is a child of; empty for one that a person began."""
        known = self.written_manifest(session_id) if self.drives(session_id) else None
        return (known or self.manifest(session_id)).parent_session

    def journal(self, session_id: str) -> History:
        """All entries of journal.yaml, which is parsed only if something else wrote it.

        StateError if it cannot be read.
        """
        folder, known = self.reading(session_id), self._recorded(session_id)
        path = folder / "journal.yaml"
        with self._explaining(session_id):
            try:
                data, source = read_bytes(path), integrity.shown(folder, path.name)
                found = entries(data, source, self.runtime(session_id), known)
                begun = known.begun if known else portable_records.begun(folder)
                return History(found, begun, known)
            except FileNotFoundError as error:
                if not self._has(session_id):
                    raise session_ids.unknown(session_id) from error
                said = f"session {session_id} has no journal.yaml"
                raise StateError("PB-STATE-CORRUPT", said, where=self._shown(path)) from error

    def reading(self, session_id: str) -> Path:
        """The folder from which the session's files are read: of the work tree, else the copies."""
        folder = self.folder(session_id)
        gone = not self._has(session_id) and self.drives(session_id)
        return self.runtime(session_id) if gone else folder

    def require_worktree(self, session_id: str) -> None:
        """StateError PB-STATE-NO-WORKTREE if the worktree was removed by hand.

        It is made again only by `playbook repair --restore`.
        """
        if not (self.checkout.root / ".git").exists():
            raise StateError(
                "PB-STATE-NO-WORKTREE",
                f"the worktree of session {session_id} is gone",
                where=self._shown(self.checkout.root),
                guidance=f"`playbook repair {session_id} --restore` brings back what was committed "
                "and staged there, and the session; `git worktree prune` gives it up.",
            )

    def _shown(self, path: Path) -> str:
        return os.path.relpath(path, self.seen_from)

    @contextmanager
    def _explaining(self, session_id: str) -> Iterator[None]:
        """Name files relative to the person's folder, and the session in suggested commands."""
        try:
            yield
        except PlaybookError as error:
            if error.source.startswith(f"{SESSIONS}/"):
                error.source = self._shown(self.checkout.root / error.source)
            error.session = session_id
            raise
