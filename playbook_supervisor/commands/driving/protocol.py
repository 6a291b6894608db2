"""The protocol by which a client drives a session: next and report; `driving` begins one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from playbook_supervisor.commands import locate
from playbook_supervisor.drivers.claude_code import authorization, binding
from playbook_supervisor.drivers.claude_code.context import (
    DirectiveDetails,
    directive_details,
    prepared,
)
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Failure, Finish, Outcome
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.sessions.files.serialize import outcome_from_json
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, for_agents, for_us, running
from playbook_supervisor.sessions.tree.session_tree import SessionTree

_INTERVAL = 0.1  # seconds between two looks at a journal that others write


def next_directive(
    session: str = "", *, wait: bool = False, cwd: Path | None = None
) -> tuple[Snapshot, DirectiveDetails]:
    """The outstanding directive; with `wait`, as soon as it is more than what is running now.

    With `wait`, steps without an agent are carried out, and the project's own checks are made, in
    a process that outlives this one.
    """
    tree = locate.admitted_tree(*locate.select(session, cwd))
    snapshot = tree.advance()
    known, ours = _running_ids(snapshot), False
    while wait and _nothing_new(snapshot, known, ours=ours):
        ours = bool(for_us(snapshot))
        _await_change(tree, snapshot)
        tree = locate.admitted_tree(tree.store, tree.id)
        snapshot = tree.advance()
    return reply(tree, snapshot)


def _nothing_new(snapshot: Snapshot, known: set[str], *, ours: bool) -> bool:
    """True while one has to wait: no agent is to be launched, and something is at work.

    `known` are the attempts that ran when the wait began, `ours` whether it was so far for what we
    carry out ourselves: then an agent is not waited for, because a client reports its end.
    """
    given = binding.launched_attempts(snapshot.private)
    launched = known if given is None else given
    if any(attempt.id not in launched for attempt in for_agents(snapshot)):
        return False
    if for_us(snapshot):
        return True
    return not ours and snapshot.repeated and _running_ids(snapshot) <= known


def _await_change(tree: SessionTree, snapshot: Snapshot) -> None:
    if delay := tree.delay(snapshot):
        until = monotonic() + delay
        while not tree.changed() and (left := until - monotonic()) > 0:
            binding.require_driver(tree.private)
            sleep(min(left, _INTERVAL))
    elif for_us(snapshot):
        from playbook_supervisor.drivers import detached

        detached.attend(tree)
    else:
        while not tree.changed():
            binding.require_driver(tree.private)
            sleep(_INTERVAL)


def report(
    attempt: str,
    *,
    error: str = "",
    outcome: object = None,
    session: str = "",
    cwd: Path | None = None,
) -> tuple[Snapshot, DirectiveDetails]:
    """A worker came back. A repeated report changes nothing and returns what is due now.

    The same goes for every report on a session that a client's hooks supervise: the hooks see
    for themselves what comes back.
    """
    reported = Outcome() if outcome is None else outcome_from_json(outcome)
    if error:
        failure = Failure("PB-AGENT-FAILED", printable(error).strip())
        reported = Outcome(failure, reported.output, reported.agent)
    tree = locate.admitted_tree(*locate.select(session, cwd))
    given = binding.launched_attempts(tree.private)
    _require_an_agents(tree.look(), attempt)
    if given is not None:
        snapshot = tree.advance()
        tree.require_known(attempt)
        return _with_details(tree, snapshot, given)
    place = tree.place_of(attempt)
    snapshot = tree.report(attempt, reported)
    if place and any(event.id == attempt for event in snapshot.events):
        from playbook_supervisor.sessions.steps.attempt_log import keep_words, secret_values

        keep_words(*place, reported.output, secret_values(os.environ))
    return reply(tree, snapshot)


def _require_an_agents(snapshot: Snapshot, attempt: str) -> None:
    if any(member.id == attempt for member in for_us(snapshot)):
        raise StateError(
            "PB-STATE-REFUSED",
            f"{attempt} is carried out by playbook itself",
            guidance="`playbook next --wait` carries it out and waits for it.",
        )


def tree_entries(snapshot: Snapshot) -> dict[str, Entry]:
    """The whole journals of the session and of all below it, by the ids of the attempts.

    Those of a child session, `release#1/plan#1`, stand behind the attempt that it works for.
    """
    return dict(_in_tree(snapshot.store, snapshot.session_id, "", {snapshot.session_id}))


def _in_tree(
    store: DiskStore, session_id: str, above: str, seen: set[str]
) -> Iterator[tuple[str, Entry]]:
    for entry in store.journal(session_id).entries:
        yield f"{above}{entry.id}", entry
        if entry.session and entry.session not in seen:
            seen.add(entry.session)
            with suppress(PlaybookError):  # it was not created, or cannot be read
                yield from _in_tree(store, entry.session, f"{above}{entry.id}/", seen)


def reply(tree: SessionTree, snapshot: Snapshot) -> tuple[Snapshot, DirectiveDetails]:
    """The snapshot with details; at the end, a conversation that drives by commands is unbound."""
    if locate.in_claude_code() and isinstance(snapshot.directive, Finish):
        authorization.release_ended(tree.store.checkout, tree.private)
    return _with_details(tree, snapshot, binding.launched_attempts(tree.private))


def _with_details(
    tree: SessionTree, snapshot: Snapshot, given: frozenset[str] | None
) -> tuple[Snapshot, DirectiveDetails]:
    snapshot = prepared(tree, snapshot)
    details = directive_details(tree, snapshot, given)
    return locate.with_store_notices(snapshot), details


def _running_ids(snapshot: Snapshot) -> set[str]:
    return {attempt.id for attempt in running(snapshot)}
