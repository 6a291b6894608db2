"""A person's answer from a browser: `playbook answer`, for the gate and the state that were shown.

Where no driver waits, `playbook resume` then goes on in a process of its own, if the settings with
which the session began say so (`inbox: {resume: true}`).
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.answering import answer as record
from playbook_supervisor.commands.inbox.feed import Row
from playbook_supervisor.commands.inbox.gate_facts import facts_of
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import principal
from playbook_supervisor.sessions.principal import Principal
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.system.child_process import start_apart
from playbook_supervisor.system.files import ensure_folder
from playbook_supervisor.system.log_file import last_part
from playbook_supervisor.system.peer_process import Peer

VIA = "inbox"
_LOG = "inbox-resume.log"
_PART = 4_000  # bytes of the log that are looked at


class Answer(Record):
    """What a person sent: the words, and the gate and the state that were shown."""

    gate: str
    state: str
    text: str


class Answerer(Record):
    """Who answers. `name` is empty for the user of this machine, whom each repository's git names.

    `peer` is the other end of the connection; None if the system does not tell. `proxied`: it is a
    proxy.
    """

    name: str
    proof: str
    peer: Peer | None = None
    proxied: bool = False


class Answered(Record):
    """What followed. `resumes`: a process of ours goes on with the session."""

    snapshot: Snapshot
    resumes: bool = False


def answer(row: Row, given: Answer, who: Answerer) -> Answered:
    """Record the answer, and go on if nothing else does.

    StateError PB-STATE-CHANGED if the gate is not open any more or something that was shown has
    changed, PB-STATE-HUMAN-ONLY if an agent asks; and the errors of `playbook answer`.
    """
    require_person(row, who)
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
    root, session_id = row.seen.root, row.session_id
    name = who.name or principal.local(root).name
    snapshot = record(
        [given.text],
        session=session_id,
        gate=given.gate,
        cwd=root,
        person=Principal(name, who.proof, VIA),
    )
    return Answered(snapshot, _resume(row, snapshot))


def require_person(row: Row, who: Answerer) -> None:
    """StateError PB-STATE-HUMAN-ONLY unless a person may be at the other end.

    Neither this process nor the one at the other end may have been started by an agent. A process
    that cannot be seen is refused, unless it is a proxy of another user.
    """
    store, command = row.seen.store, "answer in the inbox"
    locate.require_no_agent(store, "inbox")
    if who.peer is None or not who.peer.local:
        return
    private = store.runtime(locate.driven_as(store, row.session_id))
    for process in who.peer.processes:
        authorization.require_person_at(store.checkout, private, process, command)
    if not who.peer.processes and not (who.proxied and _is_another(who.peer.user)):
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"only a human may {command}, but the process that asks for it is unknown",
            guidance="Use a browser of your own account; for a proxy, start with --behind-proxy.",
        )


def _is_another(user: int) -> bool:
    return user not in (-1, os.getuid())


def failure(row: Row) -> str:
    """Why the last `playbook resume` of the inbox ended with an error; empty if it did not."""
    private = row.seen.store.runtime(row.session_id)
    lines = last_part(private / _LOG, _PART).splitlines()
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
