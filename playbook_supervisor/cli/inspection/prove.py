"""`prove`: checks of the project, made now."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands import proving
from playbook_supervisor.formats.sanitize import printable


@options.command
@click.argument("checks", metavar="[CHECK]...", nargs=-1, shell_complete=completers.checks)
@options.session
@options.json
def prove(checks: tuple[str, ...], *, session: str, json: bool) -> int:
    """Run checks of the project now, and keep what they prove.

    Runs all of them by default, and prints each with its evidence: exit status, time, the line that
    says most, and the tree that it ran on. A check that has passed on this very tree is not run
    again, neither here nor by a later step of the open session. CHECK is a name under `checks` in
    .playbooks/config.yaml, or "cli PROGRAM ARGUMENTS". Exit code 2 unless all pass.

    \b
    Examples:
      playbook prove
      playbook prove test lint
      playbook prove "cli make test" --json
    """
    proved, remark = proving.prove(
        checks, session=session, on_start=lambda name: output.inform(f"checking {printable(name)}")
    )
    if remark:
        output.show_notices([remark])
    if json:
        output.write_json(json_shapes.proved(proved))
    else:
        rows = [(each.check, _word(each), printable(each.evidence)) for each in proved]
        for each in proved:
            if not each.held:
                output.inform(*(f"  {line}" for line in each.lines))
        output.write(*text.table(rows))
    return 0 if all(each.held for each in proved) else 2


def _word(proved: proving.Proved) -> str:
    if proved.proof is None:
        return "cannot tell"
    return "passed" if proved.held else "failed"
