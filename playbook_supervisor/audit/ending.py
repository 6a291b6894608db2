"""The session: whether session.yaml agrees with the journal, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseSession
from playbook_supervisor.audit.order import settled
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel import machine, phases
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.state import State
from playbook_supervisor.kernel.vocabulary import EntryStatus, Resolution, SessionStatus
from playbook_supervisor.sessions.manifest import SESSION_ID


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
    if context.merged and not session.ended:
        branch = first_line(session.branch or session.feature, 80)
        message = f"{branch} was merged into {context.merged}, but the session never ended"
        yield found("AUD-MERGED", message, session, "status")


def _names(context: AuditContext, session: LooseSession) -> Iterator[Problem]:
    if SESSION_ID.match(context.name) and session.session_id not in ("", context.name):
        message = (
            f"the session's id is {first_line(session.session_id, 40)}, unlike its folder's name"
        )
        yield found("AUD-SESSION", message, session, "session_id")
    kept = context.outline.name if context.outline is not None and context.pinned else ""
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
    """Whether session.yaml repeats what the kernel derives from the journal."""
    status = machine.status(state)
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
    failures, waived = machine.failures(state), tuple(sorted(state.waived))
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
