"""`update`: bring what was installed to the version that runs."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands.install import update as upgrade
from playbook_supervisor.formats.sanitize import printable


def update(*, check: bool = False, dry_run: bool = False, json: bool = False) -> int:
    """Do it, or only say what is out of date: with `check` that is 1."""
    plan = upgrade.plan()
    applies = not (check or dry_run)
    if applies:
        upgrade.apply(plan)
    if json:
        streams.put_json(json_shapes.update(plan, applied=applies))
    else:
        shown = plan.changes if check else plan.notable
        for line in text.table([(each.verb, each.path, each.why) for each in shown]):
            streams.put(printable(line))
    stale = len(plan.changes)
    if not stale:
        streams.tell("everything is up to date")
    elif applies:
        streams.tell(f"updated in {plan.root}")
    else:
        streams.tell("out of date; `playbook update` mends it")
    return 1 if check and stale else 0
