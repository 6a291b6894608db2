"""`begin`: a client begins a session."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.cli.directive_output import hand_out
from playbook_supervisor.commands import protocol


def begin(reference: str, args: Sequence[str], *, start: str, json: bool) -> int:
    """Begin it and print its first directive."""
    return hand_out(*protocol.begin(reference, args, start=start), json=json)
