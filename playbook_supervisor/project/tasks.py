"""Reads a list of tasks in Markdown: `- [ ] T001 Do this`. Pure."""

from __future__ import annotations

import re

from playbook_supervisor.project.verdicts import visible_lines
from playbook_supervisor.records import Record

_BOX = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[([xX]|[^\w\]]?)\](?:[ \t]+(.*))?\Z")


class Task(Record):
    """One task; anything in its box but an x means that it is not done."""

    text: str
    done: bool


def read_tasks(text: str) -> tuple[Task, ...]:
    """The list items with a box, outside code fences and comments, in order."""
    found = filter(None, map(_BOX.match, visible_lines(text)))
    return tuple(Task(box[2] or "", box[1] in ("x", "X")) for box in found)
