"""A person's answer from a browser: `playbook answer`, for the gate and the state that were shown.

Where no driver waits, `playbook resume` then goes on in a process of its own, if the settings with
which the session began say so (`inbox: {resume: true}`).
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from playbook_supervisor.commands.answering import answer as record
from playbook_supervisor.commands.inbox.admission import Answerer, require_person
from playbook_supervisor.commands.inbox.feed import Row
from playbook_supervisor.commands.inbox.gate_facts import GateFacts, facts_of
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import principal, session_branch
from playbook_supervisor.sessions.principal import Principal
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.system.child_process import start_apart
from playbook_supervisor.system.files import ensure_folder, written_at
from playbook_supervisor.system.log_file import last_part

_LOG = "inbox-resume.log"
_PART = 4_000  # bytes of the log that are looked at


class Submission(Record):
    """What a person sent: the words, and the gate and the state that were shown."""

    gate: str
    state: str
    text: str


class Recorded(Record):
    """What followed. `resumes`: a process of ours goes on with the session."""

    snapshot: Snapshot
    resumes: bool = False


def answer(row: Row, given: Submission, who: Answerer) -> Recorded:
    """Record the answer, and go on if nothing else does.

    StateError PB-STATE-CHANGED if the gate is not open any more or something that was shown has
    changed, PB-STATE-HUMAN-ONLY if an agent asks; and the errors of `playbook answer`.
    """
    require_person(row, who)
    require_shown(row, given)
    root, session_id = row.seen.root, row.session_id
    name = who.name or principal.local(root).name
    snapshot = record(
        [given.text],
        session=session_id,
        gate=given.gate,
        cwd=root,
        person=Principal(name, "a browser of the inbox", "inbox"),
    )
    return Recorded(snapshot, _resume(row, snapshot))


def require_shown(row: Row, given: Submission) -> GateFacts:
    """The facts of the gate that was answered, if they are what was shown.

    StateError PB-STATE-CHANGED if it is not open any more, or something has changed, and
    PB-STATE-BRANCH if another branch is checked out.
    """
    seen = row.seen
    if seen.code == session_branch.CODE and seen.manifest is not None:
        now = seen.store.standing(seen.session_id)
        raise session_branch.refusal(seen.store.checkout, seen.manifest, now)
    facts = facts_of(row)
    if facts is None or facts.gate.id != given.gate:
        raise StateError(
            "PB-STATE-CHANGED",
            f"the gate {first_line(given.gate, 60)} is not open any more",
            where=f"session {row.session_id}",
        )
    if facts.state != given.state:
        raise StateError(
            "PB-STATE-CHANGED",
            "something has changed since this was shown; look at it again",
            where=f"session {row.session_id}",
        )
    return facts


def failure(row: Row) -> str:
    """Why the last `playbook resume` of the inbox ended with an error.

    Empty if it did not, or if the session has gone on since then.
    """
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
