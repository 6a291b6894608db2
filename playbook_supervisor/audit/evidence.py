"""Evidence: what a completed step rests on, and whether it contradicts that.

A journal keeps evidence as text only, `condition: statement`, which may be years old or written by
hand; only this module reads such text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import BY_A_PERSON
from playbook_supervisor.kernel.vocabulary import (
    Condition,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
)
from playbook_supervisor.project.conditions.conditions import Workspace, artifacts, needs_feature
from playbook_supervisor.project.settings.config import Config

_CONDITIONS = frozenset(condition.value for condition in Condition)
_ACCEPTED = f", {BY_A_PERSON}"
_NEGATIVE = re.compile(
    r"(?:fail|failed|stale|false|no|not held|not met)\s*(?:[.,;:!(].*)?\Z", re.IGNORECASE
)
"""A failed check in the words of people and other tools."""
_FLAW = re.compile(
    r"(?: (?:is (?:missing|empty|a folder|no regular file|larger than [0-9,]+ bytes)"
    r"|leads out of the repository|says (?:FAIL|STALE)|word for word)"
    r"|\A(?s:(?>.*? says ).+ in line [0-9]+|(?>.*? cannot be read \().*\)))"  # in linear time
    r"(?:;| \(|, and no report |\Z)"
    r"|; not written since the launch|: [0-9]+ of [0-9]+ tasks? not done: | has no task: "
    r"|\A\S+ lacks \""
)
"""Our own words for a condition that does not hold, after a file's name."""
_REFUSAL = re.compile(
    r"neither .* is there|the two verdicts differ: |no verdict in |no PASS, FAIL or STALE but "
    r"|(?:YAML|front matter) that does not parse |no pull request of branch "
    r"|cannot ask for pull requests: |pull request #[0-9]+ is closed|no feature is named: "
    r"|the (?:code fence|comment) in line [0-9]+ has no end in "
    r"|could not be checked: |no commit since the launch|nothing in .* has changed since the launch"
    r"|[0-9]+ files? (?:not committed|changed outside .*): |there is no (?:branch|tag) "
)
"""Our own words for a condition that does not hold, without a file's name at the beginning."""
_CHECKS = (Condition.COMMAND_SUCCEEDS, Condition.COMMAND_FAILS, Condition.PROVED)
_TREE = r".*, tree ([0-9a-f]{7,64})\b"
_OPTION = r" (?:without=([a-z_,]+)|(?:new_tests|red)=\w+)"
_WITHOUT = r"; without ([a-z_]+(?:, [a-z_]+)*)(?=;|\Z|, accepted)"
_COUNTS = (  # a number of tests, and how many of them failed
    r"([0-9]{1,9}) (?:tests? of the beginning agrees? \(|new or changed tests?: )"
    r"([0-9]{1,9}) (?:of them )?failed"
)
_SAID = {
    r"[1-9][0-9]* tests? passed|exit 0|0 tests .* failed as at ": "no test passed",
    r"in the checkout, |no test is known|\w+ tests? of the ": "says nothing of the earlier tests",
    r"in the checkout, |without .*alarm|(?:a|no) test that must ": "no test of ours has failed",
}
"""Patterns of phrases that the evidence of `proved` has, and what is wrong where one is missing."""


def check(context: AuditContext) -> Iterator[Problem]:
    """Evidence that is missing or contradicts its entry."""
    waiving, tests = _first_accepted(context)
    for entry in context.journal.entries:
        yield from _refuted(context, entry)
        yield from _other_feature(context, entry)
        if context.journal.ours:
            yield from _waived(context, entry, waiving)
            yield from _accepted_tests(entry, tests)
            yield from _unexplained(entry)
            yield from _without_evidence(context, entry)
            yield from _untrue(context, entry)


def _refuted(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """A done step whose evidence says that a check failed; at most one finding per entry."""
    excused = "waived" in entry.unclear or context.step(entry).tolerates(entry.error_code)
    if entry.status is not EntryStatus.DONE or excused:
        return
    if failing := [name for name in entry.failing if name not in entry.waived]:
        names = first_line(", ".join(failing), 100)
        message = f"{entry.name} is done, but lists as failing: {names}"
        yield found("AUD-REFUTED", message, entry, "failing")
        return
    for number, line in enumerate(entry.evidence):
        name, statement = split(line, context.step(entry).postconditions)
        checked = name.partition("=")[0] in _CONDITIONS and name not in entry.waived
        says = _NEGATIVE.match(statement) or _REFUSAL.match(statement) or _FLAW.search(statement)
        if checked and says and not statement.endswith(_ACCEPTED):
            message = f"{entry.name} is done, but its evidence says: {first_line(line, 100)}"
            yield found("AUD-REFUTED", message, entry, "evidence", number)
            return


def _other_feature(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    session = context.session
    if session is None or not session.feature:
        return
    # a contradiction between arguments and session.yaml is found there, once
    features = (session.feature, session.asked_for)
    for number, line in enumerate(entry.evidence):
        name, statement = split(line)
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


def _first_accepted(context: AuditContext) -> tuple[int | None, int | None]:
    accepted = [
        gate
        for entry in context.journal.entries
        for gate in entry.gates
        if gate.resolution is Resolution.ACCEPT
    ]
    tests = [gate.answered_at or 0 for gate in accepted if gate.reason is GateReason.WITNESSES]
    others = [gate.answered_at or 0 for gate in accepted if gate.reason is not GateReason.WITNESSES]
    return min(others, default=None), min(tests, default=None)


def _accepted_tests(entry: LooseEntry, accepted: int | None) -> Iterator[Problem]:
    end = entry.completed_at
    if accepted is not None and (end is None or accepted <= end):
        return
    for number, line in enumerate(entry.evidence):
        if line.endswith(_ACCEPTED):
            message = (
                f"{entry.name} rests on {first_line(line, 100)}, but no one accepted it before"
            )
            yield found("AUD-WAIVED", message, entry, "evidence", number)
            return


def _waived(context: AuditContext, entry: LooseEntry, accepted: int | None) -> Iterator[Problem]:
    end = entry.completed_at
    in_time = accepted is not None and (end is None or accepted <= end)
    if entry.waived and not in_time and not context.step(entry).tolerates(entry.error_code):
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
    if entry.status is not EntryStatus.DONE or {"evidence", "waived"} & entry.unclear:
        return
    wanted = context.step(entry).postconditions
    names = {split(line, wanted)[0] for line in entry.evidence} | set(entry.waived)
    missing = [name for name in wanted if name not in names]
    if missing:
        message = f"{entry.name} is done without evidence of {first_line(', '.join(missing), 100)}"
        yield found("AUD-EVIDENCE", message, entry, "status")


def _untrue(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    if entry.status is not EntryStatus.DONE or context.step(entry).tolerates(entry.error_code):
        return
    trees: dict[str, str] = {}
    for number, line in enumerate(entry.evidence):
        name, statement = split(line, context.step(entry).postconditions)
        condition, _, parameters = name.partition("=")
        if condition not in _CHECKS or name in entry.waived or "waived" in entry.unclear:
            continue
        why = _contradiction(name, statement) if condition == Condition.PROVED else ""
        if tree := re.match(_TREE, statement):
            check = re.sub(_OPTION, "", parameters)
            if trees.setdefault(check, tree[1]) != tree[1]:
                why = f"another line of this check is about tree {trees[check]}"
        if why:
            message = f"{entry.name} rests on {first_line(line, 100)}, but {why}"
            yield found("AUD-EVIDENCE", message, entry, "evidence", number)
            return


def _contradiction(name: str, statement: str) -> str:
    given, said = re.findall(_OPTION, name), re.findall(_WITHOUT, statement)
    if {*re.findall(r"\w+", " ".join(given))} != {*re.findall(r"\w+", " ".join(said))}:
        return "the condition and its evidence do not leave out the same"
    if any(int(tests) < int(failed) for tests, failed in re.findall(_COUNTS, statement)):
        return "more tests failed than there are"
    phrases = statement.split("; ")
    for known, why in () if statement.endswith(_ACCEPTED) else _SAID.items():
        if not any(re.match(known, each) for each in phrases):
            return why
    return ""


def split(line: str, known: Iterable[str] = ()) -> tuple[str, str]:
    """The name of the condition, one of the `known` if it is one of them, and the statement.

    A line may leave out the value of a condition that its statement begins with.
    """
    known = tuple(known)
    longest = max((name for name in known if line.startswith(f"{name}:")), key=len, default="")
    word = longest or line.partition(":")[0]
    statement = line[len(word) + 1 :].strip()
    begun = (name for name in known if f"{word}={statement}".startswith(name))
    return longest or max(begun, key=len, default=word), statement
