"""The attempts of sessions with those of their child sessions, and how long each worked.

What is not recorded is unknown, not 0. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.audit.session_record import SessionRecord
from playbook_supervisor.kernel.state import INTERRUPTED, NEVER_RAN
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.records import Record

_NOT_WORK = NEVER_RAN | {INTERRUPTED}
LARGEST = 10**12
"""No duration in ms, no cost and no number of tokens is larger; such a value is an error."""


class Attempt(Record):
    """One entry. `session` is the name of its session's folder.

    `pauses` are the times at the gates of its child session, in ms since the epoch.
    """

    entry: LooseEntry
    playbook: str
    command: str
    model: str
    ours: bool
    session: str
    pauses: Sequence[tuple[int, int]] = ()


def family(record: SessionRecord) -> Iterator[SessionRecord]:
    """The session and all sessions below it."""
    yield record
    for child in record.tree.children:
        yield from family(child)


def attempts_of(record: SessionRecord) -> Iterator[Attempt]:
    """All attempts of the session and of those below it."""
    for each in family(record):
        yield from _own(each)


def _own(record: SessionRecord) -> Iterator[Attempt]:
    if record.journal is None:
        return
    playbook = record.session.playbook if record.session is not None else ""
    outline = record.playbook()
    steps = outline.by_id if outline is not None else {}
    for entry in record.journal.entries:
        command = steps[entry.step].command if entry.step in steps else ""
        model = str(entry.agent.get("model", ""))
        ours, child = record.journal.ours, record.tree.child(entry.session)
        pauses = tuple(_pauses(child)) if child is not None else ()
        yield Attempt(entry, playbook, command, model, ours, record.files.name, pauses)


def _pauses(child: SessionRecord) -> Iterator[tuple[int, int]]:
    """The times at the gates of a child session and of those below it."""
    for each in family(child):
        for entry in each.journal.entries if each.journal is not None else ():
            for gate in entry.gates:
                if gate.opened_at is not None and gate.answered_at is not None:
                    yield gate.opened_at, gate.answered_at


def was_tried(attempt: Attempt) -> bool:
    """Whether it was launched; other tools do not record when. A cached result needs no launch."""
    entry = attempt.entry
    if entry.cached_from:
        return False
    if attempt.ours and entry.status is EntryStatus.IN_PROGRESS:
        return entry.launched_at is not None
    return entry.status is not EntryStatus.SKIPPED


def worked(attempt: Attempt) -> int | None:
    """How long a settled attempt worked, without waiting for people.

    Its times count, and the stated duration only if they are missing. The work of an interrupted
    attempt is unknown: a crash may be noticed days later.
    """
    entry = attempt.entry
    if entry.error_code in _NOT_WORK or entry.cached_from:
        return None
    begun, ended = _work(entry)
    if begun is not None and ended is not None:
        own = [(each.opened_at, each.answered_at) for each in entry.gates]
        known = [(start, end) for start, end in own if start is not None and end is not None]
        return plausible(ended - begun - _waited((*known, *attempt.pauses), begun, ended))
    return None if entry.seconds is None else plausible(entry.seconds * 1000)


def _work(entry: LooseEntry) -> tuple[int | None, int | None]:
    """The begin and end of the work. An answer may be given days before it is used."""
    if not entry.gates:
        return entry.started_at, entry.completed_at
    begun = entry.started_at if entry.launched_at is None else entry.launched_at
    ended = entry.completed_at if entry.returned_at is None else entry.returned_at
    return begun, ended


def _waited(pauses: Iterable[tuple[int, int]], begun: int, ended: int) -> int:
    """How much of that time was at a gate; gates of parallel steps may be open at once."""
    waited = 0
    for opened, answered in sorted(pauses):
        waited += max(min(answered, ended) - max(opened, begun), 0)
        begun = max(begun, answered)
    return waited


def plausible(ms: float) -> int | None:
    """The duration, unless no duration can be that."""
    return round(ms) if 0 <= ms <= LARGEST else None
