"""A person's answer at a gate of a session that the fleet has."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.commands.fleet import persons
from playbook_supervisor.commands.fleet.overview import find
from playbook_supervisor.drivers import gate_answer
from playbook_supervisor.drivers.fleet.storage.rows import ENDED, Row
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.database import FleetDatabase

_FEWEST = 2  # choices of a gate


class FleetAnswer(Record):
    """An answer that the fleet has: a worker journals it and goes on."""

    row: Row
    gate: str
    resolution: Resolution
    by: str


def answer(
    database: FleetDatabase,
    session: str,
    text: str,
    *,
    gate: str = "",
    cwd: Path | None = None,
) -> FleetAnswer:
    """Record a person's answer at the gate where the session waits; the first one counts.

    ArgumentError PB-ARG-ANSWER if the words decide nothing there; StateError PB-STATE-NO-SESSION,
    PB-STATE-NO-GATE, PB-STATE-REFUSED if `gate` is not the open one, PB-STATE-HUMAN-ONLY;
    FleetError PB-FLEET-ANSWERED after another person's answer.
    """
    persons.require_person("answer")
    row = find(database, session)
    if gate and row.gate and gate != row.gate:
        raise StateError(
            "PB-STATE-REFUSED", f"the gate {first_line(gate, 60)} is not open; it is {row.gate}"
        )
    if row.state in ENDED or not row.gate:
        raise StateError(
            "PB-STATE-NO-GATE",
            f"session {row.id} is not waiting at a gate: it is {row.state}",
            guidance="`playbook status --fleet` shows what waits.",
        )
    if len(row.choices) < _FEWEST:
        raise StateError(
            "PB-STATE-CORRUPT",
            f"the row of session {row.id} does not say how its gate can be answered",
            guidance=f"`playbook fleet rebuild --repo {row.repository}` reads it again.",
        )
    decided = gate_answer.resolution(
        text, [Resolution(each) for each in row.choices], f"gate {row.gate} of {row.id}"
    )
    by = persons.name(cwd)
    return FleetAnswer(database.answer(row.id, row.gate, text, by), row.gate, decided, by)
