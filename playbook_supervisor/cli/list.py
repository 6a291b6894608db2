"""`list`: the playbooks of the project."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands import view
from playbook_supervisor.formats.sanitize import counted


def list(*, json: bool = False) -> int:
    """Print them, those that cannot run with their problem (kai FR9)."""
    shelved = view.playbooks()
    if json:
        streams.put_json(json_shapes.playbooks(shelved))
        return 0
    rows = [
        (each.name, "-", f"cannot run: {each.problem}")
        if each.problem
        else (each.name, counted(each.steps, "step"), each.description)
        for each in shelved
    ]
    for line in text.table(rows):
        streams.put(line)
    if not rows:
        streams.tell("There are no playbooks yet: `playbook init` writes the first.")
    return 0
