"""Whether an answer is for a session of the fleet, and not for one of this repository.

It costs nothing where there is no fleet, and for sessions that this repository drives.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import FleetError, StateError
from playbook_supervisor.sessions.manifest import SESSION_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.fleet.answering import FleetAnswer

_SHORTEST = 3  # characters: as many as the last part of an id has


def answer(
    words: Sequence[str], *, session: str = "", gate: str = "", cwd: Path | None = None
) -> FleetAnswer | None:
    """Record the answer at a gate of the fleet; None if the words are not for one of its sessions.

    They are if they name a session that no worktree of this repository drives and that the fleet
    has. The arguments are those of `commands.answering.answer`; errors as
    `commands.fleet.answering.answer`, and of the fleet's database.
    """
    named, text = _split(words, session)
    if not named or _drives(named, cwd):
        return None
    from playbook_supervisor.commands.fleet import opening

    if not opening.is_set_up(cwd):
        return None
    try:
        with opening.opened(cwd) as database:
            from playbook_supervisor.commands.fleet import answering, overview

            try:
                known = overview.find(database, named)
            except StateError:  # the repository says it in its own words
                return None
            return answering.answer(database, known.id, text, gate=gate, cwd=cwd)
    except FleetError as error:
        if error.code == "PB-FLEET-NOT-UP":
            return None
        raise


def _split(words: Sequence[str], session: str) -> tuple[str, str]:
    """The session that is named, by its id or a part of it with a digit, and the other words."""
    if not session and len(words) > 1 and _may_be_id(words[0]):
        return words[0], " ".join(words[1:])
    return session or locate.named_by_environment(), " ".join(words)


def _may_be_id(word: str) -> bool:
    """As in `commands.answering`; a shorter word is more likely the number of an option."""
    allowed = all(each == "-" or (each.isascii() and each.isalnum()) for each in word)
    return allowed and len(word) >= _SHORTEST and any(each.isdigit() for each in word)


def _drives(named: str, cwd: Path | None) -> bool:
    """Whether a worktree of this repository drives the session, or several may be meant."""
    from playbook_supervisor.commands import overview

    try:
        here = locate.store(cwd)
    except StateError:  # no repository
        return False
    try:
        session_id = locate.named(here, named)
    except StateError:
        return True
    if not SESSION_ID.match(session_id):
        return False
    return here.drives(session_id) or any(each.drives(session_id) for each in overview.stores(here))
