"""`fleet rebuild`: the rows of a database from the sessions' refs, after it was lost.

What git does not have is lost with the database: answers that no worker had taken yet, the order of
the queue and the pools of the sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from playbook_supervisor.commands.fleet import persons
from playbook_supervisor.drivers.fleet.database import FleetDatabase
from playbook_supervisor.drivers.fleet.outcome import ENDS
from playbook_supervisor.drivers.fleet.session_ref import Mirror
from playbook_supervisor.drivers.fleet.session_tip import Tip
from playbook_supervisor.drivers.fleet.storage.rows import Row, State
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import session_ids
from playbook_supervisor.sessions.journal import parse_journal
from playbook_supervisor.sessions.manifest import Manifest, read_manifest
from playbook_supervisor.sessions.store import SESSIONS

_DEEPEST = 16  # child sessions below each other


class Rebuilt(Record):
    """The sessions that a repository has, how many rows changed, and what cannot be read."""

    repository: str
    rows: tuple[Row, ...]
    changed: int
    notices: tuple[str, ...]


def rebuild(database: FleetDatabase, mirror: Mirror, *, pool: str = "default") -> Rebuilt:
    """Insert or update the row of each session of the repository; open ones get jobs.

    New rows get that pool; a row that is there keeps its pool, its priority and its answers.
    GitError PB-GIT-REMOTE; FleetError PB-FLEET-DATABASE; StateError PB-STATE-HUMAN-ONLY.
    """
    persons.require_person("fleet rebuild")
    tips = mirror.tips()
    rows, notices = [], list(mirror.notices)
    for tip in tips:
        try:
            rows.append(row_of(mirror, tip, pool))
        except PlaybookError as error:
            notices.append(f"{tip.session} is left out: {error.message}")
    return Rebuilt(mirror.url, tuple(rows), database.restore(rows), tuple(notices))


def row_of(mirror: Mirror, tip: Tip, pool: str) -> Row:
    """The row of the session at that tip. StateError if its files cannot be read."""
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
    """The files of a session and its child sessions in the tree of a tip."""

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

        It can, too, where several gates are open or other attempts were at work: a worker that
        takes it finds what it waits for.
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
                child = session_ids.valid(entry.session)
                below = list(self._at_work(child, f"{path}{entry.id}/", depth + 1))
                yield from below or [(path, entry)]
            else:
                yield path, entry

    def _entries(self, session_id: str) -> Sequence[Entry]:
        return parse_journal(self._read(session_id, "journal.yaml"), "journal.yaml").entries

    def _read(self, session_id: str, name: str) -> bytes:
        place = f"{self._tip.commit}:{SESSIONS}/{session_id}/{name}"
        return self._mirror.git.ask("cat-file", "blob", place).encode()
