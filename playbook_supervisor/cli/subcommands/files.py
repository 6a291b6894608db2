"""`index`, `schema` and `import`: files that are made from others."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.checking import importing
from playbook_supervisor.errors import CheckError
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.system.git import checkout


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
    root = checkout.find(locate.current_folder()).root
    if check and (why := library.index_is_stale(root)):
        raise CheckError("PB-CHECK-STALE", why, where=library.INDEX)
    rewritten = not check and library.write_index(root, system_clock())
    output.inform("index rewritten" if rewritten else "the index is up to date")
    return 0


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
