"""The protocol by which a client drives a session: begin, next, report, and what it is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.records import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.drivers.claude_code.context import HookReply
    from playbook_supervisor.drivers.notifications import Notice
    from playbook_supervisor.kernel.state import Entry
    from playbook_supervisor.sessions.serialize import WorkItem
    from playbook_supervisor.sessions.snapshot import Snapshot
    from playbook_supervisor.sessions.store import DiskStore
    from playbook_supervisor.sessions.supervisor import Supervisor

_LOOK = 0.1  # seconds between two looks at a journal that others write


def begin(
    reference: str, args: Sequence[str] = (), *, start: str = "", cwd: Path | None = None
) -> tuple[Snapshot, DirectiveDetails]:
    """Begin a session and answer with its first directive, and what comes with it."""
    from playbook_supervisor.sessions import creation

    store = locate.store(cwd)
    if locate.inside():
        from playbook_supervisor.drivers.claude_code import authorization

        authorization.admit_begin(store.checkout, start, os.environ)
    wanted = creation.intend(store, reference, args, start=start)
    supervisor = locate.admitted(store, creation.begin(store, wanted, start=start, exports=False))
    outlook = replace(supervisor.begin(start), notices=wanted.warnings)
    return _handed_out(store, supervisor, outlook)


def next_directive(
    session: str = "", *, wait: bool = False, cwd: Path | None = None
) -> tuple[Snapshot, DirectiveDetails]:
    """What is outstanding; with `wait`, as soon as it is more than what is under way now."""
    from time import sleep

    store, session_id = locate.meant(session, cwd)
    supervisor = locate.admitted(store, session_id)
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
) -> tuple[Snapshot, DirectiveDetails]:
    """A worker came back; a repeated report changes nothing and answers with what is due now.

    Nor does any report of a session that a client's hooks supervise: they see what comes back.
    """
    from playbook_supervisor.formats.sanitize import printable
    from playbook_supervisor.kernel.directives import Failure, Outcome
    from playbook_supervisor.sessions.serialize import outcome_from_json

    brought = Outcome() if outcome is None else outcome_from_json(outcome)
    if error:
        said = printable(error).strip()
        brought = Outcome(Failure("PB-AGENT-FAILED", said), brought.output, brought.agent)
    store, session_id = locate.meant(session, cwd)
    supervisor = locate.admitted(store, session_id)
    if _hooks_report(supervisor):
        outlook = supervisor.outlook()
        return locate.kept(store, outlook), _enclosed(supervisor, outlook)
    return _handed_out(store, supervisor, supervisor.report(attempt, brought))


def in_a_client(outlook: Snapshot, *, cwd: Path | None = None) -> bool:
    """Whether a client that lives drives the session, with hooks or without."""
    from playbook_supervisor.drivers.claude_code import binding

    store, session_id = locate.meant(outlook.manifest.session_id, cwd)
    return binding.living(store.runtime(session_id)) is not None


def hook(payload: Mapping[str, Any], environment: Mapping[str, str]) -> HookReply | None:
    """The reply to one hook of the Claude Code client; None where there is nothing to say."""
    from playbook_supervisor.drivers.claude_code.hooks import handle

    reply = handle(payload, environment)
    if reply is not None and reply.notice is not None:
        _call(reply.notice, environment.get("CLAUDE_PROJECT_DIR") or str(payload.get("cwd", "")))
    return reply


def _call(notice: Notice, folder: str) -> None:
    """Have the project's command call the person; a hook does not wait for it."""
    from playbook_supervisor.drivers import notifications
    from playbook_supervisor.project import config
    from playbook_supervisor.sessions.store import DiskStore
    from playbook_supervisor.system import checkout

    with suppress(PlaybookError):  # what is wrong with the settings is told elsewhere
        here = checkout.find(Path(folder))
        argv = config.load(here.root).notify
        private = DiskStore(here).runtime(notice.session)
        if argv and notifications.claim(notice, private):
            notifications.send_detached(argv, notice, here.root, private)


# ── what comes with a directive ─────────────────────────────────────────────────────────────


class DirectiveDetails(Record):
    """What comes with a directive.

    `handouts` are what each attempt that is to run needs, by its id. `context` helps to answer the
    gate that is asked (kai FR24). `given` are the attempts that agents of a living client have
    been given; None where no hook knows.
    """

    handouts: Mapping[str, WorkItem]
    context: tuple[str, ...]
    given: frozenset[str] | None


def enclosed(outlook: Snapshot, *, cwd: Path | None = None) -> DirectiveDetails:
    """What comes with the directive of a session, which lives in any worktree."""
    return _enclosed(_of(outlook, cwd), outlook)


def _enclosed(supervisor: Supervisor, outlook: Snapshot) -> DirectiveDetails:
    """The project's own tools are made to look at the session's feature on the way."""
    from playbook_supervisor.drivers.claude_code import binding
    from playbook_supervisor.sessions.serialize import WorkItem
    from playbook_supervisor.sessions.snapshot import running

    handouts = {}
    for member in running(outlook):
        work = supervisor.work(outlook, member)
        supervisor.environment(outlook, work)
        handouts[member.id] = WorkItem(work.command, work.args, work.prompt)
    return DirectiveDetails(
        handouts, supervisor.context(outlook), binding.launched_attempts(supervisor.private)
    )


def context(outlook: Snapshot, *, cwd: Path | None = None) -> tuple[str, ...]:
    """What helps to answer the gate that is asked; empty where none is (kai FR24)."""
    return _of(outlook, cwd).context(outlook)


def entries(outlook: Snapshot, *, cwd: Path | None = None) -> tuple[Entry, ...]:
    """The whole journal of the session, oldest first."""
    store, session_id = locate.meant(outlook.manifest.session_id, cwd)
    return store.journal(session_id).entries


def _hooks_report(supervisor: Supervisor) -> bool:
    from playbook_supervisor.drivers.claude_code import binding

    return binding.launched_attempts(supervisor.private) is not None


def _handed_out(
    store: DiskStore, supervisor: Supervisor, outlook: Snapshot
) -> tuple[Snapshot, DirectiveDetails]:
    """The same, with its copies kept; a conversation that drives by commands lets an end go."""
    from playbook_supervisor.kernel.directives import Finish

    if locate.inside() and isinstance(outlook.directive, Finish):
        from playbook_supervisor.drivers.claude_code import authorization

        authorization.release_ended(store.checkout, supervisor.private)
    return locate.kept(store, outlook), _enclosed(supervisor, outlook)


def _under_way(outlook: Snapshot) -> set[str]:
    from playbook_supervisor.sessions.snapshot import running

    return {attempt.id for attempt in running(outlook)}


def _of(outlook: Snapshot, cwd: Path | None) -> Supervisor:
    store, session_id = locate.meant(outlook.manifest.session_id, cwd)
    return locate.supervisor(store, session_id, exports=False)
