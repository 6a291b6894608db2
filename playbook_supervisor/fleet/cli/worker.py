"""`fleet worker`: carry out the sessions of a fleet on this machine."""

from __future__ import annotations

import time

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.options import Level
from playbook_supervisor.fleet.commands import operating
from playbook_supervisor.fleet.commands.opening import opened


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
            _print(session, sentence)

    def log(session: str, sentence: str) -> None:
        if level >= Level.DEBUG:
            _print(session, sentence)

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


def _print(session: str, sentence: str) -> None:
    output.inform(" ".join(filter(None, (time.strftime("%H:%M:%S"), session, sentence))))
