"""`init`: set up playbooks in a project."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.errors import ArgumentError


@options.command
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option(
    "--no-hooks/--hooks",
    default=None,
    help="Leave .claude/settings.json alone. The choice is remembered.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
def init(*, yes: bool, no_hooks: bool | None, dry_run: bool) -> int:
    """Set up playbooks in this project.

    Shows for each file whether it will be written, kept, merged or is in conflict, then asks.
    Files that are not ours are never overwritten, and other settings of Claude Code are not
    changed. Running it again writes nothing.

    \b
    Examples:
      playbook init
      playbook init --dry-run
      playbook init --yes
      playbook init --no-hooks
    """
    plan = install.plan(no_hooks=no_hooks)
    output.write(*text.table([(each.verb, each.path, each.why) for each in plan.actions]))
    if dry_run:
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
    output.inform(f"next: {plan.next_command}")
    if plan.next_command.startswith("playbook run "):
        in_client = plan.next_command.replace("playbook run", "/playbook.run", 1)
        output.inform(f"or, inside Claude Code: {in_client}")
    return 0
