"""`doctor`: say what is missing, and how to mend it."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.commands.doctor import examine
from playbook_supervisor.formats.sanitize import printable

STATE = 3
_SIGNS = {"fine": "ok", "advice": "could be better", "wrong": "WRONG"}


def doctor() -> int:
    """A line for each finding, as it is found, and one for its cure."""
    wrong = False
    for finding in examine():
        wrong = wrong or finding.state == "wrong"
        streams.put(printable(f"{_SIGNS[finding.state]}  {finding.name}: {finding.found}"))
        if finding.cure:
            streams.put(printable(f"  do: {finding.cure}"))
    streams.tell("something is wrong" if wrong else "nothing is wrong")
    return STATE if wrong else 0
