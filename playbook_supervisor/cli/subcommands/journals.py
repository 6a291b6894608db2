"""`audit` and `metrics`: what the journals of sessions tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from playbook_supervisor.audit.examination import AuditReport
from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import findings, metrics_tables
from playbook_supervisor.commands.views.session_files import audit as audit_sessions
from playbook_supervisor.commands.views.session_files import metrics as measure_sessions
from playbook_supervisor.formats.problems import FileReport, Problem
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.records import replace


@options.command
@click.argument("names", metavar="[SESSION]...", nargs=-1, shell_complete=completers.sessions)
@click.option(
    "--all",
    is_flag=True,
    help="Audit every session of every worktree, and of a fleet's references.",
)
@options.output_format
@click.option("--json", is_flag=True, hidden=True)
def audit(names: tuple[str, ...], *, all: bool, format: str, json: bool) -> int:
    """Check journals for contradictions.

    It reads any journal, also those of other tools. A SESSION is an id, a session's folder or a
    journal file. Default: the session of this worktree. Changes nothing. Exit code 1 if there is a
    finding; docs/audit.md lists the rules.

    \b
    Examples:
      playbook audit
      playbook audit 20260219-a7k 20260220-b3m
      playbook audit --all --format github
      git clone --mirror URL m.git && cd m.git && playbook audit --all
      playbook audit ../other/.playbooks/sessions/20260219-a7k/journal.yaml
    """
    if all and names:
        raise click.UsageError("--all and SESSION cannot be combined")
    audited = audit_sessions(names, every=all)
    files = [_counted(file) for each in audited for file in each.files]
    if json or format == "json":
        output.write_json({"protocol": 1, "sessions": [_as_json(each) for each in audited]})
    else:
        lines = findings.as_github(files) if format == "github" else findings.as_text(files)
        output.write(*lines)
        if format == "text":
            output.show_notices(
                [
                    f"{first_line(each.name or each.files[0].file)}: {note}"
                    for each in audited
                    for note in each.notes
                ]
            )
            found = sum(len(file.problems) for each in audited for file in each.files)
            said = counted(found, "finding") if found else "fine"
            output.inform(f"{counted(len(audited), 'session')}: {said}")
    return 1 if any(not each.ok for each in audited) else 0


def _as_json(audited: AuditReport) -> dict[str, Any]:
    return {
        **({"session": audited.name} if audited.name else {}),
        "files": [file.file for file in audited.files],
        "ok": audited.ok,
        "findings": [
            {
                "file": file.file,
                "line": problem.line,
                "col": problem.col,
                "code": problem.code,
                "message": problem.message,
                "guidance": problem.guidance,
                "count": count,
            }
            for file in audited.files
            for problem, count in _equal(file)
        ],
        "notes": [*audited.notes],
    }


def _equal(file: FileReport) -> Iterator[tuple[Problem, int]]:
    """Each finding that differs from the others by more than its place, and how often it is."""
    counts = Counter((problem.code, problem.message) for problem in file.problems)
    for problem in file.problems:
        if count := counts.pop((problem.code, problem.message), 0):
            yield problem, count


def _counted(file: FileReport) -> FileReport:
    return FileReport(
        file.file,
        tuple(
            problem
            if count == 1
            else replace(problem, message=f"{problem.message} ({count} times, here first)")
            for problem, count in _equal(file)
        ),
    )


@options.command
@options.session_argument
@click.option("--all", is_flag=True, help="Include every session of every worktree.")
@click.option(
    "--playbook",
    metavar="NAME",
    default="",
    shell_complete=completers.playbooks,
    help="Include every session of this playbook.",
)
@options.json
def metrics(named: str, *, session: str, all: bool, playbook: str, json: bool) -> int:
    """Show durations, costs and waiting times.

    For one session, or for many together. All values come from the journals; a missing value is
    not counted as 0.

    \b
    Examples:
      playbook metrics
      playbook metrics 20260219-a7k --json
      playbook metrics --all
      playbook metrics --playbook auto-feature
    """
    name = options.chosen_session(named, session)
    if name and (all or playbook):
        raise click.UsageError("a session, --all and --playbook cannot be combined")
    measured = measure_sessions(name, every=all, playbook=playbook)
    if json:
        output.write_json(metrics_tables.as_json(measured))
        return 0
    output.write(*metrics_tables.lines(measured))
    width = output.terminal_width() or metrics_tables.WIDTH
    for sheet in metrics_tables.sheets(measured):
        head, *rows = metrics_tables.plain(sheet, width)
        output.write("", f"\x1b[1m{head}\x1b[0m" if output.wants_colour() else head, *rows)
    return 0
