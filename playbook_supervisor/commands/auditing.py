"""What looks at sessions as evidence, whoever wrote them: audit and metrics."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from playbook_supervisor.audit import lenient_playbook, lenient_session
from playbook_supervisor.audit.examination import AuditedSession, AuditReport, SessionFile, examine
from playbook_supervisor.audit.lenient_session import LooseSession
from playbook_supervisor.audit.metrics import Metrics, Source, measure
from playbook_supervisor.commands import locate
from playbook_supervisor.errors import CheckError, PlaybookError, StateError, StorageError
from playbook_supervisor.project import library, session_policy
from playbook_supervisor.project.library import FOLDER
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.journal import MAX_BYTES
from playbook_supervisor.sessions.manifest import SESSION_ID
from playbook_supervisor.sessions.store import SESSIONS, DiskStore
from playbook_supervisor.system.files import locked, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Heard = TypeVar("Heard")

_JOURNAL, _SESSION, _PLAYBOOK = "journal.yaml", "session.yaml", "playbook.yaml"
_NAME = r"[a-z0-9][a-z0-9-]*\Z"


def audit(
    names: Sequence[str] = (), *, every: bool = False, cwd: Path | None = None
) -> tuple[AuditReport, ...]:
    """What cannot be true of sessions: those named by id or path, all, or this worktree's.

    StateError where there is none of that name. Reads only.
    """
    here = cwd or locate.current_folder()
    now = time.time_ns() // 1_000_000
    return tuple(examine(_session(found), now) for found in _meant(names, here, every=every))


def metrics(
    name: str = "", *, every: bool = False, playbook: str = "", cwd: Path | None = None
) -> Metrics:
    """The figures of a session, named by id or path or this worktree's, or of all.

    `playbook`: of all sessions of that one. StateError as `audit`; ArgumentError PB-ARG-PLAYBOOK
    where neither the project nor any of its sessions has a playbook of that name. Reads only.
    """
    here = cwd or locate.current_folder()
    meant = _meant((name,) if name else (), here, every=every or (bool(playbook) and not name))
    sources = tuple(map(_source, meant))
    if not playbook:
        return measure(sources)
    names = [source.session.playbook if source.session is not None else "" for source in sources]
    if playbook not in names:
        _require_playbook(playbook, names, here)
    return measure(source for source, its in zip(sources, names, strict=True) if its == playbook)


def _require_playbook(name: str, run: Sequence[str], here: Path) -> None:
    """One that has never run has no figures; one that does not exist is a slip of the pen."""
    root = locate.store(here).checkout.root
    known = [each.name for each in library.playbooks(root)]
    if name not in known:
        raise library.none_called(root, name, [*known, *filter(None, run)])


# ── which sessions ──────────────────────────────────────────────────────────────────────────


class _Found(Record):
    """The files of a session; `folder` is None for a journal that stands alone."""

    name: str
    folder: Path | None
    journal: SessionFile
    session: SessionFile | None = None
    playbook: SessionFile | None = None
    policy: SessionFile | None = None


def _meant(names: Sequence[str], here: Path, *, every: bool) -> Iterator[_Found]:
    from playbook_supervisor.commands import overview

    if every:
        seen = overview.sessions(locate.store(here))
        for each in sorted(seen, key=lambda each: each.session_id):
            yield _of_store(each.store, each.session_id, here)
        return
    for name in names or (locate.chosen(locate.store(here), ""),):
        if SESSION_ID.match(name):
            yield _of_store(overview.find(locate.store(here), name), name, here)
        else:
            yield _of_path(here / name, name)


def _of_store(store: DiskStore, session_id: str, here: Path) -> _Found:
    """A session of a worktree, as it stands between two writes of whoever drives it."""
    shown = os.path.relpath(store.checkout.root / SESSIONS / session_id, here)
    journal = f"{shown}/{_JOURNAL}"
    try:
        store.require_worktree(session_id)
        folder = store.folder(session_id)
    except StateError as error:
        lost = SessionFile(journal, problem=error.message, guidance=error.guidance)
        return _Found(session_id, None, lost)
    except StorageError as error:
        return _Found(session_id, None, SessionFile(journal, problem=error.message))
    runtime = store.runtime(session_id)
    with locked(runtime / "lock") if runtime.is_dir() else nullcontext():
        return _of_folder(folder, shown)


def _of_path(path: Path, shown: str) -> _Found:
    """A session's folder, or a journal anywhere; beside a `journal.yaml` stands its session."""
    if path.is_dir():
        return _of_folder(path, shown)
    if not path.is_file():
        raise StateError(
            "PB-STATE-NO-SESSION",
            "there is no session of that id, and no folder or journal of that name",
            where=shown,
            guidance="`playbook status --all` lists the sessions.",
        )
    if path.name == _JOURNAL and (path.parent / _SESSION).is_file():
        return _of_folder(path.parent, str(Path(shown).parent))
    return _Found("", None, _exhibit(path, shown))


def _of_folder(folder: Path, shown: str) -> _Found:
    def exhibit(name: str) -> SessionFile:
        return _exhibit(folder / name, str(Path(shown) / name))

    def if_there(name: str) -> SessionFile | None:
        return exhibit(name) if os.path.lexists(folder / name) else None

    return _Found(
        name=folder.resolve().name,
        folder=folder,
        journal=exhibit(_JOURNAL),
        session=exhibit(_SESSION),
        playbook=if_there(_PLAYBOOK),
        policy=if_there(session_policy.FILE),
    )


def _exhibit(path: Path, shown: str) -> SessionFile:
    if path.is_symlink():  # it could lead to anybody's file, and findings quote what they find
        return SessionFile(shown, problem="it is a symbolic link")
    try:
        return SessionFile(shown, read_bytes(path, limit=MAX_BYTES))
    except FileNotFoundError:
        return SessionFile(shown, problem="there is no such file")
    except StorageError as error:
        return SessionFile(shown, problem=error.message)


# ── what is known of them ───────────────────────────────────────────────────────────────────


def _session(found: _Found) -> AuditedSession:
    """A session as an audit wants it: with what git knows."""
    from playbook_supervisor.system import git_history

    known = AuditedSession(
        found.name,
        found.journal,
        found.session,
        found.playbook,
        pinned=found.playbook is not None,
        policy=found.policy,
    )
    if found.folder is None:
        return known
    known = replace(known, committed=git_history.line_times(found.folder, _JOURNAL))
    told = _told(found.session, lenient_session.session)
    if told is None:
        return known
    branch = told.branch or told.feature
    if branch and not told.ended:
        merged = git_history.merged_into(found.folder, _SESSION, branch)
        known = replace(known, merged=merged)
    return known if known.pinned else replace(known, playbook=_projects_own(found.folder, told))


def _projects_own(folder: Path, told: LooseSession) -> SessionFile | None:
    """The project's playbook as it was when the session began: other tools kept none beside it."""
    from playbook_supervisor.system import checkout, git_history

    if not re.match(_NAME, told.playbook):
        return None
    try:
        root = checkout.find(folder).root
    except PlaybookError:
        return None
    path = f"{FOLDER}/{told.playbook}.yaml"
    then = git_history.as_of(root, path, told.started_at or 0)
    return _exhibit(root / path, path) if then is None else SessionFile(path, then)


def _source(found: _Found) -> Source:
    """A session as figures want it."""
    told = _told(found.session, lenient_session.session)
    playbook = found.playbook
    if playbook is None and found.folder is not None and told is not None:
        playbook = _projects_own(found.folder, told)
    plan = None
    if playbook is not None and playbook.data is not None:
        plan = lenient_playbook.read(playbook.data, playbook.file)
    return Source(_told(found.journal, lenient_session.journal), told, plan)


def _told(exhibit: SessionFile | None, read: Callable[[bytes, str], Heard]) -> Heard | None:
    """What a file tells; None where there is none, or it is no document."""
    if exhibit is None or exhibit.data is None:
        return None
    try:
        return read(exhibit.data, exhibit.file)
    except CheckError:
        return None
