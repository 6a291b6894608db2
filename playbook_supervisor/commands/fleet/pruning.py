"""`fleet prune`: remove what ended sessions have left in the database, at remotes and here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from playbook_supervisor.commands.fleet import opening, persons
from playbook_supervisor.drivers.fleet import worker
from playbook_supervisor.drivers.fleet.database import FleetDatabase
from playbook_supervisor.drivers.fleet.remotes import mirror_name
from playbook_supervisor.drivers.fleet.storage.rows import Row
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.project import worker_settings
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.session_clock import system_clock
from playbook_supervisor.system import user_state
from playbook_supervisor.system.files import remove, written_at

DAYS = 30.0
"""How many days an ended session is kept, unless another number is given."""

_DAY, _HOUR = 86_400_000, 3_600_000  # ms
_NS = 1_000_000  # of a ms


class Pruned(Record):
    """What was removed: rows of sessions, refs at remotes, folders of workers, mirrors.

    `notices` tell of what could not be removed.
    """

    sessions: tuple[str, ...]
    refs: tuple[str, ...]
    workers: tuple[str, ...]
    mirrors: tuple[str, ...]
    notices: tuple[str, ...]


def prune(database: FleetDatabase, *, days: float = DAYS, refs: bool = False) -> Pruned:
    """Remove sessions that ended more than so many days ago, and what killed workers left here.

    With `refs`, also the refs of these sessions at their remotes: the snapshots after the last push
    of their branches are lost then. On this machine it removes clones of workers that were killed,
    and mirrors that no session of the fleet needs and that were not used for as long.
    StateError PB-STATE-HUMAN-ONLY, FleetError PB-FLEET-DATABASE.
    """
    persons.require_person("fleet prune")
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
