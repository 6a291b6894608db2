"""A person's answer at the open gate, from any terminal, page or machine."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.answers import ParsedAnswer, read_answer
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store import settings_in_force
from playbook_supervisor.sessions.store.selection import OPEN
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree


def resolution(text: str, choices: Sequence[Resolution], question: str = "") -> Resolution:
    """As `decided`, where the session's settings cannot be taken over: such words are refused."""
    reply, decision = decided(text, choices, question)
    if reply.settings is not None:
        raise ArgumentError(
            "PB-ARG-ANSWER",
            "settings are taken over in the worktree of the session",
            where=question,
            guidance="Answer without `take settings`.",
        )
    return decision


def decided(
    text: str, choices: Sequence[Resolution], question: str = ""
) -> tuple[ParsedAnswer, Resolution]:
    """The meaning of the words. ArgumentError PB-ARG-ANSWER if they decide nothing."""
    reply = read_answer(text, choices)
    if reply.resolution is not None:
        return reply, reply.resolution
    said = f"{first_line(text, 80)!r} does not answer this gate"
    raise ArgumentError(
        "PB-ARG-ANSWER",
        f"{said}: {reply.question}" if reply.question else said,
        where=question,
        guidance=f"Begin or end with one of: {', '.join(choices)}; as in `{choices[1]}: REASON`.",
    )


def record(
    tree: SessionTree,
    asked: Ask,
    reply: ParsedAnswer,
    text: str,
    by: Principal,
    *,
    shown: str = "",
) -> Snapshot:
    """Record a decision, after the settings that it takes over; `shown` is their digest, if known.

    Errors as `SessionTree.answer` and `settings_in_force.take`; then the gate stays open.
    """
    assert reply.resolution is not None  # noqa: S101 - the caller has read a decision
    if reply.settings is not None:
        seen = reply.settings or shown
        lineage = tree.lineage(asked.member)
        settings_in_force.take(tree.store, lineage, asked, seen, reply.resolution, by)
    return tree.answer(asked.id, reply.resolution, text, by)


def end_tree(tree: SessionTree) -> Snapshot:
    """After an abort of a child, end the sessions above it; a runner does that by itself."""
    if driver_lock.living(tree.private) is not None:
        return tree.look()
    with driver_lock.driving(tree.private, "abort"):
        return tree.advance()


# ── what a person asks for at a terminal or a client's prompt ─────────────────────────────────────


def require_open(snapshot: Snapshot, *, or_failed: bool = False) -> None:
    """StateError PB-STATE-ENDED if the session has ended; with `or_failed`, not if it failed."""
    session_id, status = snapshot.session_id, snapshot.manifest.status
    if status in OPEN or (or_failed and status is SessionStatus.FAILED):
        return
    message, guidance = f"session {session_id} is already {status}", "Begin a new session."
    if status is SessionStatus.FAILED:
        message = f"session {session_id} has already failed"
        retry, end = f"playbook resume {session_id} --retry", f"playbook abort {session_id}"
        guidance = f"`{retry}` resumes it, `{end}` ends it."
    raise StateError("PB-STATE-ENDED", message, guidance=guidance)


def abort(tree: SessionTree, words: str, by: Principal) -> Snapshot:
    """End the session and its workers. The caller keeps other drivers away meanwhile."""
    driver_lock.end_detached(tree.private)
    tree.end_workers()
    return tree.abort(words or Resolution.ABORT.value, by)
