"""`doctor`: the problems of this installation, and how to solve them."""

from __future__ import annotations

from collections.abc import Iterable

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands import isolation_report
from playbook_supervisor.commands.doctor import Diagnosis, examine
from playbook_supervisor.commands.isolation_report import Report, Row
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.system.git.clean_room import KeptRoom, remove_rooms

_STATE_ERROR = 3
_LABELS = {"fine": "ok", "advice": "could be better", "allowed": "allowed", "wrong": "WRONG"}


@options.command
@click.option("--clean", is_flag=True, help="Also remove the clean rooms that no check uses.")
@click.option("--isolation", is_flag=True, help="Try what agents can write, see and reach.")
@options.json
def doctor(*, clean: bool, isolation: bool, json: bool) -> int:
    """Check that this installation works.

    Prints each finding and how to correct it. Changes nothing. Exit code 3 if something is wrong.

    With --clean the clean rooms of all repositories go; the next check makes its own again.

    With --isolation a program of ours runs where agents would, and tries what they could do. It
    prints what is writable, separate (what is written there stays inside), read-only or hidden.
    Without isolation in the settings it tries that of `isolation: auto`. --json is for this table.

    \b
    Examples:
      playbook doctor
      playbook doctor --clean
      playbook doctor --isolation
    """
    if json and not isolation:
        raise click.UsageError("--json goes with --isolation")
    if clean:
        show_removed(remove_rooms())
    if not isolation:
        return show(examine())
    report = isolation_report.examine()
    if json:
        output.write_json(json_shapes.isolation(report))
        return _STATE_ERROR if report.wrong else 0
    return show_isolation(report)


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


def show_isolation(report: Report) -> int:
    """Print what was found by trials; the exit code."""
    if report.problem:
        label = _LABELS["wrong" if report.wrong else "advice"]
        output.write(printable(f"{label}  nothing is isolated: {report.problem}"))
        if report.cure:
            output.write(printable(f"  do: {report.cure}"))
    elif report.mode == "none":
        output.write("nothing is isolated; this is what `isolation: auto` gives here:")
    else:
        output.write(f"isolation: {report.mode}, by {report.backend}")
    if rows := [(_LABELS[row.state], row.what, _found(row)) for row in report.rows]:
        output.write(*text.table(rows))
    if report.mode == "none":
        output.write(f"  do: {isolation_report.SWITCH_ON}")
    output.inform("something is wrong" if report.wrong else "no problems found")
    return _STATE_ERROR if report.wrong else 0


def _found(row: Row) -> str:
    if row.state == "fine":
        return row.found
    if row.state == "allowed":
        return f"{row.found}, as the settings say"
    return f"{row.found}, and should be {row.expected}. {row.cure}".rstrip(" .")
