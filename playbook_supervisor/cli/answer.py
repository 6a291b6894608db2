"""`answer`: a human decides at the open gate, from any terminal."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import log, text
from playbook_supervisor.commands import driving, locate, protocol, view
from playbook_supervisor.formats.sanitize import printable


def answer(words: Sequence[str], *, session: str, gate: str) -> int:
    """Record it and print what comes next (kai FR26)."""
    outlook = driving.answer(words, session=session, gate=gate)
    streams.tell_notices(outlook.notices)
    for event in outlook.events:
        streams.put(text.happened(event, outlook, log.now()))
    if protocol.in_a_client(outlook):
        streams.put("next: Claude Code goes on, at your next message there")
    else:
        driven = view.driven(outlook)
        name = locate.name_from_here(outlook)
        streams.put(text.what_next(outlook, name, driven=driven))
        if not driven and (where := locate.away(outlook)):
            streams.tell(printable(where))
    return 0
