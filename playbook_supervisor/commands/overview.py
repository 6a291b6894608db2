"""The sessions of all worktrees, as read without a lock: also broken, diverged, driven ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.driver_lock import Driver
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project.expressions.bound_conditions import bound
from playbook_supervisor.project.playbooks import schema
from playbook_supervisor.project.policies import session_policy
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.project.settings import config, session_settings
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import provenance, session_branch
from playbook_supervisor.sessions.files.manifest import Manifest, Waiting
from playbook_supervisor.sessions.gate.gate_context import GateContext, context_of
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.sessions.store.selection import OPEN, home_elsewhere
from playbook_supervisor.system.disk.files import read_bytes
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout

_Look = Callable[[str, list[DiskStore]], "SessionOverview"]

_CLAUDE = "claude-code"
_VANISHED = "its files are gone; the next command restores them"


@dataclass(frozen=True, slots=True)
class ClientState:
    """The Claude Code conversation that a session is bound to.

    `lives`: its process is alive. `stalled`: its model repeated itself without progress. `dialog`
    is the tool for which it waits for a permission. `hooked`: its hooks reach the session.
    """

    pid: int
    lives: bool
    stalled: bool
    dialog: str
    hooked: bool


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """One session on the disk of one worktree.

    `problem` and `code` say why commands refuse it; if it cannot be read, `manifest` is None.
    `stale`: a copy of a session whose worktree is gone: its journal may lack what ran last.
    `driver` is the process that drives it, `client` the conversation that it is bound to.
    `children` are its child sessions, in the order in which they began.
    """

    store: DiskStore
    session_id: str
    manifest: Manifest | None
    problem: str = ""
    driver: Driver | None = None
    client: ClientState | None = None
    code: str = ""
    stale: bool = False
    children: tuple[SessionOverview, ...] = ()

    @property
    def place(self) -> str:
        """The attempt of its parent that a child session works for: `release#1`; else empty."""
        return self.manifest.parent.partition("/")[2] if self.manifest is not None else ""

    @property
    def gate(self) -> Waiting | None:
        """The open gate, its own or that of a child session: `release#1/pr#1?1`."""
        return self._waits_at[1]

    @property
    def _waits_at(self) -> tuple[SessionOverview, Waiting | None]:
        """The session of the gate that has been open for longest in the tree, and that gate."""
        own = self.manifest.gate if self.manifest is not None and self.open else None
        found: list[tuple[SessionOverview, Waiting]] = [] if own is None else [(self, own)]
        for child in self.children:
            at, gate = child._waits_at
            if gate is not None:
                found.append((at, replace(gate, id=f"{child.place}/{gate.id}")))
        return min(found, key=lambda each: each[1].opened_at, default=(self, None))

    @property
    def gate_at(self) -> SessionOverview:
        """The session that the open gate belongs to: this one, or one below it."""
        return self._waits_at[0]

    @property
    def root(self) -> Path:
        """Its worktree."""
        return self.store.checkout.root

    def gate_context(self) -> GateContext | None:
        """The context of the open gate; None if none is open, or it cannot be read."""
        at = self._waits_at[0]
        if at is not self:
            return at.gate_context()
        manifest = self.manifest
        playbook = pinned_playbook(self.store, self.session_id, manifest)
        if manifest is None or manifest.gate is None or playbook is None:
            return None
        if self.code == session_branch.CODE:
            return None  # what is checked out says nothing of it
        policy = pinned_policy(self.store, self.session_id)
        try:
            settings = pinned_settings(self.store, self.session_id)
            return context_of(self.store, manifest, playbook, policy, settings)
        except (PlaybookError, KeyError):
            return None

    @property
    def open(self) -> bool:
        """True if it has not ended; an unreadable session counts as open."""
        return self.manifest is None or self.manifest.status in OPEN

    @property
    def failed(self) -> bool:
        """True if it can be continued by `resume --retry`."""
        return self.manifest is not None and self.manifest.status is SessionStatus.FAILED


def of_copies(session_id: str, copies: list[DiskStore]) -> SessionOverview:
    """The overview of the copy that counts; the others, often many after merges, are not read."""
    if len(copies) > 1:
        driving = [each for each in copies if each.drives(session_id)]
        copies = driving or _at_home_or_longest(session_id, copies)
    return max((_look(each, session_id) for each in copies), key=_precedence)


def sessions(store: DiskStore, look: _Look = of_copies) -> tuple[SessionOverview, ...]:
    """Every session that a person began: those that wait, the longest first, then the latest first.

    A child session is one of the `children` of its parent, if that can be found. A session's folder
    is in git, so several worktrees may have a copy. The driving worktree's copy counts, else that
    of the worktree that the session names, else the one with the longest journal, and of equal ones
    the main checkout's. `look` may return what it has read before.
    """
    found: dict[str, list[DiskStore]] = {}
    for other in stores(store):
        for session_id in other.found():
            found.setdefault(session_id, []).append(other)
    for lost in (_beside(store, each) for each in checkout.lost_worktrees(store.checkout)):
        for session_id in lost.known():
            if not any(_is_as_new(each, lost, session_id) for each in found.get(session_id, ())):
                found[session_id] = [lost]
    seen = [look(session_id, copies) for session_id, copies in found.items()]
    return tuple(sorted(_in_trees(seen), key=_order))


def _in_trees(seen: Sequence[SessionOverview]) -> list[SessionOverview]:
    known = {each.session_id for each in seen}
    below: dict[str, list[SessionOverview]] = {}
    tops: list[SessionOverview] = []
    for each in seen:
        parent = each.manifest.parent_session if each.manifest is not None else ""
        is_child = parent in known and parent != each.session_id
        (below.setdefault(parent, []) if is_child else tops).append(each)
    if not below:
        return tops
    trees = [_with_children(each, below) for each in tops]
    return [*trees, *(each for group in below.values() for each in group)]  # parents of each other


def _with_children(
    seen: SessionOverview, below: dict[str, list[SessionOverview]]
) -> SessionOverview:
    children = [_with_children(each, below) for each in below.pop(seen.session_id, ())]
    children.sort(key=lambda of: (of.manifest.started_at if of.manifest else 0, of.session_id))
    return replace(seen, children=tuple(children))


def _at_home_or_longest(session_id: str, copies: list[DiskStore]) -> list[DiskStore]:
    for each in copies:
        try:
            named = each.manifest(session_id).worktree
        except PlaybookError:
            continue
        home = (each.checkout.main_root / named).resolve()
        at_home = [other for other in copies if other.checkout.root == home]
        return at_home or [max(copies, key=lambda other: _length(other, session_id))]
    return copies


def _length(store: DiskStore, session_id: str) -> tuple[int, bool]:
    """The journal's size, since journals only grow; its time only says when git wrote it."""
    here, size = store.checkout, 0
    with suppress(OSError):
        size = (here.root / SESSIONS / session_id / "journal.yaml").stat().st_size
    return size, here.root == here.main_root


def _is_as_new(copy: DiskStore, lost: DiskStore, session_id: str) -> bool:
    if copy.drives(session_id):
        return True
    try:
        recorded, found = lost.written_manifest(session_id), copy.manifest(session_id)
    except PlaybookError:
        return False
    return recorded is not None and recorded.status not in OPEN and recorded == found


def find(store: DiskStore, session_id: str) -> DiskStore:
    """The store of the session's worktree. StateError if there is no such session."""
    seen = in_tree(sessions(store), session_id)
    if seen is not None:
        return seen.store
    store.manifest(session_id)  # raises the error that says why
    return store


def in_tree(seen: Iterable[SessionOverview], session_id: str) -> SessionOverview | None:
    """The session of that id among these and their children."""
    for each in seen:
        found = each if each.session_id == session_id else in_tree(each.children, session_id)
        if found is not None:
            return found
    return None


def stores(store: DiskStore) -> list[DiskStore]:
    """The stores of this worktree and of all others of the repository."""
    found = [store]
    for root in checkout.worktrees(store.checkout):
        try:
            other = checkout.find(root)
        except StateError:
            continue  # its folder is gone, or the repository is bare
        known = {each.checkout.root for each in found}
        if other.common_dir == store.checkout.common_dir and other.root not in known:
            found.append(_beside(store, other))
    return found


def _beside(store: DiskStore, other: Checkout) -> DiskStore:
    return DiskStore(other, clock=store.clock, seen_from=store.seen_from)


def _look(store: DiskStore, session_id: str) -> SessionOverview:
    driver, client, ended = None, None, None
    try:
        client = _client(store, session_id)
        driver = driver_lock.living(store.runtime(session_id))
        if driver is None and client is not None and client.lives:
            driver = Driver(client.pid, _CLAUDE)
        manifest = store.manifest(session_id)
        refused, stale = _refused(store, manifest), _is_stale(store, manifest)
        gone = not os.path.lexists(store.folder(session_id) / "session.yaml")
        said, code = (refused.message, refused.code) if refused else (_VANISHED if gone else "", "")
        if stale or code == "PB-STATE-OLDER":
            manifest = replace(manifest, gate=None)  # it may have been answered
        return SessionOverview(store, session_id, manifest, said, driver, client, code, stale=stale)
    except PlaybookError as error:
        code, said = error.code, error.message
        if error.where:
            said = f"{said} ({error.where})"
        if code == "PB-STATE-NO-WORKTREE":
            written = store.written_manifest(session_id)  # of one that was removed by hand
            ended = written if written and written.status not in OPEN else None
    except OSError as error:  # of another user, for instance
        code, said = "PB-IO-READ", f"cannot use {error.filename}: {error.strerror}"
    return SessionOverview(store, session_id, ended, said, driver, client, code)


def _refused(store: DiskStore, manifest: Manifest) -> StateError | None:
    session_id = manifest.session_id
    if manifest.status not in (*OPEN, SessionStatus.FAILED):
        return None
    if manifest.status in OPEN:
        if doubted := store.doubt(session_id):
            return provenance.unconfirmed(session_id, doubted, store.runtime(session_id))
        if not store.drives(session_id):
            try:
                provenance.require_newest(store.checkout, store.folder(session_id))
            except StateError as error:
                return error
    now = store.standing(session_id)
    away = now.instead and not manifest.parent
    return session_branch.refusal(store.checkout, manifest, now) if away else None


def _is_stale(store: DiskStore, manifest: Manifest) -> bool:
    """True if it began in a worktree of this repository that is gone, and only a copy is left."""
    here, session_id = store.checkout, manifest.session_id
    if manifest.status not in OPEN or store.drives(session_id) or not manifest.worktree:
        return False
    place = (here.main_root / manifest.worktree).resolve()
    gone = not (place / ".git").exists() and (here.ids / session_id).is_dir()
    return gone and here.branch != manifest.branch and not home_elsewhere(here, manifest)


def _client(store: DiskStore, session_id: str) -> ClientState | None:
    private = store.runtime(session_id)
    bound = binding.load(private)
    if bound is None:
        return None
    hooked = not bound.hooked or binding.hooks_reach(store.checkout, bound)
    lives = binding.lives(bound)
    return ClientState(
        bound.pid, lives, bound.stalled, binding.dialog(private) if lives else "", hooked
    )


def _precedence(seen: SessionOverview) -> tuple[bool, bool, tuple[int, bool]]:
    main, manifest = seen.store.checkout.main_root, seen.manifest
    at_home = manifest and (main / manifest.worktree).resolve() == seen.root.resolve()
    length = _length(seen.store, seen.session_id)
    return seen.store.drives(seen.session_id), bool(at_home), length


def _order(seen: SessionOverview) -> tuple[int, int, str]:
    known, gate = seen.manifest, seen.gate
    if known is None:
        return 1, 0, seen.session_id
    if gate is not None:
        return 0, gate.opened_at, seen.session_id
    return (1 if seen.open else 2), -(known.completed_at or known.started_at), seen.session_id


# ── what a session has pinned ─────────────────────────────────────────────────────────────────


def pinned_playbook(
    store: DiskStore, session_id: str, manifest: Manifest | None
) -> Playbook | None:
    """The session's own playbook with its args; None if it is missing or unreadable."""
    try:
        data = read_bytes(store.reading(session_id) / "playbook.yaml")
        playbook = schema.read_playbook(data, "playbook.yaml")
        return bound(playbook, manifest.args) if manifest else playbook
    except (FileNotFoundError, PlaybookError):
        return None


def pinned_policy(store: DiskStore, session_id: str) -> Policy:
    """The session's policies; empty if they are missing or unreadable."""
    source = session_policy.FILE
    try:
        data = read_bytes(store.reading(session_id) / source)
        return session_policy.read_policy(data, source)
    except (FileNotFoundError, PlaybookError):
        return Policy()


def pinned_settings(store: DiskStore, session_id: str) -> Config:
    """The session's settings, else the project's. CheckError, StateError if they are unreadable."""
    source = session_settings.FILE
    try:
        data = read_bytes(store.reading(session_id) / source)
    except FileNotFoundError:
        return config.load(store.checkout.root)
    return session_settings.read_settings(data, source)


def settings_of(store: DiskStore, session_id: str) -> Config:
    """As `pinned_settings`; those of the project where no session is named."""
    return pinned_settings(store, session_id) if session_id else config.load(store.checkout.root)
