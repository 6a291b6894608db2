"""`probe`, `prove` and `graph`: conditions and checks now, and a chart."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.cli.render.flowchart import flowchart
from playbook_supervisor.commands import proving
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


@options.command
@click.argument("playbook", metavar="[PLAYBOOK]", default="", shell_complete=completers.playbooks)
@click.option(
    "--session",
    metavar="ID",
    default="",
    shell_complete=completers.sessions,
    help="Draw this session's progress in the playbook that it began with.",
)
def graph(playbook: str, *, session: str) -> int:
    """Draw a playbook or a session as a Mermaid flowchart.

    GitHub and other forges render the text in a ```mermaid block. The chart shows the steps with
    their conditions, what runs in parallel, and where a human decides.

    \b
    Examples:
      playbook graph auto-feature
      playbook graph auto-feature --session 20260219-a7k
    """
    diagram = queries.graph(playbook, session=session)
    output.write(flowchart(diagram.playbook, diagram.entries, diagram.manifest, diagram.children))
    return 0
