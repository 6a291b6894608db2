"""Sessions on disk: created, opened under the lock, and written before anything is done.

A change is two durable writes: the runtime state with the digest of the new journal, then the
journal. A crash between them leaves the old journal, whose digest is also known. session.yaml
repeats what the journal says; it is written last and repaired at the next opening.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Change, Event
from playbook_supervisor.kernel.vocabulary import ENDED, SessionStatus
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.sessions.files import (
    integrity,
    pinned_inputs,
    portable_records,
    provenance,
    session_branch,
)
from playbook_supervisor.sessions.files.local_state import (
    JOURNAL,
    NAME,
    History,
    Runtime,
    journal_entries,
)
from playbook_supervisor.sessions.files.manifest import (
    NO_DRIVER,
    NOTHING_INHERITED,
    Driver,
    Inherited,
    Manifest,
    ids_in,
    manifest_from_json,
    read_manifest,
    reserve_id,
    unknown_session,
    valid_id,
)
from playbook_supervisor.sessions.files.pinned_inputs import NO_CHILDREN, Pinned
from playbook_supervisor.sessions.files.session_branch import Standing
from playbook_supervisor.sessions.files.session_clock import Clock, SessionClock, system_clock
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store import opening
from playbook_supervisor.sessions.store.opening import UnfinishedSessions
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import (
    contained,
    digest,
    ensure_folder,
    locked,
    read_bytes,
    sweep,
)
from playbook_supervisor.system.git.checkout import Checkout, refreshed

SESSIONS = ".playbooks/sessions"


class DiskStore:
    """The sessions of one worktree. Everything that changes one goes through `open`."""

    def __init__(
        self, checkout: Checkout, *, clock: Clock = system_clock, seen_from: Path | None = None
    ) -> None:
        self.checkout = checkout
        self.seen_from = seen_from or checkout.root  # paths in messages are relative to it
        self._unfinished = UnfinishedSessions(checkout, checkout.root / SESSIONS)
        self.clock = SessionClock(checkout.runtime, clock)
        self.notices: list[str] = []  # for the person: what was restored
        self.moving = False  # a person lets sessions of another branch be taken up on this one
        self._known: dict[str, OpenSession] = {}
        self._held: dict[str, OpenSession] = {}

    # ── where things are ────────────────────────────────────────────────────────────────────

    def folder(self, session_id: str) -> Path:
        """The session's folder in the work tree; raises for a link and what is not an id."""
        folder = self.checkout.root / SESSIONS / valid_id(session_id)
        if contained(self.checkout.root, f"{SESSIONS}/{session_id}") != folder:
            shown = self._shown(folder)
            raise StorageError("PB-IO-ESCAPE", f"{shown} is a symbolic link", where=shown)
        return folder

    def runtime(self, session_id: str) -> Path:
        return self.checkout.runtime / valid_id(session_id)

    def _place(self, session_id: str) -> ABFile:
        return ABFile(self.runtime(session_id) / NAME)

    def ids(self) -> list[str]:
        self._unfinished.sweep()
        return [name for name in ids_in(self.checkout.root / SESSIONS) if self._has(name)]

    def known(self) -> list[str]:
        """Every session that this worktree drives or drove, also if its folder is gone."""
        self._unfinished.sweep()
        return [name for name in ids_in(self.checkout.runtime) if self.drives(name)]

    def found(self) -> list[str]:
        """Every session of this worktree by name, with a folder or without: what commands find."""
        return sorted({*self.ids(), *self.known()})

    def driven(self) -> list[str]:
        """Open sessions that this worktree drives, also if their folders are gone; no child
        sessions."""
        return [name for name in self.known() if self._is_open(name)]

    def _has(self, session_id: str) -> bool:
        """A folder that another user has closed counts: reading it reports that."""
        try:
            return (self.checkout.root / SESSIONS / session_id / "session.yaml").is_file()
        except PermissionError:
            return True

    def lacks_files(self, session_id: str) -> bool:
        """True if files of a session that this worktree drives are missing, or older than known."""
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
        if known := self._unchanged(session_id):
            return known.runtime
        folder = self.checkout.root / SESSIONS / session_id
        return opening.on_disk(folder, self._place(session_id))

    def drives(self, session_id: str) -> bool:
        return self._place(session_id).exists

    # ── reading, without the lock ───────────────────────────────────────────────────────────

    def manifest(self, session_id: str) -> Manifest:
        """Read without the lock, from the runtime state if this worktree drives the session:
        session.yaml may be out of date after a crash. StateError if session.yaml is unreadable."""
        path = self.folder(session_id) / "session.yaml"
        try:
            with self._explaining(session_id):
                found = read_manifest(read_bytes(path), integrity.shown(path.parent, path.name))
        except FileNotFoundError as error:
            if written := self.written_manifest(session_id):
                self.require_worktree(session_id)
                return written
            raise unknown_session(session_id) from error
        return self.written_manifest(session_id) or found

    def standing(self, session_id: str) -> Standing:
        known = self.written_manifest(session_id) or self.manifest(session_id)
        return self._standing(known, self._recorded(session_id))

    def _standing(
        self, known: Manifest, runtime: Runtime | None, here: Checkout | None = None
    ) -> Standing:
        here = here or refreshed(self.checkout)
        return session_branch.standing(here, known, runtime, known.started_at - self.clock.ahead)

    def written_manifest(self, session_id: str) -> Manifest | None:
        """The manifest as this worktree last wrote it, even if the file has changed since."""
        runtime = self._recorded(session_id)
        return manifest_from_json(runtime.manifest) if runtime and runtime.manifest else None

    def parent(self, session_id: str) -> str:
        known = self.written_manifest(session_id) if self.drives(session_id) else None
        return (known or self.manifest(session_id)).parent_session

    def journal(self, session_id: str) -> History:
        """All entries, parsed only if something else wrote them. StateError if that cannot be
        read."""
        folder, known = self.reading(session_id), self._recorded(session_id)
        path = folder / "journal.yaml"
        with self._explaining(session_id):
            try:
                data, source = read_bytes(path), integrity.shown(folder, path.name)
                found = journal_entries(data, source, self.runtime(session_id), known)
                begun = known.begun if known else portable_records.begun(folder)
                return History(found, begun, known)
            except FileNotFoundError as error:
                if not self._has(session_id):
                    raise unknown_session(session_id) from error
                said = f"session {session_id} has no journal.yaml"
                raise StateError("PB-STATE-CORRUPT", said, where=self._shown(path)) from error

    def settled_events(self, session_id: str, attempts: Collection[str]) -> list[Event]:
        """The ends of the settled ones of the attempts; a child's by its path, `a#1/b#1`."""
        wanted = frozenset(attempts)
        return list(self._settled(session_id, "", wanted)) if wanted else []

    def _settled(self, session_id: str, within: str, wanted: frozenset[str]) -> Iterator[Event]:
        for entry in self.journal(session_id).entries:
            path = f"{within}/{entry.id}" if within else entry.id
            if entry.session and any(each.startswith(f"{path}/") for each in wanted):
                yield from self._settled(entry.session, path, wanted)
            if path in wanted and entry.completed_at is not None:
                yield Event(Change(entry.status.value), entry, within)

    def reading(self, session_id: str) -> Path:
        """The folder from which the session's files are read: of the work tree, else the copies."""
        folder = self.folder(session_id)
        gone = not self._has(session_id) and self.drives(session_id)
        return self.runtime(session_id) if gone else folder

    def require_worktree(self, session_id: str) -> None:
        """StateError PB-STATE-NO-WORKTREE if it was removed by hand: only a repair makes it
        again."""
        if not (self.checkout.root / ".git").exists():
            raise StateError(
                "PB-STATE-NO-WORKTREE",
                f"the worktree of session {session_id} is gone",
                where=self._shown(self.checkout.root),
                guidance=f"`playbook repair {session_id} --restore` brings back what was committed "
                "and staged there, and the session; `git worktree prune` gives it up.",
            )

    # ── creating ────────────────────────────────────────────────────────────────────────────

    def creating(self) -> AbstractContextManager[None]:
        """No other process creates a session in this worktree meanwhile."""
        return self._unfinished.held()

    def create(
        self,
        *,
        playbook: str,
        text: bytes,
        feature: str,
        args: Mapping[str, str],
        definition: Playbook | None = None,
        policy: Policy | None = None,
        children: Mapping[str, bytes] = NO_CHILDREN,
        session_id: str = "",
        driver: Driver = NO_DRIVER,
        inherited: Inherited = NOTHING_INHERITED,
    ) -> str:
        """Create a pending session with its pinned files (kai FR11, FR12), as a whole or not at
        all; returns its id. `definition` is the parsed `text`, if the caller has it, `session_id`
        one that was reserved before. `children` are the texts of the playbooks that it can reach,
        `inherited` what a child session has of its parent."""
        with self.creating():
            if not inherited.parent:
                self.clock.start_anew()
            now = self.clock()
            root, main = self.checkout.root, self.checkout.main_root
            session_id = session_id or self.reserve(now)
            made = Manifest(
                session_id=session_id,
                playbook=playbook,
                feature=feature,
                args=args,
                status=SessionStatus.PENDING,
                started_at=now,
                worktree="" if root == main else os.path.relpath(root, main),
                branch=self.checkout.branch,
                driver=driver,
                began_on=self.checkout.identity,
                parent=inherited.parent,
            )
            folder = self.folder(session_id)
            opened = self._unfinished.complete(
                made, folder, text, definition, policy, children, inherited.settings
            )
            self._known[session_id] = opened
        return session_id

    def discard(self, session_id: str) -> None:
        """Remove a session and all that is known of it here, as a whole or not at all."""
        self._unfinished.discard(self.folder(session_id))

    def require_room(self) -> None:
        self.folder("00000000-new")  # refuses a folder of sessions that is a link
        self._unfinished.require_room(self.seen_from)

    def reserve(self, now: int | None = None) -> str:
        """Reserve an id that no worktree has. `now` is ms since the epoch; None means the clock."""
        return reserve_id(self.checkout.ids, self.clock() if now is None else now, self._has)

    # ── opening ─────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def open(self, session_id: str) -> Iterator[OpenSession]:
        """The session as it is now, held exclusively. StateError: `PB-STATE-NO-SESSION`,
        `-CORRUPT`, `-TAMPERED`, `-DIVERGED`, `-BUSY`."""
        known = self._known.pop(session_id, None)
        if session_id in self._held:
            ensure_folder(self.runtime(session_id))
        elif known is None:
            if not self._has(valid_id(session_id)) and not self.drives(session_id):
                raise unknown_session(session_id)
            ensure_folder(self.runtime(session_id))
        with locked(known.private / "lock" if known else self.runtime(session_id) / "lock"):
            # Known while it is open, too: a check whose program runs asks whether it has changed.
            known = self._known[session_id] = self._current(session_id, known)
            self.clock.keep_up_with(max(known.state.latest, known.manifest.started_at))
            try:
                yield known
            except BaseException:
                self._known.pop(session_id, None)
                raise

    def _current(self, session_id: str, known: OpenSession | None) -> OpenSession:
        if known is None or not known.current or known.folder == known.private:
            with self._explaining(session_id):
                known = self._load(session_id, known)
        here = refreshed(self.checkout)
        known.stands(self._standing(known.manifest, known.runtime, here), here.head)
        return known

    def settle(self, opened: OpenSession) -> None:
        """Write the files of an open session, as they were written last, into the work tree."""
        folder = self.folder(opened.manifest.session_id)
        if opened.folder != folder:
            ensure_folder(folder)
            integrity.copy_all(opened.private, folder, opened.runtime.digests)
            opened.folder, opened.runtime.away = folder, {}

    def bring_children(self, opened: OpenSession) -> None:
        """Take the files of ended children along: the journal names them on this branch, too."""
        for name in filter(self.drives, self.found()):
            with suppress(StateError):  # one that cannot be read stays away, and the audit says so
                known = self.manifest(name)
                if known.parent_session == opened.manifest.session_id and known.status in ENDED:
                    with self.open(name) as child:
                        self.settle(child)
                        self.bring_children(child)

    def hold(self, session_id: str) -> None:
        """Drive the session alone from here on: what this process wrote counts, not the disk.
        `open` then refuses every change by others but an answer at the open gate."""
        self._held[session_id] = self._present(session_id)

    def pinned(self, session_id: str) -> Pinned:
        return self._present(session_id).pinned

    def copied(self, session_id: str) -> bool:
        known = self._known.get(session_id)
        return known is not None and known.copied

    def _present(self, session_id: str) -> OpenSession:
        known = self._unchanged(session_id)
        if known is None:
            with self.open(session_id) as known:
                pass
        return known

    def _unchanged(self, session_id: str) -> OpenSession | None:
        known = self._known.get(session_id)
        return known if known is not None and known.current else None

    def changed(self, session_id: str) -> bool:
        return self._unchanged(session_id) is None

    def _load(self, session_id: str, known: OpenSession | None) -> OpenSession:
        if held := self._held.get(session_id):
            self._held[session_id] = self._reload(held)
            return self._held[session_id]
        known = None if known is not None and known.folder == known.private else known
        folder, private = self.folder(session_id), self.runtime(session_id)
        sweep(private)
        place = self._place(session_id)
        runtime = provenance.recorded(place)
        unclear = runtime is None or place.damaged
        if unclear and (doubted := self.doubt(session_id)):
            raise provenance.unconfirmed(session_id, doubted, private)
        if runtime is None:  # another checkout began the session
            manifest = self.manifest(session_id)
            provenance.require_newest(self.checkout, folder)
            over = manifest.status in (SessionStatus.COMPLETED, SessionStatus.ABORTED)
            now = self._standing(manifest, None)
            if now.instead and not (over or self.moving):
                raise session_branch.refusal(self.checkout, manifest, now)
            pinned_inputs.pin_substitute(self.checkout.root, folder, manifest)
            opened = opening.adopt(folder, private, place)
            opened.copy()
            return opened
        self.require_worktree(session_id)
        recorded = manifest_from_json(runtime.manifest)
        if (now := self._standing(recorded, runtime)).instead:
            return self._load_away(recorded, now, runtime, place)
        ensure_folder(folder)
        sweep(folder)
        if away := runtime.away:
            integrity.bring(private, folder, runtime.digests, away)
            runtime.away = {}
        if known is not None and known.vanished:
            known.copy()
        self._note_restored(session_id, integrity.restore_missing(folder, private))
        opened = opening.load(folder, private, runtime, place)
        if away:  # also after a kill within a move
            self.bring_children(opened)
            opened.save()
        return opened

    def _load_away(
        self, known: Manifest, now: Standing, runtime: Runtime, place: ABFile
    ) -> OpenSession:
        """The session while another branch is checked out, whose files stay as they are. StateError
        PB-STATE-BRANCH if what is known here is not all that was written."""
        folder, private = self.folder(known.session_id), self.runtime(known.session_id)
        from playbook_supervisor.system.git.git_process import ask

        try:
            latest = runtime.latest(JOURNAL, digest(integrity.read_file(folder, JOURNAL)))
        except StateError:
            latest = False
        if not latest or ask(self.checkout.root, "ls-files", "--", f":(literal){folder}"):
            folder = private  # or the present branch has the folder, too
        try:
            return opening.load(folder, private, runtime, place)
        except StateError as error:
            raise session_branch.refusal(self.checkout, known, now) from error

    def doubt(self, session_id: str) -> str:
        """Why nothing proves the session's files: `missing` or `damaged` runtime state."""
        folder, place = self.folder(session_id), self._place(session_id)
        return provenance.doubt(self.checkout, place, folder, lambda: self.manifest(session_id))

    def _reload(self, held: OpenSession) -> OpenSession:
        session_id = held.manifest.session_id
        self.require_worktree(session_id)
        folder = self.folder(session_id)
        if self._standing(held.manifest, held.runtime).instead and not self._has(session_id):
            opening.put_copies_back(held)
            held.folder = held.private
        elif held.folder != folder:
            ensure_folder(folder)
            integrity.bring(held.private, folder, held.runtime.digests, held.runtime.away)
            held.folder, held.runtime.away = folder, {}
        self._note_restored(held.manifest.session_id, opening.restore_missing(held))
        return opening.reload(held)

    def _note_restored(self, session_id: str, names: list[str]) -> None:
        if names:
            gone = ", ".join(names)
            self.notices.append(f"{session_id}: {gone} had disappeared; restored from the copy")

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
