"""The protocol by which a client drives a session: begin, next, report, and what it is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from playbook_supervisor.api import place
from playbook_supervisor.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from playbook_supervisor.drivers.claude_code.desk import Reply
    from playbook_supervisor.kernel.state import Entry
    from playbook_supervisor.outlook import Outlook
    from playbook_supervisor.store import Store
    from playbook_supervisor.supervisor import Supervisor
    from playbook_supervisor.wire import Handout

_LOOK: Final = 0.1  # seconds between two looks at a journal that others write


def begin(
    reference: str, args: Sequence[str] = (), *, start: str = "", cwd: Path | None = None
) -> Outlook:
    """Begin a session and answer with its first directive."""
    from playbook_supervisor import beginning

    store = place.store(cwd)
    if place.inside():
        from playbook_supervisor.drivers.claude_code import humans

        humans.admit_beginning(store.checkout, start, os.environ)
    wanted = beginning.intend(store, reference, args, start=start)
    supervisor = place.admitted(store, beginning.begin(store, wanted))
    outlook = replace(supervisor.begin(start), notices=wanted.warnings)
    return _handed_out(store, supervisor, outlook)


def next_directive(session: str = "", *, wait: bool = False, cwd: Path | None = None) -> Outlook:
    """What is outstanding; with `wait`, as soon as it is more than what is under way now."""
    from time import sleep

    store, session_id = place.meant(session, cwd)
    supervisor = place.admitted(store, session_id)
    outlook = supervisor.outlook()
    known = _under_way(outlook)
    while wait and outlook.repeated and _under_way(outlook) <= known:
        while not supervisor.changed():
            sleep(_LOOK)
        outlook = supervisor.outlook()
    return _handed_out(store, supervisor, outlook)


def report(
    attempt: str,
    *,
    error: str = "",
    outcome: object = None,
    session: str = "",
    cwd: Path | None = None,
) -> Outlook:
    """A worker came back; a repeated report changes nothing and answers with what is due now.

    Nor does any report of a session that a client's hooks supervise: they see what comes back.
    """
    from playbook_supervisor.kernel.directives import Failure, Outcome
    from playbook_supervisor.plain_text import printable
    from playbook_supervisor.wire import outcome_from_json

    brought = Outcome() if outcome is None else outcome_from_json(outcome)
    if error:
        said = printable(error).strip()
        brought = Outcome(Failure("PB-AGENT-FAILED", said), brought.output, brought.agent)
    store, session_id = place.meant(session, cwd)
    supervisor = place.admitted(store, session_id)
    if _supervised(supervisor):
        return place.kept(store, supervisor.outlook())
    return _handed_out(store, supervisor, supervisor.report(attempt, brought))


def supervised(outlook: Outlook, *, cwd: Path | None = None) -> bool:
    """Whether the hooks of a living client report what happens in the session."""
    from playbook_supervisor.drivers.claude_code import humans

    store, session_id = place.meant(outlook.manifest.session_id, cwd)
    return humans.supervised(store.runtime(session_id))


def in_a_client(outlook: Outlook, *, cwd: Path | None = None) -> bool:
    """Whether a client that lives drives the session, with hooks or without."""
    from playbook_supervisor.drivers.claude_code import binding

    store, session_id = place.meant(outlook.manifest.session_id, cwd)
    return binding.living(store.runtime(session_id)) is not None


def hook(payload: Mapping[str, Any], environment: Mapping[str, str]) -> Reply | None:
    """The reply to one hook of the Claude Code client; None where there is nothing to say."""
    from playbook_supervisor.drivers.claude_code.hooks import handle

    return handle(payload, environment)


# ── what comes with a directive ─────────────────────────────────────────────────────────────


def handouts(outlook: Outlook, *, cwd: Path | None = None) -> dict[str, Handout]:
    """What each attempt that is to run needs, by its id; empty where none is.

    The project's own tools are made to look at the session's feature on the way.
    """
    from playbook_supervisor.outlook import running
    from playbook_supervisor.wire import Handout

    supervisor = _of(outlook, cwd)
    given = {}
    for member in running(outlook):
        work = supervisor.work(outlook, member)
        supervisor.environment(outlook, work)
        given[member.id] = Handout(work.command, work.args, work.prompt)
    return given


def context(outlook: Outlook, *, cwd: Path | None = None) -> tuple[str, ...]:
    """What helps to answer the gate that is asked; empty where none is (kai FR24)."""
    return _of(outlook, cwd).context(outlook)


def entries(outlook: Outlook, *, cwd: Path | None = None) -> tuple[Entry, ...]:
    """The whole journal of the session, oldest first."""
    store, session_id = place.meant(outlook.manifest.session_id, cwd)
    return store.journal(session_id).entries


def _supervised(supervisor: Supervisor) -> bool:
    from playbook_supervisor.drivers.claude_code import humans

    return humans.supervised(supervisor.private)


def _handed_out(store: Store, supervisor: Supervisor, outlook: Outlook) -> Outlook:
    """The same, with its copies kept; a conversation that drives by commands lets an end go."""
    from playbook_supervisor.kernel.directives import Finish

    if place.inside() and isinstance(outlook.directive, Finish):
        from playbook_supervisor.drivers.claude_code import humans

        humans.settled(store.checkout, supervisor.private)
    return place.kept(store, outlook)


def _under_way(outlook: Outlook) -> set[str]:
    from playbook_supervisor.outlook import running

    return {attempt.id for attempt in running(outlook)}


def _of(outlook: Outlook, cwd: Path | None) -> Supervisor:
    store, session_id = place.meant(outlook.manifest.session_id, cwd)
    return place.supervisor(store, session_id, exports=False)
