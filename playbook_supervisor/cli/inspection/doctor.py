"""`doctor`: the problems of this installation, and how to solve them."""

from __future__ import annotations

from collections.abc import Iterable

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands.doctor import Diagnosis, examine
from playbook_supervisor.formats.sanitize import printable

_STATE_ERROR = 3
_LABELS = {"fine": "ok", "advice": "could be better", "wrong": "WRONG"}


@options.command
def doctor() -> int:
    """Check that this installation works.

    Prints each finding and how to correct it. Changes nothing. Exit code 3 if something is wrong.

    \b
    Examples:
      playbook doctor
    """
    return show(examine())


def show(findings: Iterable[Diagnosis]) -> int:
    """Print each finding with its cure; the exit code."""
    wrong = False
    for finding in findings:
        wrong = wrong or finding.state == "wrong"
        output.write(printable(f"{_LABELS[finding.state]}  {finding.name}: {finding.found}"))
        if finding.cure:
            output.write(printable(f"  do: {finding.cure}"))
    output.inform("something is wrong" if wrong else "no problems found")
    return _STATE_ERROR if wrong else 0
