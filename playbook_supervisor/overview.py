"""The sessions of all worktrees, as people look for them: those that wait for a human come first.

Reads only, and takes no lock: one that is broken, diverged or driven is shown all the same.
"""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor import checkout, schema
from playbook_supervisor.drivers import presence
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.presence import Driver
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.files import read_bytes
from playbook_supervisor.manifest import Manifest
from playbook_supervisor.model import Playbook
from playbook_supervisor.records import Record
from playbook_supervisor.selection import OPEN
from playbook_supervisor.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_CLAUDE: Final = "claude-code"


class Client(Record):
    """How it stands with the Claude Code conversation to which a session is bound.

    `lives` says whether its process does, `stalled` that its model went round in circles, `dialog`
    the tool for which it waits for a permission, `held` whether its hooks reach the session.
    """

    pid: int
    lives: bool
    stalled: bool
    dialog: str
    held: bool


class Seen(Record):
    """One session as it stands on the disk of one worktree.

    `manifest` is None and `problem` says why where it cannot be read. `driver` is the process that
    drives it, `client` the conversation to which it is bound, if it is to any; `activity` is ns
    since the epoch.
    """

    store: Store
    session_id: str
    manifest: Manifest | None
    problem: str = ""
    driver: Driver | None = None
    activity: int = 0
    client: Client | None = None

    @property
    def root(self) -> Path:
        """The worktree in which it stands."""
        return self.store.checkout.root

    @property
    def open(self) -> bool:
        """Whether it has not ended; one that cannot be read counts as open."""
        return self.manifest is None or self.manifest.status in OPEN


def sessions(store: Store) -> tuple[Seen, ...]:
    """Every session once: those that wait, the longest first; then by latest activity.

    A session's folder is in git, so that it may stand in several worktrees: the one that drives
    it counts, else the one that it names, else the one where it was written last.
    """
    found: dict[str, list[Seen]] = {}
    for other in stores(store):
        for session_id in {*other.ids(), *other.vanished()}:
            found.setdefault(session_id, []).append(_look(other, session_id))
    seen = [max(each, key=_authority) for each in found.values()]
    return tuple(sorted(seen, key=_urgency))


def find(store: Store, session_id: str) -> Store:
    """The store of the worktree in which a session lives. StateError if there is none."""
    for seen in sessions(store):
        if seen.session_id == session_id:
            return seen.store
    store.manifest(session_id)  # says in its own words why there is none
    return store


def stores(store: Store) -> list[Store]:
    """This worktree's sessions, and those of every other worktree of the repository."""
    found = [store]
    if not (store.checkout.common_dir / "worktrees").is_dir():
        return found
    from playbook_supervisor.repository import worktrees

    for worktree in worktrees(store.checkout.root):
        try:
            other = checkout.find(worktree.path)
        except StateError:
            continue  # its folder is gone, or the repository is bare
        if other.root not in {known.checkout.root for known in found}:
            found.append(Store(other, clock=store.clock))
    return found


def pinned(store: Store, session_id: str) -> Playbook | None:
    """The playbook that the session runs; None where none is kept or it cannot be read."""
    try:
        data = read_bytes(store.folder(session_id) / "playbook.yaml")
        return schema.read_playbook(data, "playbook.yaml")
    except (FileNotFoundError, PlaybookError):
        return None


def _look(store: Store, session_id: str) -> Seen:
    driver, activity, client = None, 0, None
    try:
        client = _client(store, session_id)
        driver = presence.living(store.runtime(session_id))
        if driver is None and client is not None and client.lives:
            driver = Driver(client.pid, _CLAUDE)
        activity = store.activity(session_id)
        manifest = store.manifest(session_id)
        return Seen(store, session_id, manifest, "", driver, activity, client)
    except PlaybookError as error:
        said = f"{error.message} ({error.where})" if error.where else error.message
        if error.code == "PB-STATE-NO-SESSION":
            said = "its files have vanished; the next command restores them"
        return Seen(store, session_id, None, said, driver, activity, client)


def _client(store: Store, session_id: str) -> Client | None:
    private = store.runtime(session_id)
    bound = binding.load(private)
    if bound is None:
        return None
    held = not bound.hooked or binding.hooks_reach(store.checkout, bound)
    lives = binding.lives(bound)
    return Client(bound.pid, lives, bound.stalled, binding.dialog(private) if lives else "", held)


def _authority(seen: Seen) -> tuple[bool, bool, int]:
    return seen.store.drives(seen.session_id), _at_home(seen), seen.activity


def _at_home(seen: Seen) -> bool:
    if seen.manifest is None:
        return False
    main = seen.store.checkout.main_root
    return (main / seen.manifest.worktree).resolve() == seen.root.resolve()


def _urgency(seen: Seen) -> tuple[int, int, str]:
    gate = seen.manifest.gate if seen.manifest else None
    if gate is not None:
        return 0, gate.opened_at, seen.session_id
    return (1 if seen.open else 2), -seen.activity, seen.session_id
