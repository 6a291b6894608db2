"""`list`: the playbooks of the project."""

from __future__ import annotations

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands.checking import checked_files
from playbook_supervisor.commands.views import queries
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.project.expressions.arguments import hint


@options.command
@options.json
def list(*, json: bool) -> int:
    """List the playbooks of this project, and what they take.

    \b
    Examples:
      playbook list
      playbook list --json
    """
    playbooks = queries.playbooks()
    if json:
        output.write_json(json_shapes.playbooks(playbooks))
        return 0
    rows = [
        (each.name, "-", "-", f"cannot run: {each.problem}")
        if each.problem
        else (
            each.name,
            counted(each.steps, "step"),
            " ".join(map(hint, each.args)) or "-",
            each.description,
        )
        for each in playbooks
    ]
    output.write(*text.table(rows))
    if left := checked_files.passed_over():
        output.inform(f"Not read: {', '.join(left)}. {checked_files.NAMES}")
    if not rows:
        output.inform(
            "There are no playbooks yet. `playbook init` installs those that fit this project."
        )
    return 0
