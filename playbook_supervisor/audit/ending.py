"""The session: what session.yaml says of the journal, and how it all ended."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseSession
from playbook_supervisor.audit.order import settled
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import machine, phases
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.state import State
from playbook_supervisor.kernel.vocabulary import EntryStatus, Resolution, SessionStatus
from playbook_supervisor.sessions.manifest import SESSION_ID


def judge(case: AuditContext) -> Iterator[Problem]:
    """All of them."""
    session = case.session
    if session is None:
        return
    yield from _names(case, session)
    if session.status is None:
        return
    if session.ended:
        for entry in case.journal.entries:
            if entry.status is EntryStatus.IN_PROGRESS:
                message = f"{entry.name} is in progress, and the session is {session.status}"
                yield found("AUD-ENDED", message, entry, "status")
    if session.status is SessionStatus.COMPLETED:
        yield from _completed(case, session)
    if case.state is not None:
        yield from _projection(case, session, case.state)
    else:
        yield from _standing(case, session, session.status)
    if case.merged and not session.ended:
        branch = first_line(session.branch or session.feature, 80)
        message = f"{branch} was merged into {case.merged}, and the session never ended"
        yield found("AUD-MERGED", message, session, "status")


def _names(case: AuditContext, session: LooseSession) -> Iterator[Problem]:
    if SESSION_ID.match(case.name) and session.session_id not in ("", case.name):
        message = f"the session calls itself {first_line(session.session_id, 40)}"
        yield found("AUD-SESSION", message, session, "session_id")
    kept = case.outline.name if case.outline is not None and case.pinned else ""
    if kept and session.playbook not in ("", kept):
        named = first_line(session.playbook, 60)
        message = f"the session names the playbook {named} and keeps {first_line(kept, 60)}"
        yield found("AUD-PLAYBOOK", message, session, "playbook")
    if session.feature and session.asked_for and not _same_feature(session):
        given = first_line(session.asked_for, 60)
        message = f"the session is of {first_line(session.feature, 60)}, asked for was {given}"
        yield found("AUD-FEATURE", message, session, "feature")


def _same_feature(session: LooseSession) -> bool:
    """Other tools keep what was typed: a number, or a path, of the feature that it means."""
    given = session.asked_for.strip().rstrip("/").rpartition("/")[2]
    return session.feature in (session.asked_for, given) or session.feature.startswith(f"{given}-")


def _completed(case: AuditContext, session: LooseSession) -> Iterator[Problem]:
    last = case.journal.last
    for entry in last.values():
        failed = entry.status is EntryStatus.FAILED or entry.resolution is Resolution.ABORT
        if failed and not settled(case, entry):
            message = f"{entry.name} is {entry.status}, and the session is completed"
            yield found("AUD-COMPLETED", message, entry, "status")
    for step in case.outline.steps if case.outline is not None else ():
        if step.id not in last:
            message = f"the session is completed, and {first_line(step.id, 60)} has no entry"
            yield found("AUD-COMPLETED", message, session, "status")


def _projection(case: AuditContext, session: LooseSession, state: State) -> Iterator[Problem]:
    """What the kernel makes of the journal, against what session.yaml repeats of it."""
    status = machine.status(state)
    if session.status is not status:
        # what contradicts a `completed`, or goes on after an end, has been named by its entry
        if session.status is not SessionStatus.COMPLETED and not _at_work(case, session):
            message = f"the session is {session.status}, by its journal {status}"
            yield found("AUD-STATUS", message, session, "status")
        return
    current = phases.current_step(state)
    if session.current_step != current:
        message = f"the current step is {current or 'none'} by the journal"
        yield found("AUD-CURRENT", message, session, "current_step")
    asked = machine.directive(state)
    waiting = asked.id if isinstance(asked, Ask) else ""
    if session.gate != waiting:
        message = f"{waiting or 'no gate'} waits by the journal"
        yield found("AUD-WAITING", message, session, "gate")


def _at_work(case: AuditContext, session: LooseSession) -> bool:
    return session.ended and any(
        entry.status is EntryStatus.IN_PROGRESS for entry in case.journal.entries
    )


def _standing(
    case: AuditContext, session: LooseSession, status: SessionStatus
) -> Iterator[Problem]:
    """The same as far as it is plain without the kernel, for journals that it cannot replay."""
    entries, last = case.journal.entries, case.journal.last
    working = [entry for entry in entries if entry.status is EntryStatus.IN_PROGRESS]
    steps = case.outline.steps if case.outline is not None else ()
    all_settled = bool(steps) and all(
        step.id in last and settled(case, last[step.id]) for step in steps
    )
    why = ""
    if status is SessionStatus.PENDING and entries:
        why = "it is pending, and its journal has entries"
    elif status is SessionStatus.IN_PROGRESS and all_settled:
        why = "it is in progress, and every step is settled"
    elif status is SessionStatus.FAILED and not any(
        entry.status is EntryStatus.FAILED for entry in last.values()
    ):
        why = "it is failed, and no step is" if not working else ""
    if why:
        yield found("AUD-STATUS", f"the session: {why}", session, "status")
    current = session.current_step
    if not session.ended and current and len(working) == 1 and working[0].step_id != current:
        message = f"the current step is {working[0].name} by the journal"
        yield found("AUD-CURRENT", message, session, "current_step")
