"""`next`: a client asks what is outstanding."""

from __future__ import annotations

from playbook_supervisor.cli.directive_output import hand_out
from playbook_supervisor.commands import protocol


def next(*, session: str = "", wait: bool = False, json: bool = False) -> int:
    """Print the directive that is outstanding; the same as long as nothing is reported."""
    return hand_out(*protocol.next_directive(session, wait=wait), json=json)
