"""`answer`: a human decides at the open gate, from any terminal."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.api import driving, protocol, reading
from playbook_supervisor.cli import streams
from playbook_supervisor.render import text


def answer(words: Sequence[str], *, session: str, gate: str) -> int:
    """Record it and print what comes next (kai FR26)."""
    outlook = driving.answer(words, session=session, gate=gate)
    streams.tell_notices(outlook.notices)
    for event in outlook.events:
        streams.put(text.happened(event, outlook))
    if protocol.in_a_client(outlook):
        streams.put("next: Claude Code goes on, at your next message there")
    else:
        streams.put(text.what_next(outlook, driven=reading.driven(outlook)))
    return 0
