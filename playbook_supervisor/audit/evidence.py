"""Evidence: what a completed step rests on, and whether it contradicts that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from playbook_supervisor.audit import evidence_text
from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Condition, EntryStatus, Place, Resolution
from playbook_supervisor.project.conditions import Workspace, artifacts, needs_feature
from playbook_supervisor.project.config import Config

_CONDITIONS = frozenset(condition.value for condition in Condition)


def check(context: AuditContext) -> Iterator[Problem]:
    """Evidence that is missing or contradicts its entry."""
    accepted = _first_accepted(context)
    for entry in context.journal.entries:
        yield from _refuted(context, entry)
        yield from _other_feature(context, entry)
        if context.journal.ours:
            yield from _waived(context, entry, accepted)
            yield from _unexplained(entry)
            yield from _without_evidence(context, entry)


def _refuted(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """A done step whose evidence says that a check failed; at most one finding per entry."""
    excused = "waived" in entry.unclear or context.step(entry).goes_on(entry.error_code)
    if entry.status is not EntryStatus.DONE or excused:
        return
    if failing := [name for name in entry.failing if name not in entry.waived]:
        names = first_line(", ".join(failing), 100)
        message = f"{entry.name} is done, but lists as failing: {names}"
        yield found("AUD-REFUTED", message, entry, "failing")
        return
    for number, line in enumerate(entry.evidence):
        name, statement = evidence_text.split(line, context.step(entry).postconditions)
        checked = name.partition("=")[0] in _CONDITIONS and name not in entry.waived
        if checked and evidence_text.says_not_held(statement):
            message = f"{entry.name} is done, but its evidence says: {first_line(line, 100)}"
            yield found("AUD-REFUTED", message, entry, "evidence", number)
            return


def _other_feature(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """Evidence from another feature's folder; at most one finding per entry."""
    session = context.session
    if session is None or not session.feature:
        return
    # a contradiction between arguments and session.yaml is found there, once
    features = (session.feature, session.asked_for)
    for number, line in enumerate(entry.evidence):
        name, statement = evidence_text.split(line)
        for file in _files(name):
            own = any(f"/{each}/{file}" in f"/{statement}" for each in features)
            if f"/{file}" in statement and not own:
                what, feature = first_line(line, 100), first_line(session.feature, 60)
                message = f"{entry.name} rests on {what}, but the session's feature is {feature}"
                yield found("AUD-FEATURE", message, entry, "evidence", number)
                return


def _files(condition: str) -> tuple[str, ...]:
    if condition not in _CONDITIONS or not needs_feature(condition):
        return ()
    paths = artifacts(condition, Workspace(Path(), "", "", Config()))
    return tuple(PurePosixPath(path).name for path in paths)


def _first_accepted(context: AuditContext) -> int | None:
    times = [
        gate.answered_at or 0
        for entry in context.journal.entries
        for gate in entry.gates
        if gate.resolution is Resolution.ACCEPT
    ]
    return min(times, default=None)


def _waived(context: AuditContext, entry: LooseEntry, accepted: int | None) -> Iterator[Problem]:
    end = entry.completed_at
    in_time = accepted is not None and (end is None or accepted <= end)
    if entry.waived and not in_time and not context.step(entry).goes_on(entry.error_code):
        names = first_line(", ".join(entry.waived), 100)
        message = f"{entry.name} waives {names}, but no failure was accepted before"
        yield found("AUD-WAIVED", message, entry, "waived")


def _unexplained(entry: LooseEntry) -> Iterator[Problem]:
    if entry.status is EntryStatus.FAILED and not entry.error and "error" not in entry.unclear:
        yield found("AUD-ERROR", f"{entry.name} failed without an error", entry, "status")
    if entry.status is not EntryStatus.DONE or {"evidence", "waived"} & entry.unclear:
        return
    judged = any(gate.place is not Place.DURING for gate in entry.gates)
    if entry.error and not (entry.waived or judged or "gates" in entry.unclear):
        message = f"{entry.name} is done with an error, but had no gate and no waiver"
        yield found("AUD-ERROR", message, entry, "error")


def _without_evidence(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """A done step needs evidence for each postcondition, or its waiver."""
    if entry.status is not EntryStatus.DONE or {"evidence", "waived"} & entry.unclear:
        return
    wanted = context.step(entry).postconditions
    names = {evidence_text.split(line, wanted)[0] for line in entry.evidence} | set(entry.waived)
    missing = [name for name in wanted if name not in names]
    if missing:
        message = f"{entry.name} is done without evidence of {first_line(', '.join(missing), 100)}"
        yield found("AUD-EVIDENCE", message, entry, "status")
