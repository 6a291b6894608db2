"""What cannot be true of a session, read off its files: any journal, whoever wrote it.

Pure: files come in as bytes, and what git and the clock know beside them. `rules.py` lists what is
looked for; each family of rules is judged in the module of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from playbook_supervisor.audit import (
    decisions,
    ending,
    evidence,
    gates,
    lenient_playbook,
    lenient_session,
    order,
    times,
)
from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_playbook import LoosePlaybook
from playbook_supervisor.audit.lenient_session import LooseJournal, LooseSession
from playbook_supervisor.audit.replay import Replay, replay
from playbook_supervisor.audit.rules import finding
from playbook_supervisor.errors import CheckError, PlaybookError, StateError
from playbook_supervisor.formats.problems import MAX_PROBLEMS, FileReport, Problem
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project.schema import read_playbook
from playbook_supervisor.project.session_policy import Policy, read_policy, tightened
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.journal import parse_journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Heard = TypeVar("Heard", LooseJournal, LooseSession)

_FAMILIES = (
    times.judge,
    order.judge,
    decisions.judge,
    evidence.judge,
    gates.judge,
    ending.judge,
)


class SessionFile(Record):
    """One file of a session: how it is called, its bytes, and else why there are none.

    `guidance` is what to do about that where more is known than the rule says.
    """

    file: str
    data: bytes | None = None
    problem: str = ""
    guidance: str = ""


class AuditedSession(Record):
    """The files of one session, and what is known of it from elsewhere.

    `name` is that of its folder; `session` is None for a journal that stands alone, `playbook`
    where none is known, and `pinned` says that it is the session's own; `policy` is None where it
    is held to none. `committed`: when each line of the journal was committed, ms since the epoch
    (0: not yet). `merged` names a branch that holds the session's, where that was merged.
    """

    name: str
    journal: SessionFile
    session: SessionFile | None = None
    playbook: SessionFile | None = None
    pinned: bool = False
    policy: SessionFile | None = None
    committed: Sequence[int] = ()
    merged: str = ""


class AuditReport(Record):
    """One session: its files, and `notes` on what could not be judged."""

    name: str
    files: tuple[FileReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return all(file.ok for file in self.files)


def examine(session: AuditedSession, now: int) -> AuditReport:
    """Everything that cannot be true of it (kai FR37 to FR40). `now`: ms since the epoch."""
    notes: list[str] = []
    journal, in_journal = _heard(session.journal, lenient_session.journal)
    standing, in_session = (
        _heard(session.session, lenient_session.session) if session.session else (None, [])
    )
    policy, in_policy = _policy(session.policy)
    if journal is not None:
        entries, unfit = _entries(session.journal, journal)
        in_journal += unfit
        plan, playbook = _plan(session, journal, policy)
        if plan is None:
            notes.append("its playbook is not known: what its steps ask for is not judged")
        notes += gates.anonymous(journal)
        replayed = replay(entries, playbook) if entries is not None and playbook else Replay()
        case = AuditContext(
            name=session.name,
            journal=journal,
            session=standing,
            outline=plan,
            pinned=session.pinned,
            policy=policy,
            state=replayed.state,
            committed=session.committed,
            merged=session.merged,
            now=now,
        )
        for problem in _findings(case, replayed):
            in_file = in_journal if problem.file == session.journal.file else in_session
            in_file.append(problem)
    files = [_judged(session.journal, in_journal, notes)]
    if session.session is not None:
        files.append(_judged(session.session, in_session, notes))
    if session.policy is not None:
        files.append(_judged(session.policy, in_policy, notes))
    return AuditReport(session.name, tuple(files), tuple(notes))


def _findings(case: AuditContext, replayed: Replay) -> list[Problem]:
    """Of every family; what the kernel says of an entry only where nothing else does."""
    findings = [finding for judge in _FAMILIES for finding in judge(case)]
    if replayed.why:
        diverging = case.journal.entries[replayed.diverging]
        if not any(_within(each, replayed.diverging, case.journal) for each in findings):
            findings.append(found("AUD-REPLAY", replayed.why, diverging))
    return findings


def _within(problem: Problem, index: int, journal: LooseJournal) -> bool:
    """Whether a problem lies in the entry with that index."""
    begins = [journal.document.position(each.path) for each in journal.entries[index : index + 2]]
    return (
        problem.file == journal.document.source
        and begins[0] <= problem.position
        and (begins[1:] == [] or problem.position < begins[1])
    )


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def _heard(
    exhibit: SessionFile, read: Callable[[bytes, str], Heard]
) -> tuple[Heard | None, list[Problem]]:
    """What the file tells, and what of it cannot be understood."""
    if exhibit.data is None:
        return None, [_missing(exhibit)]
    try:
        heard = read(exhibit.data, exhibit.file)
    except CheckError as error:
        return None, [_refused("AUD-READ", error, exhibit)]
    return heard, list(heard.unclear[:MAX_PROBLEMS])


def _entries(
    exhibit: SessionFile, journal: LooseJournal
) -> tuple[Sequence[Entry] | None, list[Problem]]:
    """The entries as the program reads its own; None where it could not."""
    if not journal.ours or journal.unclear or exhibit.data is None:
        return None, []
    try:
        return parse_journal(exhibit.data, exhibit.file).entries, []
    except StateError as error:
        return None, [_refused("AUD-FORM", error, exhibit)]


def _policy(exhibit: SessionFile | None) -> tuple[Policy, list[Problem]]:
    if exhibit is None:
        return Policy(), []
    if exhibit.data is None:
        return Policy(), [_missing(exhibit)]
    try:
        return read_policy(exhibit.data, exhibit.file), []
    except StateError as error:
        return Policy(), [_refused("AUD-READ", error, exhibit)]


def _plan(
    session: AuditedSession, journal: LooseJournal, policy: Policy
) -> tuple[LoosePlaybook | None, Playbook | None]:
    """What the steps ask for, as far as it can be known; the playbook, if the kernel can run it.

    What the session itself does not keep is the project's, which may be another one by now.
    """
    if session.playbook is None or session.playbook.data is None:
        return None, None
    data, source = session.playbook.data, session.playbook.file
    if session.pinned:
        try:
            playbook = tightened(read_playbook(data, source), policy)
        except CheckError:
            return lenient_playbook.read(data, source), None
        return lenient_playbook.of(playbook), playbook
    plan = lenient_playbook.read(data, source)
    steps = {entry.step_id for entry in journal.entries} - {""}
    return (plan if plan is not None and steps <= plan.by_id.keys() else None), None


# ── reports ─────────────────────────────────────────────────────────────────────────────────


def _refused(code: str, error: PlaybookError, exhibit: SessionFile) -> Problem:
    return finding(code, error.message, exhibit.file, error.position or (1, 1))


def _missing(exhibit: SessionFile) -> Problem:
    problem = finding("AUD-READ", exhibit.problem, exhibit.file)
    return replace(problem, guidance=exhibit.guidance) if exhibit.guidance else problem


def _judged(exhibit: SessionFile, problems: Iterable[Problem], notes: list[str]) -> FileReport:
    ordered = sorted(set(problems), key=lambda each: (each.position, each.code))
    if len(ordered) > MAX_PROBLEMS:
        notes.append(f"{exhibit.file} has more findings than these {MAX_PROBLEMS}")
    return FileReport(exhibit.file, tuple(ordered[:MAX_PROBLEMS]))
