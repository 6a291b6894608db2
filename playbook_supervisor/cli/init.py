"""`init`: put playbooks into a project."""

from __future__ import annotations

import sys

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.errors import ArgumentError


def init(*, yes: bool = False, no_hooks: bool | None = None, dry_run: bool = False) -> int:
    """Show the plan, and carry it out if the person agrees (kai FR42)."""
    plan = install.plan(no_hooks=no_hooks)
    rows = [(action.verb, action.path, action.why) for action in plan.actions]
    for line in text.table(rows):
        streams.put(line)
    if dry_run:
        return 0
    changes = bool(plan.changes)
    if changes and not yes and not _agreed():
        streams.tell("nothing was written")
        return 1
    install.apply(plan)
    streams.tell(f"{'installed' if changes else 'nothing to do'} in {plan.root}")
    streams.tell(f"next: {plan.next_command}")
    if plan.next_command.startswith("playbook run "):
        streams.tell(f"or, inside Claude Code: {_typed_there(plan.next_command)}")
    return 0


def _typed_there(command: str) -> str:
    return command.replace("playbook run", "/playbook.run", 1)


def _agreed() -> bool:
    if not streams.at_a_terminal():
        raise ArgumentError(
            "PB-ARG-USAGE",
            "there is no terminal to ask at",
            guidance="Say `playbook init --yes`; `--dry-run` only shows the plan.",
        )
    sys.stdout.flush()
    sys.stderr.write("Write this? [Y/n] ")
    sys.stderr.flush()
    said = sys.stdin.readline()
    return said.strip().casefold() in ("", "y", "yes") and said != ""
