"""`begin`: a session that a client drives."""

from __future__ import annotations

from playbook_supervisor.cli import options
from playbook_supervisor.cli.directive_output import print_directive
from playbook_supervisor.commands import protocol


@options.command
@options.playbook
@options.start
@options.json
def begin(playbook: str, args: tuple[str, ...], *, start: str, json: bool) -> int:
    """Begin a session and print its first directive.

    A client carries out the directive and reports the outcome with `playbook report`. People use
    `playbook run`.

    \b
    Examples:
      playbook begin auto-feature 013
      playbook begin auto-feature 013 --json
    """
    return print_directive(*protocol.begin(playbook, args, start=start), json=json)
