"""`graph`: a playbook, or a session of it, as a Mermaid flowchart."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render.flowchart import flowchart
from playbook_supervisor.commands.views import queries


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
