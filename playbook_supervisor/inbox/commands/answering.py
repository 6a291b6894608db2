"""A person's answer from a browser: `playbook answer`, for the gate and the state that were shown.

Where no driver waits, `playbook resume` then goes on in a process of its own, if the settings with
which the session began say so (`inbox: {resume: true}`).
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands.driving.driving import answer as record
from playbook_supervisor.commands.places import PlaceReader
from playbook_supervisor.drivers import driver_lock, gate_answer
from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.inbox.commands.admission import (
    Answerer,
    require_person,
    require_person_anywhere,
)
from playbook_supervisor.inbox.commands.gate_facts import GateFacts, facts_of
from playbook_supervisor.inbox.commands.repository import Row
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.sessions.files import principal, session_branch
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.disk.files import ensure_folder, written_at
from playbook_supervisor.system.disk.log_file import last_part
from playbook_supervisor.system.process.child_process import start_apart

_LOG = "inbox-resume.log"
_PART = 4_000  # bytes of the log that are looked at


@dataclass(frozen=True, slots=True)
class Submission:
    """The form that a person sent: the words, and the gate and the state that were shown."""

    gate: str
    state: str
    text: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The session after an answer. `resumes`: a process of ours goes on with the session."""

    snapshot: Snapshot
    resumes: bool = False


def answer(row: Row, given: Submission, who: Answerer) -> Recorded:
    """Record the answer, and go on if nothing else does.

    StateError PB-STATE-CHANGED if what was shown is not what is; the errors of `playbook answer`.
    """
    require_person(row, who)
    _require_shown(row, given)
    root, session_id = row.seen.root, row.session_id
    name = who.name or principal.local(root).name
    snapshot = record(
        [given.text],
        session=session_id,
        gate=given.gate,
        cwd=root,
        person=Principal(name, via="inbox"),
    )
    return Recorded(snapshot, _resume(row, snapshot))


def answer_elsewhere(place: PlaceReader, row: Row, given: Submission, who: Answerer) -> None:
    """Give the answer to the place that has the session. Errors as `answer`, and the place's."""
    require_person_anywhere(who)
    facts = _require_shown(row, given)
    _require_waiting(row, facts)
    decided = gate_answer.resolution(given.text, facts.choices, facts.gate.question)
    name = who.name or principal.local(row.seen.root).name
    place.answer(row.seen, facts.record, decided, given.text, name)


def _require_waiting(row: Row, facts: GateFacts) -> None:
    """The place may know of what has happened since the snapshot, and the other way round."""
    if row.elsewhere is not None and row.elsewhere.gate != facts.gate.id:
        said = f"the gate {first_line(facts.gate.id, 60)} does not wait any more"
        raise _changed(row, said, f", which is {row.elsewhere.state}")


def _require_shown(row: Row, given: Submission) -> GateFacts:
    """The facts of the gate that was answered. PB-STATE-BRANCH if another branch is checked out."""
    seen = row.seen
    if seen.code == session_branch.CODE and seen.manifest is not None:
        now = seen.store.standing(seen.session_id)
        raise session_branch.refusal(seen.store.checkout, seen.manifest, now)
    facts = facts_of(row)
    if facts is None or facts.gate.id != given.gate:
        raise _changed(row, f"the gate {first_line(given.gate, 60)} is not open any more")
    if facts.state != given.state:
        raise _changed(row, "something has changed since this was shown; look at it again")
    return facts


def _changed(row: Row, message: str, state: str = "") -> StateError:
    return StateError("PB-STATE-CHANGED", message, where=f"session {row.session_id}{state}")


def failure(row: Row) -> str:
    """The error of the inbox's last `playbook resume`; empty if the session has gone on since."""
    log = row.seen.store.runtime(row.session_id) / _LOG
    journal = row.seen.store.folder(row.session_id) / "journal.yaml"
    if written_at(journal) > written_at(log):
        return ""
    lines = last_part(log, _PART).splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    return first_line(errors[-1].removeprefix("error: "), 400) if errors else ""


def _resume(row: Row, snapshot: Snapshot) -> bool:
    private = row.seen.store.runtime(row.session_id)
    if not snapshot.config.inbox.resume or isinstance(snapshot.directive, Finish):
        return False
    if driver_lock.living(private) is not None or (row.seen.client and row.seen.client.lives):
        return False
    return _started(row.seen.root, row.session_id, private)


def _started(root: Path, session_id: str, private: Path) -> bool:
    ensure_folder(private)
    # Without -P, modules in the checkout would be imported, and an agent may write there.
    argv = [sys.executable, "-P", "-m", "playbook_supervisor", "resume", session_id]
    try:
        with (private / _LOG).open("wb") as log:
            process = start_apart(argv, root, log)
    except OSError as error:
        raise StorageError("PB-IO-WRITE", f"cannot write {private / _LOG}: {error}") from error
    threading.Thread(target=process.wait, daemon=True).start()
    return True
