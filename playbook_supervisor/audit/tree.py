"""Child sessions: what an attempt says of its child, and the child of its parent."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseSession
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.vocabulary import EntryStatus, SessionStatus


def check(context: AuditContext) -> Iterator[Problem]:
    """Contradictions between a session and its child sessions, and its parent."""
    first: dict[str, LooseEntry] = {}
    for entry in context.journal.entries:
        if not entry.session or not context.journal.ours:
            continue
        other = first.setdefault(entry.session, entry)
        if other is not entry:
            message = f"{entry.name} has the child session of {other.name}"
            yield found("AUD-CHILD-TWICE", message, entry, "session")
        elif context.name:
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
    child, parent = record.session, f"{context.name}/{entry.id}"
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
    excused = bool(entry.waived) or context.step(entry).goes_on(entry.error_code)
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
    """Whether the attempt that the child names is there and names the child."""
    parent, named = context.tree.parent, first_line(session.parent, 80)
    if parent is None or parent.journal is None:
        yield found("AUD-PARENT", f"the parent {named} is not there", session, "parent")
        return
    named_by = [
        f"{parent.files.name}/{entry.id}"
        for entry in parent.journal.entries
        if entry.session == context.name
    ]
    if session.parent not in named_by:
        yield found("AUD-PARENT", f"{named} does not name this child session", session, "parent")
