"""`init`: set up playbooks in a project."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import setup, text
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.commands.install.survey import Survey
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.records import replace as changed


@options.command
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option(
    "--commands",
    is_flag=True,
    help="Install the commands that the shipped playbooks need and the project lacks.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace commands called /playbook.* that are not ours; keep the old ones as *.old.",
)
@click.option(
    "--restore",
    multiple=True,
    metavar="FILE",
    help="Bring back an installed file that was deleted; also a playbook that does not fit.",
)
@click.option(
    "--no-hooks/--hooks",
    default=None,
    help="Leave .claude/settings.json alone. The choice is remembered.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
def init(
    *,
    yes: bool,
    commands: bool,
    replace: bool,
    restore: tuple[str, ...],
    no_hooks: bool | None,
    dry_run: bool,
) -> int:
    """Set up playbooks in this project.

    Shows for each file whether it will be written, kept, merged or is in conflict, then asks.
    Installs the playbooks whose commands the project has, and adds the project's test command to
    .playbooks/config.yaml as the check `test`. Files that are not ours are not overwritten unless
    you say so, deleted files stay deleted, and other settings are not changed. Running it again
    writes nothing.

    \b
    Examples:
      playbook init
      playbook init --dry-run
      playbook init --yes --commands
      playbook init --yes --replace
      playbook init --restore .playbooks/playbooks/auto-speckit.yaml
    """
    choices = install.Choices(no_hooks, replace, commands, restore)
    plan = install.plan(choices=choices)
    if output.is_interactive() and not (yes or dry_run):
        choices = _asked(choices, install.look(plan))
        plan = install.plan(choices=choices)
    found = install.look(plan)
    output.write(*text.table([(each.verb, each.path, each.why) for each in plan.actions]))
    if dry_run:
        output.inform(*setup.without_tests(found), *setup.remarks(found))
        return 0
    changes = bool(plan.changes)
    if changes and not yes:
        if not output.is_interactive():
            raise ArgumentError(
                "PB-ARG-USAGE",
                "there is no terminal to ask at",
                guidance="Run `playbook init --yes`; `--dry-run` only shows the plan.",
            )
        if not output.confirmed("Write these files?", default=True):
            output.inform("nothing was written")
            return 1
    install.apply(plan)
    output.inform(f"{'installed' if changes else 'nothing to do'} in {plan.root}")
    output.inform(*setup.without_tests(found), *setup.next_steps(found, fresh=changes))
    output.inform(*setup.remarks(found))
    return 0


def _asked(choices: install.Choices, found: Survey) -> install.Choices:
    """The choices with the person's answers to what the survey leaves open."""
    if found.foreign:
        output.inform(*setup.foreign(found))
        answer = output.confirmed("Replace them? The old ones are kept as *.old.", default=True)
        choices = changed(choices, replace=answer)
    if found.completing:
        output.inform(setup.offer(found))
        answer = output.confirmed("Install ours?", default=True)
        choices = changed(choices, commands=answer)
    if found.tests:
        output.inform(setup.tests(found.tests))
        answer = output.confirmed(setup.ask_for_tests(found.tests), default=True)
        choices = changed(choices, test_check=answer)
    return choices
