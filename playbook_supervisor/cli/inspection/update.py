"""`update`: bring installed files to the version of this program."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands.install import update as upgrade
from playbook_supervisor.formats.sanitize import printable


@options.command
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is out of date.")
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@options.json
def update(*, check: bool, dry_run: bool, json: bool) -> int:
    """Update what `playbook init` installed.

    Files that you have not edited are replaced. An edited file stays, and its new version is
    written beside it as *.new. Deleted files stay deleted. Your own playbooks and sessions are
    not touched.

    \b
    Examples:
      playbook update
      playbook update --dry-run
      playbook update --check
    """
    plan = upgrade.plan()
    applies = not (check or dry_run)
    if applies:
        upgrade.apply(plan)
    if json:
        output.write_json(json_shapes.update(plan, applied=applies))
    else:
        shown = plan.changes if check else plan.notable
        rows = [(action.verb, action.path, action.why) for action in shown]
        output.write(*map(printable, text.table(rows)))
    stale = len(plan.changes)
    if not stale:
        output.inform("everything is up to date")
    elif applies:
        output.inform(f"updated in {plan.root}")
    else:
        output.inform("out of date; run `playbook update`")
    return 1 if check and stale else 0
