"""`import`: write the playbook that a file of another system is read as."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands.checking import importing


@options.command
@click.argument("file")
@click.option("--output", "target", default="", metavar="FILE", help="Where to write it.")
@click.option("--force", is_flag=True, help="Replace the file that is there.")
def import_file(file: str, *, target: str, force: bool) -> int:
    """Write the playbook that a file of another system is read as.

    FILE is a Tyrum workflow, a Catalyst playbook or a Markdown playbook. They run as they are; a
    copy in this program's own format can say more, such as postconditions. It is written to
    .playbooks/playbooks/NAME.yaml, with a comment for each thing that was translated.

    \b
    Examples:
      playbook import inbox-triage.yaml
      playbook import notes/review.md --output .playbooks/playbooks/review.yaml
    """
    made = importing.import_file(file, target=target, force=force)
    if not made.written:
        output.inform(f"{made.file} is a playbook already; there is nothing to do")
        return 0
    output.inform(f"wrote {made.written}")
    output.inform(*(f"  {note}" for note in made.notes))
    output.inform("to decide:", *(f"  {each}" for each in made.decisions))
    return 0


import_file.name = "import"  # which no function can be called
