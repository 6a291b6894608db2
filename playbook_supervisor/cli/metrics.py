"""`metrics`: how long steps take, what they cost, and where people are waited for."""

from __future__ import annotations

import sys

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import metrics_tables
from playbook_supervisor.cli.watchers import can_draw
from playbook_supervisor.commands import auditing


def metrics(name: str = "", *, every: bool = False, playbook: str = "", json: bool = False) -> int:
    """Print the figures of the sessions that are meant."""
    measured = auditing.metrics(name, every=every, playbook=playbook)
    if json:
        streams.put_json(metrics_tables.as_json(measured))
        return 0
    for line in metrics_tables.lines(measured):
        streams.put(line)
    if can_draw(sys.stdout):
        from playbook_supervisor.cli.render.terminal import show_tables

        show_tables(metrics_tables.sheets(measured), sys.stdout)
    else:
        for sheet in metrics_tables.sheets(measured):
            streams.put("\n".join(("", *metrics_tables.plain(sheet))))
    return 0
