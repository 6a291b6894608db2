"""What people have answered at the gates of a step, for the next process that carries it out.

Everything is read from the journal's entries, so it is the same after a crash and in another clone.
"""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.agents.protocol import Reply
from playbook_supervisor.kernel.answers import words_of
from playbook_supervisor.kernel.state import INTERRUPTED, Entry, Gate
from playbook_supervisor.kernel.vocabulary import Place


def reply_of(gate: Gate) -> Reply | None:
    """What the agent is told at this gate; None while it is open."""
    if gate.resolution is None:
        return None
    return Reply(gate.resolution, words_of(gate.text, gate.resolution))


def replies(attempts: Sequence[Entry], *, continues: bool) -> dict[str, Reply]:
    """Digest of a request → the reply, where it may not have reached the agent.

    `attempts` are those of the step, oldest first; the last is about to run. One that `continues`
    its conversation may lack the last answer alone, for an agent waits for each. A new one begins
    again, so it lacks the answers of all attempts that were broken off right before it.
    """
    last = attempts[-1]
    if continues:
        return _by_digest(_during(last)[-1:])
    lost: list[Gate] = [*_during(last)]
    for former in reversed(attempts[:-1]):
        if former.error_code != INTERRUPTED:
            break
        lost = [*_during(former), *lost]
    return _by_digest(lost)


def conversation(entry: Entry) -> str:
    """The agent's conversation in which the attempt asked last; empty if it has not."""
    gates = _during(entry)
    return str(gates[-1].request.get("conversation", "")) if gates else ""


def spent(entry: Entry) -> float:
    """The seconds that the attempt had run when it asked last; the time at gates does not count."""
    gates = _during(entry)
    if not gates or entry.launched_at is None:
        return 0.0
    waited = sum((gate.answered_at or gate.opened_at) - gate.opened_at for gate in gates[:-1])
    return max(0, gates[-1].opened_at - entry.launched_at - waited) / 1000


def _during(entry: Entry) -> list[Gate]:
    return [gate for gate in entry.gates if gate.place is Place.DURING]


def _by_digest(gates: Sequence[Gate]) -> dict[str, Reply]:
    found = ((str(gate.request.get("digest", "")), reply_of(gate)) for gate in gates)
    return {digest: reply for digest, reply in found if digest and reply is not None}
