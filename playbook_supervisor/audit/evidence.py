"""Evidence: what a step's being done rests on, and whether that speaks against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Condition, EntryStatus, Resolution
from playbook_supervisor.project.conditions import Workspace, artifacts
from playbook_supervisor.project.config import Config

_CONDITIONS = frozenset(condition.value for condition in Condition)
_NO = re.compile(
    r"(?:fail|failed|stale|false|no|not held|not met)\s*(?:[.,;:!(].*)?\Z", re.IGNORECASE
)
"""A failed check in the words of whoever writes a journal by hand."""
_FLAW = re.compile(
    r" (?:is (?:missing|empty|a folder|no regular file|larger than [0-9,]+ bytes)"
    r"|leads out of the repository|says (?:FAIL|STALE)|word for word|cannot be read \(.*\))"
    r"(?:;| \(|, and no report |\Z)"
    r"|; not written since the launch"
)
"""What a condition says that does not hold, behind the file's name."""
_REFUSAL = re.compile(
    r"neither .* is there|the two verdicts differ: |no verdict in |no PASS, FAIL or STALE but "
    r"|(?:YAML|front matter) that does not parse |no pull request of branch "
    r"|cannot ask for pull requests: |pull request #[0-9]+ is closed|no feature is named: "
)
"""The same, where no file's name comes first."""


def judge(case: AuditContext) -> Iterator[Problem]:
    """All of them."""
    accepted = _first_accepted(case)
    for entry in case.journal.entries:
        yield from _refuted(case, entry)
        yield from _elsewhere(case, entry)
        if case.journal.ours:
            yield from _waived(case, entry, accepted)
            yield from _rests_on(case, entry)


# ── what it says ────────────────────────────────────────────────────────────────────────────


def _refuted(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """A step is done, and what was looked at says that it is not; once for an entry."""
    excused = "waived" in entry.unclear or case.step(entry).goes_on
    if entry.status is not EntryStatus.DONE or excused:
        return
    if failing := [name for name in entry.failing if name not in entry.waived]:
        names = first_line(", ".join(failing), 100)
        message = f"{entry.name} is done, and names as failing {names}"
        yield found("AUD-REFUTED", message, entry, "failing")
        return
    for number, line in enumerate(entry.evidence):
        name, said = _parted(line)
        if name not in entry.waived and name in _CONDITIONS and _speaks_against(said):
            message = f"{entry.name} is done, and its evidence says {first_line(line, 100)}"
            yield found("AUD-REFUTED", message, entry, "evidence", number)
            return


def _speaks_against(said: str) -> bool:
    return any((_NO.match(said), _REFUSAL.match(said), _FLAW.search(said)))


def _elsewhere(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """What was looked at lies in the folder of the session's feature; once for an entry."""
    session = case.session
    if session is None or not session.feature:
        return
    # where the arguments contradict session.yaml, that is found there, and once
    features = (session.feature, session.asked_for)
    for number, line in enumerate(entry.evidence):
        name, said = _parted(line)
        for file in _files(name):
            here = any(f"/{feature}/{file}" in f"/{said}" for feature in features)
            if f"/{file}" in said and not here:
                what, its = first_line(line, 100), first_line(session.feature, 60)
                message = f"{entry.name} rests on {what}, and the session is of {its}"
                yield found("AUD-FEATURE", message, entry, "evidence", number)
                return


def _parted(line: str) -> tuple[str, str]:
    name, _, said = line.partition(":")
    return name, said.strip()


def _files(condition: str) -> tuple[str, ...]:
    """The names of the files in a feature's folder at which the condition looks."""
    if condition not in _CONDITIONS:
        return ()
    paths = artifacts(condition, Workspace(Path(), "", "", Config()))
    return tuple(PurePosixPath(path).name for path in paths)


# ── whether there is any ────────────────────────────────────────────────────────────────────


def _first_accepted(case: AuditContext) -> int | None:
    """When somebody first accepted a failure; it may have been at a neighbour's gate."""
    times = [
        gate.answered_at or 0
        for entry in case.journal.entries
        for gate in entry.gates
        if gate.resolution is Resolution.ACCEPT
    ]
    return min(times, default=None)


def _waived(case: AuditContext, entry: LooseEntry, accepted: int | None) -> Iterator[Problem]:
    end = entry.completed_at
    in_time = accepted is not None and (end is None or accepted <= end)
    if entry.waived and not in_time and not case.step(entry).goes_on:
        names = first_line(", ".join(entry.waived), 100)
        message = f"{entry.name} waives {names}, and nobody has accepted anything before"
        yield found("AUD-WAIVED", message, entry, "waived")


def _rests_on(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """A step is done because its conditions held, or somebody accepted that they do not."""
    if entry.status is EntryStatus.FAILED and not entry.error and "error" not in entry.unclear:
        yield found("AUD-ERROR", f"{entry.name} failed, and nobody says why", entry, "status")
    if entry.status is not EntryStatus.DONE or {"evidence", "waived"} & entry.unclear:
        return
    if entry.error and not (entry.waived or entry.gates or "gates" in entry.unclear):
        message = f"{entry.name} is done with an error, and nobody has looked at it"
        yield found("AUD-ERROR", message, entry, "error")
    names = {line.partition(":")[0] for line in entry.evidence} | set(entry.waived)
    missing = [name for name in case.step(entry).postconditions if name not in names]
    if missing:
        what = first_line(", ".join(missing), 100)
        message = f"{entry.name} is done, and there is no evidence of {what}"
        yield found("AUD-EVIDENCE", message, entry, "status")
