"""What people decide about sessions of the fleet: an answer, the end, another attempt.

A session of a fleet may belong to any repository, so an agent of any repository decides nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbook_supervisor.commands import locate, overview
from playbook_supervisor.drivers import gate_answer, own_agents
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import FleetError, StateError
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.commands.overview import find
from playbook_supervisor.fleet.storage.rows import ENDED, Row, State
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.system.git.git_process import identity

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.database import FleetDatabase

_FEWEST = 2  # choices of a gate
_SHORTEST = 3  # characters: as many as the last part of an id has


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """An answer that the fleet has: a worker journals it and goes on."""

    row: Row
    gate: str
    resolution: Resolution
    by: str


def require_person(command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY if an agent runs this, of ours or of Claude Code."""
    own_agents.require_none_anywhere(command)
    if authorization.inside(os.environ):
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"only a human may run `playbook {command}`, but Claude Code runs this shell",
            guidance="Type it in a terminal of your own.",
        )


def cancel(database: FleetDatabase, session: str, words: str = "") -> Row:
    """Ask for the end of a session: a worker stops what runs, journals the abort and pushes it."""
    require_person("cancel")
    row = find(database, session)
    if row.state in ENDED:
        raise _ended(row, "Nothing to do: it does not run any more.")
    return database.cancel(row.id, words or Resolution.ABORT.value, _name())


def retry(database: FleetDatabase, session: str) -> Row:
    """Queue a stuck or failed session again."""
    require_person("fleet retry")
    row = find(database, session)
    if row.state in (State.STUCK, State.FAILED):
        return database.retry(row.id)
    if row.state in ENDED:
        raise _ended(row, "Begin a new session: `playbook submit`.")
    raise StateError(
        "PB-STATE-REFUSED",
        f"session {row.id} is {row.state}: only a stuck or failed one can be tried again",
        guidance="`playbook status --fleet` shows what it waits for.",
    )


def retry_stuck(database: FleetDatabase) -> list[Row]:
    """Queue all stuck sessions again, such as after a remote was away for hours."""
    require_person("fleet retry")
    return [
        database.retry(row.id) for row in database.rows(open_only=True) if row.state is State.STUCK
    ]


# ── answers ─────────────────────────────────────────────────────────────────────────────────


def answer(words: Sequence[str], *, session: str = "", gate: str = "") -> FleetAnswer | None:
    """Record the answer at a gate of the fleet; None if the words are not for one of its sessions.

    They are if they name a session that no worktree of this repository drives and that the fleet
    has. The arguments are those of `commands.answering.answer`. FleetError PB-FLEET-ANSWERED after
    another person's answer.
    """
    named, text = _split(words, session)
    if not named or _drives(named) or not opening.is_set_up():
        return None
    try:
        with opening.opened() as database:
            try:
                row = find(database, named)
            except StateError:  # the repository says it in its own words
                return None
            return _answer(database, row, text, gate)
    except FleetError as error:
        if error.code == "PB-FLEET-NOT-UP":
            return None
        raise


def _answer(database: FleetDatabase, row: Row, text: str, gate: str) -> FleetAnswer:
    require_person("answer")
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
    by = _name()
    return FleetAnswer(database.answer(row.id, row.gate, text, by), row.gate, decided, by)


def _split(words: Sequence[str], session: str) -> tuple[str, str]:
    """The session that is named, by its id or a part of it with a digit, and the other words."""
    if not session and len(words) > 1 and _may_be_id(words[0]):
        return words[0], " ".join(words[1:])
    return session or locate.named_by_environment(), " ".join(words)


def _may_be_id(word: str) -> bool:
    """As in `commands.answering`; a shorter word is more likely the number of an option."""
    allowed = all(each == "-" or (each.isascii() and each.isalnum()) for each in word)
    return allowed and len(word) >= _SHORTEST and any(each.isdigit() for each in word)


def _drives(named: str) -> bool:
    """Whether a worktree of this repository drives the session, or several may be meant."""
    try:
        here = locate.store()
    except StateError:  # no repository
        return False
    try:
        session_id = locate.named(here, named)
    except StateError:
        return True
    if not SESSION_ID.match(session_id):
        return False
    return here.drives(session_id) or any(each.drives(session_id) for each in overview.stores(here))


def _name() -> str:
    """The person as git knows them in this folder, or in the user's own settings; else empty."""
    return identity(locate.current_folder())


def _ended(row: Row, guidance: str) -> StateError:
    return StateError("PB-STATE-ENDED", f"session {row.id} is {row.state}", guidance=guidance)
