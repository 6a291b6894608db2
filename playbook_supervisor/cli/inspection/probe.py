"""`probe`: conditions and triggers, evaluated now."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands.views import queries
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

    A parameter follows the name: command_succeeds=test runs the check `test` of the settings.
    Changes are those since the last launch of the session.

    \b
    Conditions: spec_exists plan_exists tasks_exists agreement_exists agreement_pass
                qa_plan_exists qa_verdict_pass pr_created tasks_done git_clean
                file_exists=PATH file_contains="PATH TEXT" verdict_pass=PATH
                branch_exists=NAME tag_exists=NAME command_succeeds=CHECK
                command_fails=CHECK proved=CHECK changes_made=GLOB changes_within=GLOB
                commits_made
    Triggers:   agreement_breaking verdict_fail

    \b
    Examples:
      playbook probe plan_exists tasks_exists
      playbook probe command_succeeds=test git_clean
      playbook probe qa_verdict_pass --feature 013 --json
    """
    probed, warning = queries.probe(
        names,
        feature=feature,
        session=session,
        on_check=lambda name: output.inform(f"checking {printable(name)}"),
    )
    if warning:
        output.show_notices([warning])
    if json:
        output.write_json(json_shapes.conditions(probed))
    else:
        rows = [(each.name, _WORDS[each.answer], printable(each.evidence)) for each in probed]
        output.write(*text.table(rows))
    return 0 if all(each.held for each in probed) else 2
