"""The decisions of people about sessions of the fleet: an answer, the end, another attempt.

A session of a fleet may belong to any repository, so an agent of any repository decides nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.places import Decided
from playbook_supervisor.drivers import gate_answer, own_agents
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import StateError
from playbook_supervisor.fleet.commands.overview import find
from playbook_supervisor.fleet.storage.rows import ENDED, Row, State
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.system.git.git_process import identity

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.database import FleetDatabase

_FEWEST = 2  # choices of a gate


def require_person(command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY if an agent runs this, of ours or of Claude Code."""
    own_agents.require_none_anywhere(command)
    if authorization.inside(os.environ):
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"only a human may run `playbook {command}`, but Claude Code runs this shell",
            guidance="Type it in a terminal of your own.",
        )


def end(database: FleetDatabase, row: Row, reason: str = "") -> Decided:
    """Ask for the end of a session: a worker stops what runs, journals the abort and pushes it."""
    require_person("abort")
    ended = database.cancel(row.id, reason or Resolution.ABORT.value, _name())
    what = f"{row.id} cancelled by {ended.cancel_by or 'you'}"
    return Decided(what, "a worker ends it; `playbook fleet status` shows when")


def retry(database: FleetDatabase, session: str) -> Row:
    """Queue a stuck or failed session again."""
    require_person("fleet retry")
    row = find(database, session)
    if row.state in (State.QUEUED, State.RUNNING, State.WAITING):
        raise StateError(
            "PB-STATE-REFUSED",
            f"session {row.id} is {row.state}: only a stuck or failed one can be tried again",
            guidance="`playbook fleet status` shows what it waits for.",
        )
    return database.retry(row.id)


def retry_stuck(database: FleetDatabase) -> list[Row]:
    """Queue all stuck sessions again, such as after a remote was away for hours."""
    require_person("fleet retry")
    return [
        database.retry(row.id) for row in database.rows(open_only=True) if row.state is State.STUCK
    ]


def answer(database: FleetDatabase, row: Row, text: str, gate: str = "") -> Decided:
    """Store the answer at the open gate, or only at `gate`: a worker journals it and goes on.

    FleetError PB-FLEET-ANSWERED after another person's answer.
    """
    require_person("answer")
    if gate and row.gate and gate != row.gate:
        raise StateError(
            "PB-STATE-REFUSED", f"the gate {first_line(gate, 60)} is not open; it is {row.gate}"
        )
    if row.state in ENDED or not row.gate:
        raise StateError(
            "PB-STATE-NO-GATE",
            f"session {row.id} is not waiting at a gate: it is {row.state}",
            guidance="`playbook fleet status` shows what waits.",
        )
    if len(row.choices) < _FEWEST:
        raise StateError(
            "PB-STATE-CORRUPT",
            f"the row of session {row.id} does not say how its gate can be answered",
            guidance=f"`playbook fleet rebuild --repo {row.repository}` reads it again.",
        )
    choices = [Resolution(each.partition(" ")[0]) for each in row.choices]
    decided = gate_answer.resolution(text, choices, f"gate {row.gate} of {row.id}")
    name = _name()
    database.answer(row.id, row.gate, text, name)
    by = f" by {first_line(name)}" if name else ""
    what = f"{printable(row.gate.partition('?')[0])} answered {decided}{by}"
    return Decided(what, f"a worker of the fleet continues {row.id}")


def _name() -> str:
    return identity(locate.current_folder())
