"""`schema`: the JSON Schema of a document."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.project.playbooks.schema import schema_text


@options.command
@click.argument("name", metavar="[NAME]", default="playbook", shell_complete=completers.schemas)
def schema(name: str) -> int:
    """Print the JSON Schema of a document.

    Without NAME it prints the schema of a playbook.

    \b
    Examples:
      playbook schema
      playbook schema journal
    """
    output.write(schema_text(name).rstrip("\n"))
    return 0
