"""The fleet as a place where sessions are found and decided: `commands/places.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playbook_supervisor.commands.places import Decided
from playbook_supervisor.errors import FleetError, StateError
from playbook_supervisor.fleet.cli import rendering
from playbook_supervisor.fleet.commands import deciding, opening
from playbook_supervisor.fleet.commands.overview import find
from playbook_supervisor.fleet.commands.reading import FleetReader
from playbook_supervisor.fleet.storage.rows import Row

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.database import FleetDatabase

is_set_up = opening.is_set_up
session_ids = opening.session_ids


def answer(session: str, text: str, gate: str) -> Decided | None:
    """Store an answer; None if the fleet does not have the session."""
    return _decided(session, lambda database, row: deciding.answer(database, row, text, gate))


def end(session: str, reason: str) -> Decided | None:
    """Ask for the end of a session; None if the fleet does not have it."""
    return _decided(session, lambda database, row: deciding.end(database, row, reason))


def reader() -> FleetReader:
    """The sessions for lists and pages."""
    return FleetReader(rendering.standing)


def _decided(session: str, decide: Callable[[FleetDatabase, Row], Decided]) -> Decided | None:
    try:
        with opening.opened() as database:
            try:
                row = find(database, session)
            except StateError:  # the repository says it in its own words
                return None
            return decide(database, row)
    except FleetError as error:
        if error.code == "PB-FLEET-NOT-UP":
            return None
        raise
