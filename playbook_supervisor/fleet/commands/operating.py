"""The work of a person on a fleet as a whole: set it up, work for it, limit it, look after it.

A rebuilt database lacks what git does not have: answers that no worker had taken yet, the order of
the queue and the pools of the sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.errors import FleetError, PlaybookError, StateError
from playbook_supervisor.fleet import worker_settings
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.commands.deciding import require_person
from playbook_supervisor.fleet.engine import worker
from playbook_supervisor.fleet.engine.outcome import ENDS
from playbook_supervisor.fleet.engine.remotes import mirror_name
from playbook_supervisor.fleet.engine.session_ref import Mirror
from playbook_supervisor.fleet.engine.session_tip import Tip
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Limits, Row, State
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.records import as_mapping, replace
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.manifest import Manifest, read_manifest, valid_id
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.sessions.store.disk_store import SESSIONS
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import remove, written_at
from playbook_supervisor.system.git.clean_room import KeptRoom, remove_rooms

_DAY, _HOUR = 86_400_000, 3_600_000  # ms
_NS = 1_000_000  # of a ms
_DEEPEST = 16  # child sessions below each other
_NO_LIMITS = Limits()


def up() -> tuple[str, bool]:
    """Make the SQLite database of this machine, or check that the server's can be used.

    Its address, and whether its tables were made, or changed to this version's.
    """
    place = opening.address()
    if not place.shared:
        return migrate()
    if error := _not_up():
        raise FleetError(
            error.code,
            error.message,
            where=error.source,
            guidance="`playbook fleet migrate` makes its tables; the role must own the database.",
            cause=error.cause,
        ) from error
    return place.shown, False


def migrate() -> tuple[str, bool]:
    """Make the tables, or change them to this version's. Returns as `up`."""
    place = opening.address()
    if _not_up() is None:
        return place.shown, False
    opening.migrate(place)
    opening.opened().close()
    return place.shown, True


def _not_up() -> FleetError | None:
    try:
        opening.opened().close()
    except FleetError as error:
        if error.code != "PB-FLEET-NOT-UP":
            raise
        return error
    return None


def work(
    database: FleetDatabase,
    *,
    pools: Sequence[str] = (),
    slots: int | None = None,
    isolation: str = "",
    drain: bool = False,
    name: str = "",
    tell: Callable[[str, str], None],
    log: Callable[[str, str], None],
) -> int:
    """Work until a signal comes, whose number is returned, or until nothing is queued (`drain`).

    `pools`, `slots` and `isolation` count instead of those of worker.yaml. FleetError
    PB-FLEET-SETTINGS if that names no repositories although others can put sessions into the
    database, PolicyError PB-POLICY-ISOLATION if what it requires cannot be.
    """
    require_person("fleet worker")
    settings = worker_settings.load(shared=database.address.shared)
    if pools:
        settings = replace(settings, pools=worker_settings.pool_names(pools))
    if slots is not None:
        settings = replace(settings, slots=slots)
    settings = worker_settings.isolated(settings, isolation)
    name = name or worker.new_name()
    served = f"{', '.join(settings.pools)}; {counted(settings.slots, 'slot')}"
    tell("", f"worker {name}: pools {served}; {database.address.shown}")
    return worker.work(database, settings, name=name, drain=drain, tell=tell, log=log)


def limits(
    database: FleetDatabase, pool: str, changes: Limits = _NO_LIMITS, *, unlimited: bool = False
) -> Limits:
    """The limits of a pool, of which nothing has to be known yet, after these changes.

    What is None stays as it is, or with `unlimited` is removed.
    """
    changing = unlimited or changes != _NO_LIMITS
    if changing:
        require_person("fleet limits")
    (name,) = worker_settings.pool_names((pool,))
    former = database.limits(name)
    if not changing:
        return former
    kept = {} if unlimited else as_mapping(former)
    given = {each: value for each, value in as_mapping(changes).items() if value is not None}
    database.limit(name, Limits(**kept | given))
    return database.limits(name)


# ── prune ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pruned:
    """The rows, refs, folders, mirrors and clean rooms that are gone, and why others are not."""

    sessions: tuple[str, ...]
    refs: tuple[str, ...]
    workers: tuple[str, ...]
    mirrors: tuple[str, ...]
    rooms: tuple[KeptRoom, ...]
    notices: tuple[str, ...]


def prune(database: FleetDatabase, *, days: float, refs: bool = False) -> Pruned:
    """Remove sessions that ended more than so many days ago, and what killed workers left here.

    With `refs`, also the refs of these sessions at their remotes: the snapshots after the last push
    of their branches are lost then. On this machine it removes clones of workers that were killed,
    mirrors that no session needs and that were not used for as long, and abandoned clean rooms.
    """
    require_person("fleet prune")
    before, notices = database.now() - int(days * _DAY), list[str]()
    rows = database.rows()
    dropped = tuple(_drop(database.old(before), notices)) if refs else ()
    removed = tuple(database.prune(before))
    used = {mirror_name(row.repository) for row in rows if row.id not in removed}
    return Pruned(
        removed,
        dropped,
        worker.remove_abandoned(),
        tuple(_remove_mirrors(used, system_clock() - max(int(days * _DAY), _HOUR))),
        remove_rooms(lambda room: room.is_abandoned),
        tuple(notices),
    )


def _drop(due: Iterable[Row], notices: list[str]) -> Iterator[str]:
    """Delete the refs of these sessions; the sessions whose ref is gone."""
    settings = worker_settings.load()
    for row in due:
        try:
            mirror = opening.mirror(row.repository, settings)
            mirror.drop(mirror.tip(row.id))
        except PlaybookError as error:
            if error.code != "PB-STATE-NO-SESSION":
                notices.append(f"the ref of {row.id} stays: {error.message}")
            continue
        yield row.id


def _remove_mirrors(used: set[str], before: int) -> Iterator[str]:
    """Remove mirrors; none while a worker is at work here, maybe for another database."""
    workers = user_state.path("fleet") / "workers"
    if workers.is_dir() and any(workers.iterdir()):
        return
    for folder in sorted(opening.mirrors().glob("*.git")):
        if folder.name not in used and _last_use(folder) < before * _NS:
            remove(folder)
            yield folder.name


def _last_use(mirror: Path) -> int:
    """When an object was last added, in ns since the epoch: every claim and snapshot is one."""
    return max(map(written_at, (mirror, *(mirror / "objects").glob("*"))))


# ── rebuild ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The sessions that a repository has, how many rows changed, and what cannot be read."""

    repository: str
    rows: tuple[Row, ...]
    changed: int
    notices: tuple[str, ...]


def rebuild(database: FleetDatabase, mirror: Mirror, *, pool: str = "default") -> Rebuilt:
    """Insert or update the row of each session of the repository; open ones are queued.

    New rows get that pool; a row that is there keeps its pool, its priority and its answers.
    """
    require_person("fleet rebuild")
    tips, rows = mirror.tips(), []
    notices = list(mirror.notices)
    for tip in tips:
        try:
            rows.append(_row_of(mirror, tip, pool))
        except PlaybookError as error:
            notices.append(f"{tip.session} is left out: {error.message}")
    return Rebuilt(mirror.url, tuple(rows), database.restore(rows), tuple(notices))


def _row_of(mirror: Mirror, tip: Tip, pool: str) -> Row:
    session = _Files(mirror, tip)
    manifest = session.manifest(tip.session)
    state = ENDS.get(manifest.status, State.QUEUED)
    gate, choices = session.open_gate() if state is State.QUEUED else ("", ())
    if gate:
        state = State.WAITING
    return Row(
        id=tip.session,
        repository=mirror.url,
        branch=tip.branch,
        playbook=first_line(manifest.playbook),
        feature=first_line(manifest.feature),
        pool=pool,
        state=state,
        gate=gate,
        choices=choices,
        epoch=tip.epoch,
        created_at=manifest.started_at,
    )


class _Files:
    def __init__(self, mirror: Mirror, tip: Tip) -> None:
        self._mirror, self._tip = mirror, tip

    def manifest(self, session_id: str) -> Manifest:
        manifest = read_manifest(self._read(session_id, "session.yaml"), "session.yaml")
        if manifest.session_id != session_id:
            said = f"its session.yaml is that of {manifest.session_id}"
            raise StateError("PB-STATE-CORRUPT", said, where=self._tip.ref)
        return manifest

    def open_gate(self) -> tuple[str, tuple[str, ...]]:
        """The gate at which the session waits, and its choices; empty if it can go on.

        A worker that takes it finds what it waits for if several attempts were at work.
        """
        at_work = list(self._at_work(self._tip.session, ""))
        if len(at_work) != 1:
            return "", ()
        path, entry = at_work[0]
        gate = entry.gate
        name = f"{path}{gate.id}" if gate is not None else ""
        if gate is None or printable(name) != name:
            return "", ()
        choices = gates.offered(gate.reason, gate.place, gate.request)
        return name, tuple(each.value for each in choices)

    def _at_work(self, session_id: str, path: str, depth: int = 0) -> Iterator[tuple[str, Entry]]:
        """The attempts that have begun and not ended, at work or at a gate, the deepest ones."""
        for entry in self._entries(session_id):
            if entry.settled:
                continue
            if entry.session and entry.gate is None and depth < _DEEPEST:
                child = valid_id(entry.session)
                below = list(self._at_work(child, f"{path}{entry.id}/", depth + 1))
                yield from below or [(path, entry)]
            else:
                yield path, entry

    def _entries(self, session_id: str) -> Sequence[Entry]:
        return parse_journal(self._read(session_id, "journal.yaml"), "journal.yaml").entries

    def _read(self, session_id: str, name: str) -> bytes:
        place = f"{self._tip.commit}:{SESSIONS}/{session_id}/{name}"
        return self._mirror.git.ask("cat-file", "blob", place).encode()
