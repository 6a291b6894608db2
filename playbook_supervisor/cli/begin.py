"""`begin`: a client begins a session."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.api import protocol
from playbook_supervisor.cli.handing import hand_out


def begin(reference: str, args: Sequence[str], *, start: str, json: bool) -> int:
    """Begin it and print its first directive."""
    return hand_out(*protocol.begin(reference, args, start=start), json=json)
