"""What the process that drives a session accepts from the disk: an answer, and nothing else.

It knows what it wrote last. Another process may have answered the open gate, and a person may have
changed comments and layout; the answer is then decided again here. Everything else is refused.
"""

from __future__ import annotations

from contextlib import suppress

from playbook_supervisor.errors import PlaybookError, PolicyError, StateError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import Answered, Ask
from playbook_supervisor.sessions.files import integrity, serialize
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.local_state import JOURNAL, Runtime
from playbook_supervisor.sessions.files.manifest import manifest_from_json
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store import opening
from playbook_supervisor.system.disk.files import ensure_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.state import Entry


def reload(held: OpenSession) -> OpenSession:
    """The session that this process drives, after something else has written its files.

    StateError `PB-STATE-TAMPERED` if that was more than an answer. What this process wrote is then
    put back into the git directory, so that later processes refuse the same change.
    """
    held.place.read()  # the next write must be newer than what is there
    try:
        expected = _with_answers(held)
        opened = opening.load(held.folder, held.private, expected, held.place)
        opened.save()
        if held.place.damaged:
            opened.save()  # the other half, too
    except StateError:
        with suppress(PlaybookError):
            _put_back(held)
        raise
    return opened


def restore_missing(held: OpenSession) -> list[str]:
    """Write the session's files that are gone as this process wrote them last; their names."""
    ensure_folder(held.private)
    ensure_folder(held.folder)
    if not integrity.missing(held.folder, integrity.nested(held.runtime.digests)):
        return []
    put_copies_back(held)
    return integrity.restore_missing(held.folder, held.private)


def put_copies_back(held: OpenSession) -> None:
    """Make the copies in the git directory those of what this process wrote last."""
    files = {JOURNAL: held.written.journal.data, "session.yaml": held.written.manifest}
    for name, data in {**files, **held.pinned.files}.items():
        integrity.write_inside(held.private, name, data, durable=False)


def _put_back(held: OpenSession) -> None:
    put_copies_back(held)
    for _half in range(2):
        held.place.write(held.written.runtime)


def _with_answers(held: OpenSession) -> Runtime:
    """The runtime state as last written, with the answers that the journal now has."""
    runtime = Runtime.parse(held.written.runtime, held.place)
    replayed = OpenSession(
        held.folder,
        held.private,
        held.pinned,
        serialize.state_from_json(runtime.state, held.playbook),
        manifest_from_json(runtime.manifest),
        held.written.journal,
        runtime,
        held.place,
        held.written.manifest,
    )
    opened = opening.with_items(replayed)
    if isinstance(machine.directive(opened.state), Ask):
        entries = {entry.id: entry for entry in _entries(held)}
        answered = False
        while _take_answer(opened, entries):
            answered = True
        if answered:
            opened.expect()
    return runtime


def _take_answer(opened: OpenSession, entries: dict[str, Entry]) -> bool:
    """Accept the answer that an entry has at the open gate, if it is one that may be given."""
    from playbook_supervisor.sessions.steps import evidence

    asked = machine.directive(opened.state)
    if not isinstance(asked, Ask) or asked.member.id not in entries:
        return False
    gates = {gate.id: gate for gate in entries[asked.member.id].gates}
    gate = gates.get(asked.id)
    if gate is None or gate.answered_at is None or gate.resolution is None:
        return False
    answered = Answered(
        gate.answered_at, asked.id, gate.resolution, gate.text, gate.by, gate.via, gate.role
    )
    try:
        opened.policy.admit(asked.member.step.id, gate.reason, gate.resolution, gate.by, gate.role)
        events = machine.decide(opened.state, answered)
    except (PolicyError, StateError):
        return False
    evidence.answered(opened.runtime, opened.entry(asked.member.id), gate.resolution)
    opened.accept(events)
    return True


def _entries(held: OpenSession) -> tuple[Entry, ...]:
    try:
        return parse_journal(integrity.read_file(held.folder, JOURNAL), JOURNAL).entries
    except PlaybookError:  # opening reports it
        return ()
