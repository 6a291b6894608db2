"""Audit one session: apply every rule to its files, which any tool may have written.

Pure: the files come in as bytes. `rules.py` lists the rules; each family of rules has a module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from playbook_supervisor.audit import (
    decisions,
    ending,
    evidence,
    gates,
    lenient_playbook,
    order,
    times,
)
from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_playbook import LoosePlaybook
from playbook_supervisor.audit.lenient_session import LooseJournal
from playbook_supervisor.audit.rules import finding
from playbook_supervisor.audit.session_record import SessionFile, SessionRecord, missing, unreadable
from playbook_supervisor.errors import CheckError, StateError
from playbook_supervisor.formats.problems import MAX_PROBLEMS, FileReport, Problem
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.project.expressions.bound_conditions import bound
from playbook_supervisor.project.playbooks.schema import read_playbook
from playbook_supervisor.project.policies.session_policy import Policy, read_policy, tightened
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.journal import parse_journal

_FAMILIES = (
    times.check,
    order.check,
    decisions.check,
    evidence.check,
    gates.check,
    ending.check,
    ending.check_tree,
)
_MAX_ATTEMPTS = 1_000  # at one step: to replay more would take too long


@dataclass(frozen=True, slots=True)
class AuditReport:
    """One session: its files with their findings, and `notes` on what could not be checked."""

    name: str
    files: tuple[FileReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(file.ok for file in self.files)


def examine_tree(record: SessionRecord, now: int) -> Iterator[AuditReport]:
    """A report of the session, and one of each session below it."""
    yield examine(record, now)
    for child in record.tree.children:
        tree = replace(child.tree, parent=record)
        yield from examine_tree(replace(child, tree=tree), now)


def examine(record: SessionRecord, now: int) -> AuditReport:
    """All findings about a session. `now` is in ms since the epoch."""
    files, journal = record.files, record.journal
    problems, notes = list(record.problems), list[str]()
    problems += [finding("AUD-UNPROVED", said, files.journal.file) for said in files.unproved]
    policy, more = _policy(files.policy)
    problems += more
    if journal is not None:
        entries, more = _entries(files.journal, journal)
        problems += more
        outline, playbook = _playbook(record, journal, policy)
        if outline is None:
            notes.append("its playbook is not known, so its steps' requirements are not checked")
        notes += gates.anonymous_answers(journal)
        state, index, why = None, -1, ""
        if entries is not None and playbook:
            state, index, why = _replay(entries, playbook)
        session = record.session
        context = AuditContext(files, record.tree, journal, session, outline, policy, state, now)
        problems += _findings(context, index, why)
    audited = filter(None, (files.journal, files.session, files.policy))
    reports = tuple(_report(file.file, problems, notes) for file in audited)
    return AuditReport(files.name, reports, tuple(notes))


def _findings(context: AuditContext, index: int, why: str) -> list[Problem]:
    """Those of every family, and the kernel's unless a family found that entry already."""
    findings = [finding for check in _FAMILIES for finding in check(context)]
    if why and not any(_within(each, index, context.journal) for each in findings):
        findings.append(found("AUD-REPLAY", why, context.journal.entries[index]))
    return findings


def _within(problem: Problem, index: int, journal: LooseJournal) -> bool:
    begins = [journal.document.position(each.path) for each in journal.entries[index : index + 2]]
    return (
        problem.file == journal.document.source
        and begins[0] <= problem.position
        and (begins[1:] == [] or problem.position < begins[1])
    )


def _report(file: str, problems: Sequence[Problem], notes: list[str]) -> FileReport:
    own = {problem for problem in problems if problem.file == file}
    ordered = sorted(own, key=lambda each: (each.position, each.code))
    if len(ordered) > MAX_PROBLEMS:
        notes.append(f"{file} has more than {MAX_PROBLEMS} findings; the rest is not shown")
    return FileReport(file, tuple(ordered[:MAX_PROBLEMS]))


# ── the strict readers, for what this program wrote ─────────────────────────────────────────


def _entries(
    file: SessionFile, journal: LooseJournal
) -> tuple[Sequence[Entry] | None, list[Problem]]:
    if not journal.ours or journal.unclear or file.data is None:
        return None, []
    try:
        return parse_journal(file.data, file.file).entries, []
    except StateError as error:
        return None, [unreadable("AUD-FORM", error, file)]


def _policy(file: SessionFile | None) -> tuple[Policy, list[Problem]]:
    if file is None:
        return Policy(), []
    if file.data is None:
        return Policy(), [missing(file)]
    try:
        return read_policy(file.data, file.file), []
    except StateError as error:
        return Policy(), [unreadable("AUD-READ", error, file)]


def _playbook(
    record: SessionRecord, journal: LooseJournal, policy: Policy
) -> tuple[LoosePlaybook | None, Playbook | None]:
    """The requirements of the steps, if known, and the playbook if the kernel can run it.

    A session without its own copy is compared with the project's playbook, if that has its steps.
    """
    file = record.files.playbook
    if file is None or file.data is None:
        return None, None
    if record.files.pinned:
        try:
            args = record.session.args if record.session else {}
            playbook = bound(tightened(read_playbook(file.data, file.file), policy), args)
        except CheckError:
            return record.playbook(), None
        return lenient_playbook.of(playbook), playbook
    outline = record.playbook()
    steps = {entry.step for entry in journal.entries} - {""}
    return (outline if outline is not None and steps <= outline.by_id.keys() else None), None


# ── the kernel, which can replay only what this program wrote ───────────────────────────────


def _replay(entries: Sequence[Entry], playbook: Playbook) -> tuple[State | None, int, str]:
    """The state after all entries; or the index of the one that cannot follow, and why. Neither of
    entries that would take too long."""
    attempts = Counter(entry.step_id for entry in entries)
    if max(attempts.values(), default=0) > _MAX_ATTEMPTS:
        return None, -1, ""
    state, why = _replayed(playbook, entries)
    if not why:
        return state, -1, ""
    low, high = 0, len(entries)  # how many can be replayed, and how many cannot
    while high - low > 1:
        middle = (low + high) // 2
        _, error = _replayed(playbook, entries[:middle])
        low, high, why = (low, middle, error) if error else (middle, high, why)
    return None, low, why


def _replayed(playbook: Playbook, entries: Sequence[Entry]) -> tuple[State | None, str]:
    try:
        return machine.replay(playbook, entries), ""
    except StateError as error:
        return None, error.message
