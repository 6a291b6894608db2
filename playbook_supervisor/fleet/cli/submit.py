"""`fleet submit`: a session for the workers of a fleet."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.fleet.commands import submitting
from playbook_supervisor.fleet.commands.opening import opened
from playbook_supervisor.formats.versions import PROTOCOL


@options.command
@options.playbook
@click.option(
    "--repo",
    metavar="URL",
    default="",
    help="The repository. Default: the remote of this checkout.",
)
@click.option(
    "--base", metavar="BRANCH", default="", help="Begin at this branch. Default: the remote's."
)
@click.option("--branch", metavar="NAME", default="", help="The branch to work on.")
@click.option(
    "--pool", metavar="POOL", default="default", help="The workers that may take it: `default`."
)
@click.option(
    "--priority",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=0,
    help="Within a repository, a higher one begins first. Default: 0.",
)
@click.option(
    "--after", metavar="SESSION", default="", help="Wait until this session is completed."
)
@options.driving
@options.json
def submit(
    playbook: str,
    args: tuple[str, ...],
    *,
    repo: str,
    base: str,
    branch: str,
    pool: str,
    priority: int,
    after: str,
    json: bool,
    **values: object,
) -> int:
    """Queue a session for the workers of a fleet.

    It begins at what the repository's remote has, not at what is in this folder. Any worker may
    take it, on any machine. `playbook fleet status` shows how far it is.

    \b
    Examples:
      playbook fleet submit auto-feature 013
      playbook fleet submit auto-feature 013 --max-cost-usd 5 --priority 10
      playbook fleet submit auto-change "add --json" --repo https://github.com/acme/site.git
      playbook fleet submit auto-validate 013 --after 20260219-a7k
    """
    drive = options.drive_options(values)
    submission = submitting.Submission(
        reference=playbook,
        given=args,
        repository=repo,
        base=base,
        branch=branch,
        pool=pool,
        priority=priority,
        after=after,
        drive=drive,
    )
    with opened() as database:
        made = submitting.submit(database, submission)
    new = made.session
    output.show_notices(made.warnings)
    if json:
        output.write_json(
            {
                "protocol": PROTOCOL,
                "session": new.id,
                "playbook": new.playbook,
                "feature": new.feature,
                "repository": new.repository,
                "branch": new.branch,
                "base": made.base,
                "commit": made.commit,
                "pool": new.pool,
            }
        )
        return 0
    what = f"{new.playbook} {new.feature}".rstrip()
    output.write(new.id)
    output.inform(
        f"{what} is queued for pool {new.pool}, on branch {new.branch}, "
        f"from {made.base} ({made.commit[:7]}) of {new.repository}"
    )
    return 0
