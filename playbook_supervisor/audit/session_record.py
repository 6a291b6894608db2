"""A session's files, which any tool may have written, read once for audit and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from playbook_supervisor.audit import lenient_playbook, lenient_session
from playbook_supervisor.audit.lenient_playbook import LoosePlaybook
from playbook_supervisor.audit.lenient_session import LooseJournal, LooseSession
from playbook_supervisor.audit.rules import finding
from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.problems import MAX_PROBLEMS, Problem
from playbook_supervisor.records import replace

_DEEPEST = 100
"""No session has more sessions above it; the kernel makes fewer."""
Parsed = TypeVar("Parsed", LooseJournal, LooseSession)


@dataclass(frozen=True, slots=True)
class SessionFile:
    """One file: its shown name, and its bytes or why there are none, perhaps with `guidance`."""

    file: str
    data: bytes | None = None
    problem: str = ""
    guidance: str = ""


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """The files of one session, and what git knows of it.

    `name` is the folder's name. A standalone journal has no `session`. `pinned`: the playbook is
    the session's own copy, not the project's. `committed` is the commit time of each journal line,
    ms since the epoch (0: not committed). `merged` names a branch that contains the session's.
    `unproved` are sentences about files that differ from what this checkout wrote. `folder` is the
    session's; with a `commit`, the files are those of this commit in the repository at `folder`.
    """

    name: str
    journal: SessionFile
    session: SessionFile | None = None
    playbook: SessionFile | None = None
    pinned: bool = False
    policy: SessionFile | None = None
    committed: Sequence[int] = ()
    merged: str = ""
    unproved: Sequence[str] = ()
    folder: Path | None = None
    commit: str = ""


Beside = Callable[[str], SessionFiles | None]
"""Finds the files of another session by its id."""


@dataclass(frozen=True, slots=True)
class RelatedSessions:
    """The child sessions of a session, and the parent of one."""

    children: tuple[SessionRecord, ...] = ()
    parent: SessionRecord | None = None

    def child(self, session_id: str) -> SessionRecord | None:
        named = (each for each in self.children if each.files.name == session_id)
        return next(named, None)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The journal and session.yaml of a session as far as they can be read, with the problems."""

    files: SessionFiles
    journal: LooseJournal | None
    session: LooseSession | None
    problems: tuple[Problem, ...]
    tree: RelatedSessions = RelatedSessions()

    def playbook(self) -> LoosePlaybook | None:
        file = self.files.playbook
        if file is None or file.data is None:
            return None
        return lenient_playbook.read(file.data, file.file)


def read(files: SessionFiles, beside: Beside = lambda _: None) -> SessionRecord:
    """Read the journal and session.yaml; with them those of its child sessions and its parent."""
    record = _alone_read(files)
    parent = record.session.parent.partition("/")[0] if record.session is not None else ""
    above = beside(parent) if parent else None
    children = _children(record, beside, {files.name})
    return replace(record, tree=RelatedSessions(children, _alone_read(above) if above else None))


def _alone_read(files: SessionFiles) -> SessionRecord:
    journal, problems = _read(files.journal, lenient_session.journal)
    session = None
    if files.session is not None:
        session, more = _read(files.session, lenient_session.session)
        problems += more
    return SessionRecord(files, journal, session, tuple(problems))


def _children(record: SessionRecord, beside: Beside, above: set[str]) -> tuple[SessionRecord, ...]:
    """The child sessions, each once; a hostile journal may name one of those `above` it."""
    if record.journal is None or not record.journal.ours or len(above) > _DEEPEST:
        return ()
    named = dict.fromkeys(entry.session for entry in record.journal.entries if entry.session)
    found = []
    for session_id in named:
        files = beside(session_id) if session_id not in above else None
        if files is not None:
            child = _alone_read(files)
            below = _children(child, beside, {*above, session_id})
            found.append(replace(child, tree=RelatedSessions(below)))
    return tuple(found)


def _read(
    file: SessionFile, parse: Callable[[bytes, str], Parsed]
) -> tuple[Parsed | None, list[Problem]]:
    if file.data is None:
        return None, [missing(file)]
    try:
        parsed = parse(file.data, file.file)
    except CheckError as error:
        return None, [unreadable("AUD-READ", error, file)]
    return parsed, list(parsed.unclear[:MAX_PROBLEMS])


def missing(file: SessionFile) -> Problem:
    """The finding about a file without content."""
    problem = finding("AUD-READ", file.problem, file.file)
    return replace(problem, guidance=file.guidance) if file.guidance else problem


def unreadable(code: str, error: PlaybookError, file: SessionFile) -> Problem:
    """The finding about a file that a reader refused."""
    return finding(code, error.message, file.file, error.position or (1, 1))
