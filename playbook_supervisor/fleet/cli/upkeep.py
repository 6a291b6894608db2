"""`fleet worker`, and the upkeep of a fleet: `up`, `migrate`, `limits`, `retry`, `rebuild`, …"""

from __future__ import annotations

import re
import time

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.options import Level
from playbook_supervisor.cli.subcommands.doctor import show, show_removed
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.fleet.cli.status import open_sessions
from playbook_supervisor.fleet.commands import deciding, opening, operating
from playbook_supervisor.fleet.commands.examining import examine
from playbook_supervisor.fleet.commands.opening import opened
from playbook_supervisor.fleet.storage.rows import Limits
from playbook_supervisor.formats.sanitize import counted, first_line, printable

_STATE_ERROR = 3
_RATE = r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})\Z"

_repositories = click.option(
    "--repo", "urls", metavar="URL", multiple=True, help="A repository; may be repeated."
)


@options.command
def up() -> int:
    """Make the SQLite database, or check the one given.

    On PostgreSQL nothing is changed: it is checked that the database can be reached and has this
    version's tables.
    """
    address, made = operating.up()
    output.write(f"{'made' if made else 'ready'}: {address}")
    output.inform("next: playbook fleet worker, and playbook fleet submit PLAYBOOK FEATURE")
    return 0


@options.command
def migrate() -> int:
    """Make the tables of the database, or change them to this version's.

    Needs the right to create schemas. Workers of the version before that are at work go on, but
    none of them can be started any more.
    """
    address, made = operating.migrate()
    output.write(f"{'made' if made else 'up to date'}: {address}")
    return 0


@options.command
@click.argument("pool", metavar="[POOL]", default="default")
@click.option("--in-all", metavar="N", type=click.IntRange(min=1), help="Sessions at work at once.")
@click.option(
    "--per-repository",
    metavar="N",
    type=click.IntRange(min=1),
    help="Sessions of one repository at work at once.",
)
@click.option("--per-time", metavar="N/SECONDS", help="Sessions that may start in that time.")
@click.option("--none", "unlimited", is_flag=True, help="Remove all limits of the pool first.")
def limits(
    pool: str,
    *,
    in_all: int | None,
    per_repository: int | None,
    per_time: str | None,
    unlimited: bool,
) -> int:
    """Show or change how many sessions of a pool may run.

    What is not given stays as it is. The limits hold for all workers together; the slots of a
    worker are its own.
    """
    rate = _rate(per_time) if per_time else None
    with opened() as database:
        changes = Limits(in_all, per_repository, rate)
        found = operating.limits(database, pool, changes, unlimited=unlimited)
    output.write(f"{pool}: {_in_words(found)}")
    return 0


@options.command
@_repositories
@click.option("--pool", metavar="POOL", default="default", help="The pool of new rows.")
def rebuild(urls: tuple[str, ...], *, pool: str) -> int:
    """Read the sessions of repositories into the database, after it was lost.

    Sessions that can go on are queued. What is in the database stays: answers, pools, priorities.
    Lost with a database are answers that no worker had journaled yet, and the order of the queue.

    \b
    Examples:
      playbook fleet rebuild --repo https://github.com/acme/site
    """
    if not urls:
        raise click.UsageError("name the repositories: --repo URL")
    with opened() as database:
        for url in urls:
            found = operating.rebuild(database, opening.mirror(url), pool=pool)
            sessions = counted(len(found.rows), "session")
            output.write(f"{printable(found.repository)}: {sessions}, {found.changed} changed")
            output.show_notices(found.notices)
    output.inform("`playbook fleet status` shows them.")
    return 0


@options.command
@click.option(
    "--older-than",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    default=30.0,
    help="Sessions that ended before that. Default: 30.",
)
@click.option("--refs", is_flag=True, help="Also delete their refs at the remotes.")
def prune(*, older_than: float, refs: bool) -> int:
    """Remove what ended sessions have left.

    Their rows in the database, and on this machine the clones of workers that were killed,
    the mirrors that no session needs, and clean rooms whose repository is gone. Branches stay. With
    --refs the record of each take-up is deleted at the remotes, too: the branch keeps what was last
    pushed to it.
    """
    with opened() as database:
        gone = operating.prune(database, days=older_than, refs=refs)
    output.write(
        f"removed: {counted(len(gone.sessions), 'session')}, {counted(len(gone.refs), 'ref')}, "
        f"{counted(len(gone.workers), 'folder')} of workers, {counted(len(gone.mirrors), 'mirror')}"
    )
    show_removed(gone.rooms)
    output.show_notices(gone.notices)
    return _STATE_ERROR if gone.notices else 0


@options.command
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=open_sessions)
@click.option("--stuck", is_flag=True, help="All that are stuck.")
def retry(sessions: tuple[str, ...], *, stuck: bool) -> int:
    """Queue stuck or failed sessions again.

    A failed step runs again, as with `playbook resume --retry`.

    \b
    Examples:
      playbook fleet retry a7k
      playbook fleet retry --stuck
    """
    if bool(sessions) == stuck:
        raise click.UsageError("name sessions, or use --stuck")
    with opened() as database:
        for session in sessions:
            output.write(f"{deciding.retry(database, session).id} is queued again")
        if stuck:
            rows = deciding.retry_stuck(database)
            output.write(f"{counted(len(rows), 'session')} queued again")
    return 0


@options.command
@_repositories
def doctor(urls: tuple[str, ...]) -> int:
    """Check the database, the queue and this machine.

    Prints each finding and how to correct it. Exit code 3 if something is wrong. With --repo also
    whether workers here accept the repository, can fetch it, and can push sessions to it: it pushes
    one and removes it again.
    """
    return show(examine(urls))


@options.command
@click.option(
    "--pools",
    metavar="POOL,…",
    default="",
    help="The pools to take sessions from. Default: those of worker.yaml, else `default`.",
)
@click.option(
    "--slots",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="How many sessions at once. Default: that of worker.yaml, else 2.",
)
@options.isolation
@click.option("--drain", is_flag=True, help="End once nothing is queued or running.")
@click.option("--name", metavar="NAME", default="", help="The worker's name. Default: a new one.")
def worker(*, pools: str, slots: int | None, isolation: str | None, drain: bool, name: str) -> int:
    """Carry out the sessions of a fleet on this machine.

    It takes one session after another, advances each until it waits or ends, and pushes all to
    the session's repository. What it may fetch and run is in worker.yaml. Ctrl-C puts back what it
    has in hand.

    \b
    Examples:
      playbook fleet worker
      playbook fleet worker --pools default,nightly --slots 4
      playbook fleet worker --drain
    """
    level = options.level()

    def tell(session: str, sentence: str) -> None:
        if level >= Level.INFO:
            _tell(session, sentence)

    def log(session: str, sentence: str) -> None:
        if level >= Level.DEBUG:
            _tell(session, sentence)

    chosen = tuple(filter(None, pools.split(",")))
    with opened() as database:
        ended_by = operating.work(
            database,
            pools=chosen,
            slots=slots,
            isolation=isolation or "",
            drain=drain,
            name=name,
            tell=tell,
            log=log,
        )
    return 128 + ended_by if ended_by else 0


def _tell(session: str, sentence: str) -> None:
    output.inform(" ".join(filter(None, (time.strftime("%H:%M:%S"), session, sentence))))


def _rate(text: str) -> tuple[int, float]:
    found = re.match(_RATE, text)
    if not found:
        said = f"{first_line(text, 40)!r} is no number of sessions per seconds"
        raise ArgumentError("PB-ARG-USAGE", said, guidance="Write it as in --per-time 10/60.")
    return int(found[1]), float(found[2])


def _in_words(found: Limits) -> str:
    parts = []
    if found.in_all is not None:
        parts.append(f"{found.in_all} at once")
    if found.per_repository is not None:
        parts.append(f"{found.per_repository} of one repository")
    if found.per_time is not None:
        number, seconds = found.per_time
        parts.append(f"{number} may start in {seconds:g} s")
    return ", ".join(parts) or "no limits"
