"""Selects the session that a command applies to (kai FR15, FR16), from manifests alone.

Without a name it is a session of *this* worktree: one that the worktree's runtime state knows, else
one of ours whose branch is checked out here. Open sessions come before failed ones, those of the
branch that is checked out before those of other branches, and ended ones last; among several, the
one that waits, then one that runs, then the one that began last. Times of files do not count,
because git writes files anew. A session that another tool began is never selected without its name.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.files.local_state import NAME
from playbook_supervisor.sessions.files.manifest import SESSION_ID, Manifest
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout

OPEN = frozenset({SessionStatus.PENDING, SessionStatus.IN_PROGRESS})
_UNFINISHED = OPEN | {SessionStatus.FAILED}
_LISTED = 4  # sessions that an error names


class SelectedSession(Record):
    session_id: str
    others: tuple[str, ...] = ()  # other open ones


def choose(store: DiskStore, named: str = "") -> SelectedSession:
    """The session of that name, which may be abbreviated, else the one of this worktree. The name
    of a child session means the one that a person began. StateError `PB-STATE-NO-SESSION` if there
    is none, `PB-STATE-ELSEWHERE` if only its files are here and it lives in another worktree."""
    if named:
        name = full_id(store.found(), named)
        if not store.drives(name) and (
            place := home_elsewhere(store.checkout, store.manifest(name))  # raises if there is none
        ):
            cure = f"Continue there: cd {shlex.quote(str(place))} && claude, then /playbook.resume."
            said = f"session {name} lives in another worktree"
            raise StateError("PB-STATE-ELSEWHERE", said, where=str(place), guidance=cure)
        return SelectedSession(top_of(store, name))
    driven = _driven_here(store)
    known = [] if driven else _known(store)
    if candidates := driven or _open_here(store, known):
        return SelectedSession(candidates[0], tuple(candidates[1:]))
    failed = [each for each in known if each.status is SessionStatus.FAILED]
    ended = [each for each in known if each.status not in _UNFINISHED]
    here = [each for each in failed if on_branch(store, each.session_id)]
    for group in (here, [each for each in known if each.status in OPEN], failed, ended):
        if found := _of_this_worktree(store, group):
            return SelectedSession(found[0])
    raise no_session(known)


def open_here(store: DiskStore) -> list[str]:
    """The open sessions of this worktree and its branch; the first one would be selected."""
    return _driven_here(store) or _open_here(store, _known(store))


def _driven_here(store: DiskStore) -> list[str]:
    driven = [name for name in store.driven() if on_branch(store, name)]
    return driven if len(driven) < 2 else _in_order(_read(store, driven), driven)


def _open_here(store: DiskStore, known: Iterable[Manifest]) -> list[str]:
    found = (each for each in known if each.status in OPEN)
    return _of_this_worktree(store, [each for each in found if on_branch(store, each.session_id)])


def on_branch(store: DiskStore, session_id: str) -> bool:
    """True if the session's branch is checked out; one that cannot be read counts as here."""
    try:
        return not store.standing(session_id).instead
    except PlaybookError:
        return True


def top_of(store: DiskStore, session_id: str) -> str:
    """The session that a person began; one that cannot be read counts as that."""
    seen = [session_id]
    with suppress(StateError):
        while (parent := store.parent(seen[-1])) and parent not in seen:
            seen.append(parent)
    return seen[-1]


def full_id(ids: Iterable[str], named: str) -> str:
    """The id that `named` begins, ends, or whose last part it begins; `named` itself if there is
    none. StateError PB-STATE-NO-SESSION, which lists them, if there are several."""
    found = sorted(
        id_
        for id_ in ids
        if id_.startswith(named) or id_.endswith(named) or id_.rpartition("-")[2].startswith(named)
    )
    if named in found or not found:
        return named
    if len(found) == 1:
        return found[0]
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    raise StateError(
        "PB-STATE-NO-SESSION",
        f"{first_line(named, 40)!r} may be any of {len(found)} sessions",
        guidance=f"Give more of its id: {', '.join(found[-_LISTED:])}{more}.",
    )


def no_session(known: Sequence[Manifest]) -> StateError:
    """The error if no session is selected; it lists the unfinished ones, and how to name one."""
    unfinished = [each for each in known if each.status in _UNFINISHED]
    error = "no session belongs to this worktree"
    if not unfinished:
        return StateError("PB-STATE-NO-SESSION", error)
    shown = "; ".join(map(description, unfinished[:_LISTED]))
    more = len(unfinished) - _LISTED
    shown += f"; and {more} more (`playbook status`)." if more > 0 else "."
    cure = f"Name one, as in `playbook resume {unfinished[0].session_id}`: {shown}"
    return StateError("PB-STATE-NO-SESSION", error, guidance=cure)


def description(known: Manifest) -> str:
    """A session for a message: its id, what it runs on, how far it is, and whose it is."""
    words = " ".join(filter(None, (known.playbook, known.subject)))
    state = "waits for an answer" if known.gate else str(known.status).replace("_", " ")
    whose = "of another tool" if known.legacy else known.branch and f"branch {known.branch}"
    return f"{known.session_id} ({', '.join(filter(None, map(first_line, (words, state, whose))))})"


def home_elsewhere(here: Checkout, known: Manifest) -> Path | None:
    """The other worktree of this repository in which a session lives; None if there is none. It is
    the one whose runtime state knows the session, else the one that has its branch, else the one
    whose path it names. A path alone proves nothing: in another clone it leads elsewhere."""
    others = [*checkout.others(here)]
    place = _place(here, known)
    for other in others:
        if ABFile(other.runtime / known.session_id / NAME).exists:
            return other.root
    if known.branch and _branch(here) == known.branch:
        return None
    at_branch = [other.root for other in others if known.branch and _branch(other) == known.branch]
    named = [other.root for other in others if other.root == place]
    return next(iter(at_branch or named), None)


def _of_this_worktree(store: DiskStore, known: list[Manifest]) -> list[str]:
    driven = [each for each in known if store.drives(each.session_id)]
    return _in_order(driven or [each for each in known if _belongs_here(store.checkout, each)])


def _belongs_here(here: Checkout, known: Manifest) -> bool:
    """True if a session that nothing local is known of is this worktree's. It is if it began here,
    or by its branch. Where no branch is checked out (in CI, say), or none is recorded, its place
    decides."""
    if known.legacy:
        return False
    if known.began_on == here.identity:
        at_home = True
    elif (branch := _branch(here)) and known.branch:
        at_home = branch == known.branch
    else:
        place = _place(here, known)
        at_home = place == here.root or not os.path.lexists(place / ".git")
    return at_home and home_elsewhere(here, known) is None


def _branch(here: Checkout) -> str:
    return here.branch or checkout.rebased(here)


def _place(here: Checkout, known: Manifest) -> Path:
    return (here.main_root / known.worktree).resolve()


def _known(store: DiskStore) -> list[Manifest]:
    """The manifests that can be read, without children: a broken one must not hide the others."""
    found = _read(store, [name for name in store.found() if SESSION_ID.match(name)])
    return [each for each in found if not each.parent]


def _read(store: DiskStore, names: Iterable[str]) -> list[Manifest]:
    found = []
    for name in names:
        with suppress(PlaybookError):
            found.append(store.manifest(name))
    return found


def _in_order(known: Iterable[Manifest], names: Sequence[str] = ()) -> list[str]:
    ordered = [each.session_id for each in sorted(known, key=_precedence, reverse=True)]
    return ordered + [name for name in names if name not in ordered]


def _precedence(known: Manifest) -> tuple[bool, bool, int, str]:
    running = known.status is SessionStatus.IN_PROGRESS
    return known.gate is not None, running, known.started_at, known.session_id
