"""Order: what has to be settled first is settled first, and attempts are counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_playbook import LoosePlaybook
from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.state import INTERRUPTED
from playbook_supervisor.kernel.vocabulary import EntryStatus, ErrorPolicy, Resolution


def judge(case: AuditContext) -> Iterator[Problem]:
    """All of them."""
    yield from _attempts(case)
    if case.journal.ours:
        yield from _as_begun(case)
    if case.outline is not None:
        yield from _phases(case, case.outline)
        yield from _overlaps(case, case.outline)


# ── the attempts at one step ────────────────────────────────────────────────────────────────


def _attempts(case: AuditContext) -> Iterator[Problem]:
    steps: dict[str, list[LooseEntry]] = {}
    for entry in case.journal.entries:
        if entry.step_id:
            steps.setdefault(entry.step_id, []).append(entry)
    for attempts in steps.values():
        yield from _counted(case, attempts)
        yield from _again(attempts)
        yield from _retried(case, attempts)
        for former, entry in pairwise(attempts):
            if entry.number > former.number:
                yield from _overlap(case, entry, former)


def _counted(case: AuditContext, attempts: list[LooseEntry]) -> Iterator[Problem]:
    """Others write every attempt without a number, so that none can be wrong."""
    if not case.journal.ours:
        return
    seen: set[int] = set()
    latest = 0
    for entry in attempts:
        if entry.number in seen:
            yield found("AUD-TWICE", f"there are two entries {entry.name}", entry, "step_id")
        elif entry.number != latest + 1:
            message = f"{entry.name} is the attempt after {latest}"
            yield found("AUD-ATTEMPT", message, entry, "attempt")
        seen.add(entry.number)
        latest = max(latest, entry.number)


def _again(attempts: list[LooseEntry]) -> Iterator[Problem]:
    for former, entry in pairwise(attempts):
        settled = former.status in (EntryStatus.DONE, EntryStatus.SKIPPED)
        if settled and entry.number > former.number:
            message = f"{entry.name} began after {former.name} was {former.status}"
            yield found("AUD-AGAIN", message, entry, "step_id")


def _retried(case: AuditContext, attempts: list[LooseEntry]) -> Iterator[Problem]:
    """Once for a step: where the first retry too many stands."""
    step = case.step(attempts[0])
    foreign = not case.journal.ours
    # what other tools wrote does not say who restarted a session that had stopped
    if step.retries is None or (foreign and step.policy != ErrorPolicy.RETRY_ONCE):
        return
    by_itself = 0
    for former, entry in pairwise(attempts):
        asked = former.resolution is Resolution.RETRY or former.error_code == INTERRUPTED
        if foreign:
            asked = asked or bool(former.human_response or entry.human_response)
        by_itself += former.status is EntryStatus.FAILED and not asked
        if by_itself > step.retries:
            message = f"{entry.name}: `{first_line(step.policy, 40)}` does not allow this attempt"
            yield found("AUD-RETRY", message, entry, "step_id")
            return


# ── one step after another ──────────────────────────────────────────────────────────────────


def _as_begun(case: AuditContext) -> Iterator[Problem]:
    latest: LooseEntry | None = None
    for entry in case.journal.entries:
        if entry.started_at is None:
            continue
        if latest is not None and entry.started_at < (latest.started_at or 0):
            message = f"{entry.name} began before {latest.name}, which stands above it"
            yield found("AUD-ORDER", message, entry, "started_at")
        else:
            latest = entry


def _phases(case: AuditContext, outline: LoosePlaybook) -> Iterator[Problem]:
    """Once for a step that was passed by: where that first shows."""
    waiting = dict(outline.phase_of)
    for entry in case.journal.entries:
        phase = outline.phase_of.get(entry.step_id)
        if phase is None:
            if case.pinned and entry.step_id:
                message = f"{entry.name} is of a step that the playbook does not have"
                yield found("AUD-STEP", message, entry, "step_id")
            continue
        while (step_id := next(iter(waiting), "")) and waiting[step_id] < phase:
            del waiting[step_id]
            message = f"{entry.name} began, and {first_line(step_id, 60)} was not settled"
            yield found("AUD-PHASE", message, entry, "step_id")
        if entry.status is None or settled(case, entry):
            waiting.pop(entry.step_id, None)


def settled(case: AuditContext, entry: LooseEntry) -> bool:
    """Whether the run may go on after the entry: also a failed one that a person has waived."""
    if entry.status is not EntryStatus.FAILED or entry.resolution is Resolution.ABORT:
        return entry.through
    return bool(entry.waived) or case.step(entry).goes_on


def _overlaps(case: AuditContext, outline: LoosePlaybook) -> Iterator[Problem]:
    """Each entry against the one of all earlier phases that ended last."""
    last: dict[int, LooseEntry] = {}
    for entry in case.journal.entries:
        phase = outline.phase_of.get(entry.step_id)
        if phase is not None and _end(entry) > _end(last.get(phase)):
            last[phase] = entry
    before: dict[int, LooseEntry | None] = {}
    latest: LooseEntry | None = None
    for phase in range(len(outline.steps)):
        before[phase] = latest
        if _end(last.get(phase)) > _end(latest):
            latest = last[phase]
    for entry in case.journal.entries:
        former = before.get(outline.phase_of.get(entry.step_id, -1))
        if former is not None:
            yield from _overlap(case, entry, former)


def _end(entry: LooseEntry | None) -> int:
    return entry.completed_at or 0 if entry is not None else 0


def _overlap(case: AuditContext, entry: LooseEntry, former: LooseEntry) -> Iterator[Problem]:
    start, end = entry.started_at, former.completed_at
    backwards = end is not None and end < (former.started_at or end)
    if start is not None and end is not None and not backwards and start < end - case.slack:
        message = f"{entry.name} began at {to_time(start)}, before {former.name} ended"
        yield found("AUD-OVERLAP", message, entry, "started_at")
