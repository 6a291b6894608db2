"""A person's answer from a browser at a gate of the fleet, checked and stored for a worker.

The worker that takes the session journals it, and what it finds then counts.
"""

from __future__ import annotations

from playbook_supervisor.commands.inbox.admission import Answerer, require_person_anywhere
from playbook_supervisor.commands.inbox.answering import Submission, require_shown
from playbook_supervisor.commands.inbox.fleet_feed import FleetFeed
from playbook_supervisor.commands.inbox.gate_facts import GateFacts
from playbook_supervisor.commands.inbox.repository import Row
from playbook_supervisor.commands.pinned import pinned_policy
from playbook_supervisor.drivers import gate_answer
from playbook_supervisor.drivers.fleet.storage.rows import State
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.sessions import principal


def answer(fleet: FleetFeed, row: Row, given: Submission, who: Answerer) -> None:
    """Store the answer, with a job for the session.

    StateError PB-STATE-CHANGED if the gate is not open any more or something that was shown has
    changed, PB-STATE-HUMAN-ONLY if an agent asks; ArgumentError PB-ARG-ANSWER; PolicyError
    PB-POLICY-ANSWER; FleetError PB-FLEET-ANSWERED, PB-FLEET-DATABASE.
    """
    require_person_anywhere(who)
    facts = require_shown(row, given)
    _require_waiting(row, facts)
    decided = gate_answer.resolution(given.text, facts.choices, facts.gate.question)
    database, at = fleet.database(), row.seen.gate_at
    name = who.name or principal.local(row.seen.root).name
    step = facts.record.id.partition("#")[0]
    policy = pinned_policy(at.store, at.session_id)
    policy.admit(step, facts.record.reason, decided, name, database.role)
    database.answer(row.session_id, facts.gate.id, given.text, name, via="inbox")


def _require_waiting(row: Row, facts: GateFacts) -> None:
    """The database may know of what has happened since the snapshot, and the other way round."""
    assert row.fleet is not None  # noqa: S101 - it is a session of the fleet
    waits = row.fleet.session.row
    if waits.state is not State.WAITING or waits.gate != facts.gate.id:
        raise StateError(
            "PB-STATE-CHANGED",
            f"the gate {first_line(facts.gate.id, 60)} does not wait any more",
            where=f"session {row.session_id}, which is {waits.state}",
        )
