"""The session: whether session.yaml, the parent and the child sessions agree with the journal."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseSession
from playbook_supervisor.audit.order import settled
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel import machine, phases
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.state import State
from playbook_supervisor.kernel.vocabulary import EntryStatus, Resolution, SessionStatus
from playbook_supervisor.sessions.files.manifest import SESSION_ID


def check(context: AuditContext) -> Iterator[Problem]:
    """Contradictions between session.yaml and the journal."""
    session = context.session
    if session is None:
        return
    yield from _names(context, session)
    if session.status is None:
        return
    if session.ended:
        for entry in context.journal.entries:
            if entry.status is EntryStatus.IN_PROGRESS:
                message = f"{entry.name} is in progress, but the session is {session.status}"
                yield found("AUD-ENDED", message, entry, "status")
    if session.status is SessionStatus.COMPLETED:
        yield from _completed(context, session)
    if context.state is not None:
        yield from _projection(context, session, context.state)
    else:
        yield from _without_kernel(context, session, session.status)
    if context.files.merged and not session.ended:
        branch = first_line(session.branch or session.feature, 80)
        message = f"{branch} was merged into {context.files.merged}, but the session never ended"
        yield found("AUD-MERGED", message, session, "status")


def _names(context: AuditContext, session: LooseSession) -> Iterator[Problem]:
    if SESSION_ID.match(context.files.name) and session.session_id not in ("", context.files.name):
        message = (
            f"the session's id is {first_line(session.session_id, 40)}, unlike its folder's name"
        )
        yield found("AUD-SESSION", message, session, "session_id")
    kept = context.outline.name if context.outline is not None and context.files.pinned else ""
    if kept and session.playbook not in ("", kept):
        named = first_line(session.playbook, 60)
        message = f"the session names the playbook {named}, but its copy is {first_line(kept, 60)}"
        yield found("AUD-PLAYBOOK", message, session, "playbook")
    if session.feature and session.asked_for and not _same_feature(session):
        given = first_line(session.asked_for, 60)
        feature = first_line(session.feature, 60)
        message = f"the session's feature is {feature}, but its arguments say {given}"
        yield found("AUD-FEATURE", message, session, "feature")


def _same_feature(session: LooseSession) -> bool:
    """Other tools record what was typed: the feature's number or its path."""
    given = session.asked_for.strip().rstrip("/").rpartition("/")[2]
    return session.feature in (session.asked_for, given) or session.feature.startswith(f"{given}-")


def _completed(context: AuditContext, session: LooseSession) -> Iterator[Problem]:
    last = context.journal.last
    begun = {entry.step for entry in last.values()}
    for entry in last.values():
        failed = entry.status is EntryStatus.FAILED or entry.resolution is Resolution.ABORT
        if failed and not settled(context, entry):
            message = f"{entry.name} is {entry.status}, but the session is completed"
            yield found("AUD-COMPLETED", message, entry, "status")
    for step in context.outline.steps if context.outline is not None else ():
        if step.id not in begun:
            message = f"the session is completed, but {first_line(step.id, 60)} has no entry"
            yield found("AUD-COMPLETED", message, session, "status")


def _projection(context: AuditContext, session: LooseSession, state: State) -> Iterator[Problem]:
    status = phases.status(state)
    if session.status is not status:
        # a wrong `completed`, and work after the end, are reported with their entries
        if session.status is not SessionStatus.COMPLETED and not _at_work(context, session):
            message = f"the session is {session.status}, but {status} by its journal"
            yield found("AUD-STATUS", message, session, "status")
        return
    current = phases.current_step(state)
    if session.current_step != current:
        message = f"by the journal, the current step is {current or 'none'}"
        yield found("AUD-CURRENT", message, session, "current_step")
    failures, waived = phases.failures(state), tuple(sorted(state.waived))
    if session.failures not in (0, failures) or session.waived not in ((), waived):  # older: none
        names = ", ".join(map(first_line, waived)) or "nothing"
        message = f"by the journal, {counted(failures, 'step')} failed and {names} was waived"
        yield found("AUD-STATUS", message, session, "failures" if session.failures else "waived")
    asked = machine.directive(state)
    waiting = asked.id if isinstance(asked, Ask) else ""
    if session.gate != waiting:
        message = f"by the journal, {waiting or 'no gate'} waits"
        yield found("AUD-WAITING", message, session, "gate")


def _at_work(context: AuditContext, session: LooseSession) -> bool:
    return session.ended and any(
        entry.status is EntryStatus.IN_PROGRESS for entry in context.journal.entries
    )


def _without_kernel(
    context: AuditContext, session: LooseSession, status: SessionStatus
) -> Iterator[Problem]:
    """The same for journals that the kernel cannot replay, as far as it is certain."""
    entries, last = context.journal.entries, context.journal.last
    working = [entry for entry in entries if entry.status is EntryStatus.IN_PROGRESS]
    steps = context.outline.steps if context.outline is not None else ()
    all_settled = (
        bool(steps)
        and all(any(entry.step == step.id for entry in last.values()) for step in steps)
        and all(settled(context, entry) for entry in last.values())
    )
    why = ""
    if status is SessionStatus.PENDING and entries:
        why = "it is pending, but its journal has entries"
    elif status is SessionStatus.IN_PROGRESS and all_settled:
        why = "it is in progress, but every step is settled"
    elif status is SessionStatus.FAILED and not any(
        entry.status is EntryStatus.FAILED for entry in last.values()
    ):
        why = "it is failed, but no step is" if not working else ""
    if why:
        yield found("AUD-STATUS", f"the session: {why}", session, "status")
    current = session.current_step
    if not session.ended and current and len(working) == 1 and working[0].step_id != current:
        message = f"by the journal, the current step is {working[0].name}"
        yield found("AUD-CURRENT", message, session, "current_step")


# ── the parent and the child sessions ───────────────────────────────────────────────────────


def check_tree(context: AuditContext) -> Iterator[Problem]:
    """Contradictions between a session and its child sessions, and its parent."""
    first: dict[str, LooseEntry] = {}
    for entry in context.journal.entries:
        if not entry.session or not context.journal.ours:
            continue
        other = first.setdefault(entry.session, entry)
        if other is not entry:
            message = f"{entry.name} has the child session of {other.name}"
            yield found("AUD-CHILD-TWICE", message, entry, "session")
        elif context.files.name:
            yield from _child(context, entry)
    if context.session is not None and context.session.parent:
        yield from _parent(context, context.session)


def _child(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """The child of one attempt. It is made after the launch, so a stopped attempt may have none."""
    name, record = first_line(entry.session, 40), context.tree.child(entry.session)
    if record is None or record.session is None:
        if entry.status is EntryStatus.DONE:
            message = f"{entry.name} is done, but its child session {name} is not there"
            yield found("AUD-CHILD", message, entry, "session")
        return
    child, parent = record.session, f"{context.files.name}/{entry.id}"
    if child.parent != parent:
        said = first_line(child.parent, 80) or "no parent"
        message = f"{entry.name} has the child session {name}, which names {said}"
        yield found("AUD-CHILD", message, entry, "session")
        return
    if _unfinished(context, entry, child):
        message = f"{entry.name} is done, but its child session {name} is {child.status}"
        yield found("AUD-CHILD-END", message, entry, "status")
    yield from _times(context, entry, child)


def _unfinished(context: AuditContext, entry: LooseEntry, child: LooseSession) -> bool:
    excused = bool(entry.waived) or context.step(entry).tolerates(entry.error_code)
    over = child.status in (SessionStatus.COMPLETED, None)
    return entry.status is EntryStatus.DONE and not over and not excused


def _times(context: AuditContext, entry: LooseEntry, child: LooseSession) -> Iterator[Problem]:
    begun = entry.started_at if entry.launched_at is None else entry.launched_at
    ended = entry.completed_at if entry.returned_at is None else entry.returned_at
    first, last = child.started_at, child.completed_at
    if first is not None and begun is not None and first < begun - context.tolerance:
        message = f"{entry.name} began at {to_time(begun)}, its child at {to_time(first)}"
        yield found("AUD-CHILD-TIME", message, entry, "started_at")
    if last is not None and ended is not None and last > ended + context.tolerance:
        message = f"{entry.name} ended at {to_time(ended)}, its child at {to_time(last)}"
        yield found("AUD-CHILD-TIME", message, entry, "status")


def _parent(context: AuditContext, session: LooseSession) -> Iterator[Problem]:
    parent, named = context.tree.parent, first_line(session.parent, 80)
    if parent is None or parent.journal is None:
        yield found("AUD-PARENT", f"the parent {named} is not there", session, "parent")
        return
    named_by = [
        f"{parent.files.name}/{entry.id}"
        for entry in parent.journal.entries
        if entry.session == context.files.name
    ]
    if session.parent not in named_by:
        yield found("AUD-PARENT", f"{named} does not name this child session", session, "parent")
