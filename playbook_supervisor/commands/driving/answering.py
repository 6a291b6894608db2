"""The command `answer`: record what a person says at the open gate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.drivers import gate_answer
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import principal
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store import settings_in_force
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot


def answer(
    words: Sequence[str],
    *,
    session: str = "",
    gate: str = "",
    cwd: Path | None = None,
    person: Principal | None = None,
) -> Snapshot:
    """Record a human's answer to the open gate; `resume` drives.

    The first word is a session if it has the form of an id, or of one's beginning or end with a
    digit, and more words follow. `person` is one whom the caller knows; without it, the one who has
    started this process.
    """
    if not session and len(words) > 1 and _names_session(words[0], cwd):
        session, words = words[0], words[1:]
    text = " ".join(words)
    try:
        store, session_id = locate.select(session, cwd)
    except StateError as error:
        raise locate.with_waiting_sessions(error, cwd) from error
    if person is None:
        locate.require_human(store, session_id, "answer")
        person = principal.local(store.checkout.root, "a command")
    tree = locate.tree(store, session_id)
    snapshot = tree.look()
    asked = snapshot.directive
    if not isinstance(asked, Ask):
        no_gate = StateError("PB-STATE-NO-GATE", f"session {tree.id} is not waiting at a gate")
        raise locate.with_waiting_sessions(no_gate, cwd)
    if gate and gate != asked.id:
        wrong = f"the gate {gate} is not open; the open one is {asked.id}"
        raise StateError("PB-STATE-REFUSED", wrong)
    reply, decided = gate_answer.decided(text, asked.choices, snapshot.question)
    answered = gate_answer.record(tree, asked, reply, text, person)
    if decided is Resolution.ABORT and asked.member.within:
        answered = gate_answer.end_tree(tree).after(answered)
    if said := _notice(store, session_id):
        answered = replace(answered, notices=(*answered.notices, said))
    return locate.with_store_notices(answered)


def _names_session(word: str, cwd: Path | None) -> bool:
    """A word without a digit is taken for a part of the answer: an id may end with `fix`."""
    if SESSION_ID.match(word) or not any(character.isdigit() for character in word):
        return SESSION_ID.match(word) is not None
    return SESSION_ID.match(locate.named(locate.store(cwd), word)) is not None


def _notice(store: DiskStore, session_id: str) -> str:
    """What to know about the settings once an answer is recorded; no error can undo that."""
    try:
        told, _ = settings_in_force.difference(store, session_id)
    except PlaybookError as error:
        return f"recorded, but the settings are not compared: {error.message}"
    return settings_in_force.kept(told, session_id) if told else ""
