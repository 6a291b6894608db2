"""`fleet doctor`: what does not work in the fleet, as seen from this machine, with its cure."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.commands.doctor import Diagnosis
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.fleet import worker_settings
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.commands.overview import FleetSession
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Row, State
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.formats.timestamps import duration
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.process.processes import run

_SKEW = 5_000  # ms between the database's clock and ours
_LITTLE, _TOO_LITTLE = 5 << 30, 200 << 20  # bytes of free space
_NAMED = 5
_SECONDS = 30.0
_NO_SESSION = "00000000"  # a date that no session has


def examine(urls: Sequence[str]) -> Iterator[Diagnosis]:
    """Check this machine, the database, what is in it, and these repositories.

    Nothing is changed, but at each repository, where a session's ref is pushed and removed again.
    """
    try:
        driver = f"psycopg {version('psycopg')}"
    except PackageNotFoundError:
        driver = "no psycopg"
    yield Diagnosis("playbook", "fine", f"{__version__} with {driver}")
    yield from _checked("git", _git)
    yield from _checked("disk", _disk)
    yield from _checked("worker.yaml", _settings)
    yield from _checked("database", _database)
    for url in urls:
        yield from _checked(f"repository {first_line(url, 120)}", _repository, url)


def _checked(
    name: str, check: Callable[..., Iterator[Diagnosis]], *arguments: object
) -> Iterator[Diagnosis]:
    try:
        yield from check(*arguments)
    except PlaybookError as error:
        cause = f" ({first_line(error.cause)})" if error.cause else ""
        guidance = error.guidance.replace("; `playbook fleet doctor`.", ".")  # it is what runs
        yield Diagnosis(name, "wrong", f"{error.message}{cause}", guidance)


# ── this machine ────────────────────────────────────────────────────────────────────────────


def _git() -> Iterator[Diagnosis]:
    done = run(["git", "--version"], cwd=Path.home(), timeout=_SECONDS)
    yield Diagnosis("git", "fine", first_line(done.stdout))


def _disk() -> Iterator[Diagnosis]:
    folder = user_state.path("fleet")
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    found = f"{free / (1 << 30):.1f} GiB free for clones in {folder}"
    cure = "Free some space; `playbook fleet prune` removes what ended sessions have left."
    if free >= _LITTLE:
        yield Diagnosis("disk", "fine", found)
    else:
        yield Diagnosis("disk", "wrong" if free < _TOO_LITTLE else "advice", found, cure)


def _settings() -> Iterator[Diagnosis]:
    try:
        shared = opening.address().shared
    except PlaybookError:  # the check of the database says so
        shared = False
    settings = worker_settings.load(shared=shared)
    if settings.repositories is None:
        serves = "all repositories"
    else:
        serves = ", ".join(settings.repositories) or "no repository"
    pools = ", ".join(settings.pools)
    found = f"serves {serves} by {', '.join(settings.transports)}; pools: {pools}; "
    yield Diagnosis("worker.yaml", "fine", f"{found}{counted(settings.slots, 'slot')}")


# ── the database ────────────────────────────────────────────────────────────────────────────


def _database() -> Iterator[Diagnosis]:
    place = opening.address()
    with opening.opened() as database:
        began = system_clock()
        clock = database.now()
        took = system_clock() - began
        who = f" as {database.role}" if place.shared else ""
        yield Diagnosis("database", "fine", f"{place.shown}{who}, answers in {took} ms")
        yield from _file(place)
        yield _clock(clock, began, took)
        yield from _checked("rights", _rights, database)
        yield from _checked("sessions", _sessions, database)


def _file(place: Address) -> Iterator[Diagnosis]:
    if place.file is not None and place.file.stat().st_mode & 0o077:
        cure = f"chmod 600 {place.file}"
        yield Diagnosis("database file", "wrong", "other users can read or change it", cure)


def _clock(clock: int, began: int, took: int) -> Diagnosis:
    apart = abs(clock - began - took // 2)
    if apart <= _SKEW + took:
        return Diagnosis("clock", "fine", "as the database's")
    found = f"{duration(apart)} {'behind' if clock > began else 'ahead of'} the database's"
    cure = "Leases count by the database's clock, so nothing breaks; times in journals differ."
    return Diagnosis("clock", "advice", found, cure)


def _rights(database: FleetDatabase) -> Iterator[Diagnosis]:
    """Try to change a row with this role: the one of a session that there is not is locked."""
    try:
        database.retry(f"{_NO_SESSION}-000")
    except StateError:
        yield Diagnosis("rights", "fine", f"{database.role} can change what the fleet knows")


def _sessions(database: FleetDatabase) -> Iterator[Diagnosis]:
    rows, now = database.rows(open_only=True), database.now()
    for notice in database.notices:
        cure = "`playbook fleet rebuild` writes the row again."
        yield Diagnosis("rows", "wrong", notice, cure)
    counts = ", ".join(
        f"{number} {state}" for state in State if (number := sum(r.state is state for r in rows))
    )
    yield Diagnosis("sessions", "fine", counts or "none is open")
    for row in [row for row in rows if row.state is State.STUCK][:_NAMED]:
        retry = f"Then `playbook fleet retry {row.id}`."
        cure = f"{FleetSession(row).cure} {retry}" if row.error else retry
        yield Diagnosis("stuck", "wrong", f"{row.id}: {row.said} [{row.error}]", cure)
    lapsed = [row for row in rows if row.state is State.RUNNING and row.lease_until < now]
    if lapsed:
        found = f"{_named(lapsed)}: the lease has lapsed and no worker has noticed"
        yield Diagnosis("leases", "wrong", found, "Start a worker: `playbook fleet worker`.")


def _named(rows: Sequence[Row]) -> str:
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(row.id for row in rows[:_NAMED]) + more


# ── a repository ────────────────────────────────────────────────────────────────────────────


def _repository(url: str) -> Iterator[Diagnosis]:
    settings = worker_settings.load()
    mirror = opening.mirror(url, settings)
    name = f"repository {first_line(mirror.url, 120)}"
    if settings.admits(mirror.url):
        yield Diagnosis(name, "fine", "workers here serve it")
    else:
        cure = f"Add it to `repositories` in {worker_settings.path()}, if it may run here."
        yield Diagnosis(name, "wrong", "workers here do not serve it", cure)
    commit, branch = mirror.base()
    yield Diagnosis(name, "fine", f"fetched; its default branch is {first_line(branch, 80)}")
    session = f"{_NO_SESSION}-{secrets.token_hex(2)[:3]}"
    with mirror.for_a_while(commit, f"playbook-doctor-{session}") as clone:
        tip = clone.create(session)
        mirror.drop(tip)
    if tip.ref.startswith("refs/heads/"):
        found = "takes sessions only as branches, playbook-sessions/ID: it refuses refs/playbook/"
        yield Diagnosis(name, "advice", found, "Nothing to do, unless these branches disturb you.")
    else:
        yield Diagnosis(name, "fine", "takes sessions, as refs/playbook/sessions/ID")
