"""`metrics`: how long steps take, what they cost, and where people are waited for."""

from __future__ import annotations

import sys

from playbook_supervisor.api import auditing
from playbook_supervisor.cli import streams
from playbook_supervisor.cli.watching import can_draw
from playbook_supervisor.render import figures


def metrics(name: str = "", *, every: bool = False, playbook: str = "", json: bool = False) -> int:
    """Print the figures of the sessions that are meant."""
    measured = auditing.metrics(name, every=every, playbook=playbook)
    if json:
        streams.put_json(figures.as_json(measured))
        return 0
    for line in figures.lines(measured):
        streams.put(line)
    if can_draw(sys.stdout):
        from playbook_supervisor.render.terminal import show_tables

        show_tables(figures.sheets(measured), sys.stdout)
    else:
        for sheet in figures.sheets(measured):
            streams.put("\n".join(("", *figures.plain(sheet))))
    return 0
