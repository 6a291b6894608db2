"""`index`: update `.playbooks/_index.yaml`."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands.index import index as update_index


@options.command
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if it is out of date.")
def index(*, check: bool) -> int:
    """Update .playbooks/_index.yaml.

    It is rewritten only if its content has changed.

    \b
    Examples:
      playbook index
      playbook index --check
    """
    rewritten = update_index(check=check)
    output.inform("index rewritten" if rewritten else "the index is up to date")
    return 0
