"""`doctor`: the problems of this installation, and how to solve them."""

from __future__ import annotations

from collections.abc import Iterable

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands.doctor import Diagnosis, examine
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.system.git.clean_room import KeptRoom, remove_rooms

_STATE_ERROR = 3
_LABELS = {"fine": "ok", "advice": "could be better", "wrong": "WRONG"}


@options.command
@click.option("--clean", is_flag=True, help="Also remove the clean rooms that no check uses.")
def doctor(*, clean: bool) -> int:
    """Check that this installation works.

    Prints each finding and how to correct it. Changes nothing. Exit code 3 if something is wrong.

    With --clean the clean rooms of all repositories go; the next check makes its own again.

    \b
    Examples:
      playbook doctor
      playbook doctor --clean
    """
    if clean:
        show_removed(remove_rooms())
    return show(examine())


def show_removed(rooms: Iterable[KeptRoom]) -> None:
    """Print each clean room that was removed, with its size."""
    for room in rooms:
        output.write(printable(f"removed: the clean room of {room.shown}"))


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
