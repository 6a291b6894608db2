"""A person's answer at the open gate, from any terminal, page or machine."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.sessions.supervisor import Supervisor


def resolution(text: str, choices: Sequence[Resolution], question: str = "") -> Resolution:
    """What the words decide at a gate with these choices (kai FR26).

    ArgumentError PB-ARG-ANSWER, which quotes the gate's question, if they decide nothing.
    """
    reply = read_answer(text, choices)
    if reply.resolution is not None:
        return reply.resolution
    said = f"{first_line(text, 80)!r} does not answer this gate"
    raise ArgumentError(
        "PB-ARG-ANSWER",
        f"{said}: {reply.question}" if reply.question else said,
        where=question,
        guidance=f"Begin or end with one of: {', '.join(choices)}; as in `{choices[1]}: REASON`.",
    )


def end_tree(supervisor: Supervisor) -> Snapshot:
    """After an abort of a child, end the sessions above it; a runner does that by itself."""
    if driver_lock.living(supervisor.private) is not None:
        return supervisor.look()
    with driver_lock.driving(supervisor.private, "abort"):
        return supervisor.advance()
