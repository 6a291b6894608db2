"""`probe`: conditions and triggers, evaluated now."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands import view
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Answer

_WORDS = {Answer.HELD: "held", Answer.NOT_HELD: "not held", Answer.ERROR: "cannot tell"}


@options.command
@click.argument(
    "names", metavar="CONDITION...", nargs=-1, required=True, shell_complete=completers.conditions
)
@click.option(
    "--feature",
    metavar="FEATURE",
    default="",
    help="The feature. Default: that of the session, else of the branch.",
)
@options.session
@options.json
def probe(names: tuple[str, ...], *, feature: str, session: str, json: bool) -> int:
    """Evaluate conditions and triggers now.

    Prints each with its evidence. A trigger is held if it would fire. Exit code 2 unless all are
    held.

    \b
    Conditions: spec_exists plan_exists tasks_exists agreement_exists agreement_pass
                qa_plan_exists qa_verdict_pass pr_created
    Triggers:   agreement_breaking verdict_fail

    \b
    Examples:
      playbook probe plan_exists tasks_exists
      playbook probe qa_verdict_pass --feature 013 --json
    """
    probed, warning = view.probe(names, feature=feature, session=session)
    if warning:
        output.show_notices([warning])
    if json:
        output.write_json(json_shapes.conditions(probed))
    else:
        rows = [(each.name, _WORDS[each.answer], printable(each.evidence)) for each in probed]
        output.write(*text.table(rows))
    return 0 if all(each.held for each in probed) else 2
