"""Places where sessions can be found and decided besides this repository, such as on many machines.

An entry point of the group `plugins.PLACES` names the module that is a place; its name stands for
the place in links and options. Reading entry points takes milliseconds, so it is done only for a
session that is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from playbook_supervisor import plugins
from playbook_supervisor.commands import locate, overview
from playbook_supervisor.commands.overview import SessionOverview
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.state import Gate
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.manifest import SESSION_ID

_SHORTEST = 3  # characters: as many as the last part of an id has


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that a place has taken down, as a clause, and what follows from it."""

    what: str
    next: str


@dataclass(frozen=True, slots=True, eq=False)
class PlacedSession:
    """A session of a place, as lists show it. `key` is the name of the place.

    `section` is what it is among: `waiting`, `stuck`, `working`, `queued` or `ended`. It stands so
    `since`, in ms by this machine's clock. `gate` is the one at which it waits, or empty, `state`
    the place's word for how it stands, `said` a sentence on that. `stands` is a clause that says
    for how long, at a time in ms. `told` is all that a page shows and that does not change by
    itself, for comparison.
    """

    key: str
    session_id: str
    repository: str
    playbook: str
    feature: str
    section: str
    state: str
    since: int
    gate: str
    said: str
    stands: Callable[[int], str]
    told: object

    @property
    def open(self) -> bool:
        """True until it has ended."""
        return self.section != "ended"

    @property
    def topic(self) -> str:
        """The name under which changes of this session are told."""
        return f"{self.key}/{self.session_id}"


class PlaceReader(Protocol):
    """The sessions of a place, as read again and again. Any thread may ask."""

    @property
    def rows(self) -> tuple[PlacedSession, ...]:
        """The sessions as last read."""

    @property
    def problem(self) -> str:
        """The reason why they could not be read; empty if they were."""

    @property
    def after_answer(self) -> str:
        """A sentence about what happens to an answer there."""

    def poll(self, *, unless_fresh: bool = False) -> None:
        """Read the sessions, or not if that was done a moment ago. Nothing is raised."""

    def find(self, session_id: str) -> tuple[PlacedSession, SessionOverview] | None:
        """The session with its files as last recorded; None if the place does not have it."""

    def answer(
        self, seen: SessionOverview, gate: Gate, decided: Resolution, text: str, by: str
    ) -> None:
        """Take down what a person in a browser has decided at the open gate of the session."""

    def sweep(self) -> None:
        """Remove what no one looks at any more."""

    def close(self) -> None:
        """Remove all that was fetched to look at."""


class Place(Protocol):
    """A module that finds and decides sessions which are somewhere else."""

    def is_set_up(self) -> bool:
        """True if there may be sessions. Cheap, and without optional packages."""

    def session_ids(self) -> Sequence[str]:
        """The ids of its open sessions."""

    def answer(self, session: str, text: str, gate: str) -> Decided | None:
        """Answer the open gate of a session, named by its id or a part of it, or only `gate`.

        None if it does not have the session.
        """

    def end(self, session: str, reason: str) -> Decided | None:
        """End the session for good; None if it does not have it."""

    def reader(self) -> PlaceReader:
        """Its sessions for lists and pages. To be closed."""


def names() -> list[str]:
    """The names of all places."""
    return list(plugins.offered(plugins.PLACES))


def offered() -> Mapping[str, Place]:
    """All places by name."""
    return {name: point.load() for name, point in plugins.offered(plugins.PLACES).items()}


def session_ids() -> list[str]:
    """The ids of the open sessions of all places."""
    return [each for place in _set_up() for each in place.session_ids()]


def answer(words: Sequence[str], *, session: str = "", gate: str = "") -> Decided | None:
    """Answer the gate of a session that is in a place and not here; None if it is in none.

    The arguments are those of `driving.answer`.
    """
    if not session and len(words) > 1 and _may_be_id(words[0]):
        session, words = words[0], words[1:]
    return _decided(session, lambda place, named: place.answer(named, " ".join(words), gate))


def end(session: str, reason: str) -> Decided | None:
    """End a session that is in a place and not here; None if it is in none."""
    return _decided(session, lambda place, named: place.end(named, reason))


def _decided(session: str, decide: Callable[[Place, str], Decided | None]) -> Decided | None:
    named = session or locate.named_by_environment()
    if not named or _is_here(named):
        return None
    return next(filter(None, (decide(place, named) for place in _set_up())), None)


def _set_up() -> list[Place]:
    return [place for place in offered().values() if place.is_set_up()]


def _may_be_id(word: str) -> bool:
    """As in `driving.answer`; a shorter word is more likely the number of an option."""
    allowed = all(each == "-" or (each.isascii() and each.isalnum()) for each in word)
    return allowed and len(word) >= _SHORTEST and any(each.isdigit() for each in word)


def _is_here(named: str) -> bool:
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
