"""`playbook audit` and `playbook metrics`: find sessions by id or path, and read their files.

`audit` reports what cannot be true of sessions, which any tool may have written; `metrics` measures
them. Both only read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from playbook_supervisor.audit import session_record
from playbook_supervisor.audit.examination import AuditReport, examine_tree
from playbook_supervisor.audit.lenient_session import LooseSession
from playbook_supervisor.audit.metrics import Metrics, measure
from playbook_supervisor.audit.session_record import SessionFile, SessionFiles, SessionRecord
from playbook_supervisor.commands import locate, overview
from playbook_supervisor.commands.views import session_diff
from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.policies import session_policy
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import projection
from playbook_supervisor.sessions.files.journal import MAX_BYTES
from playbook_supervisor.sessions.files.local_state import NAME, Runtime
from playbook_supervisor.sessions.files.manifest import REF_FOLDERS, SESSION_ID
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import locked, read_bytes
from playbook_supervisor.system.git import checkout, git_history
from playbook_supervisor.system.git.git_process import ask

_JOURNAL, _SESSION, _PLAYBOOK = "journal.yaml", "session.yaml", "playbook.yaml"
_PLAYBOOK_NAME = r"[a-z0-9][a-z0-9-]*\Z"
_FETCHED = f"refs/remotes/*/{REF_FOLDERS[1].removeprefix('refs/heads/')}*"
_ENTRY = re.compile(r"(1[0-9]{5}) (?:blob|commit) ([0-9a-f]{40,64}) +([0-9]+|-)\t(.*)", re.DOTALL)
_LINK = "120000"


def audit(
    names: Sequence[str] = (), *, every: bool = False, cwd: Path | None = None
) -> tuple[AuditReport, ...]:
    """Audit the sessions named by id or path, all of them, or this worktree's; with their children.

    Reads only. StateError if a name means no session.
    """
    now = _now(cwd)
    records = find(names, every=every, cwd=cwd)
    return tuple(report for record in records for report in examine_tree(with_history(record), now))


def _now(cwd: Path | None) -> int:
    now = system_clock()
    with suppress(StateError):
        now = max(now, locate.store(cwd).clock())
    return now


def metrics(
    name: str = "", *, every: bool = False, playbook: str = "", cwd: Path | None = None
) -> Metrics:
    """The figures of a session named by id or path, of all sessions, or of this worktree's.

    `playbook` selects the sessions of that playbook. StateError if the name means no session;
    ArgumentError PB-ARG-PLAYBOOK if neither the project nor any session has that playbook.
    Reads only.
    """
    every = every or (bool(playbook) and not name)
    records = tuple(find((name,) if name else (), every=every, cwd=cwd))
    if not playbook:
        return measure(records)
    names = [record.session.playbook if record.session is not None else "" for record in records]
    if playbook not in names:
        _require_playbook(playbook, names, cwd)
    return measure(record for record, its in zip(records, names, strict=True) if its == playbook)


def _require_playbook(name: str, recorded: Sequence[str], cwd: Path | None) -> None:
    """A playbook that never ran has no figures; an unknown one is a typing error."""
    root = locate.store(cwd).checkout.root
    known = [each.name for each in library.playbooks(root)]
    if name not in known:
        raise library.none_called(root, name, [*known, *filter(None, recorded)])


# ── finding sessions ──────────────────────────────────────────────────────────────────────


def find(
    names: Sequence[str], *, every: bool = False, cwd: Path | None = None
) -> Iterator[SessionRecord]:
    """The sessions named by id or path, all of them, or this worktree's.

    All of them are those of every worktree, and of the references of a fleet that are here. A bare
    repository has only those. StateError if a name means no session.
    """
    for files in _find(names, cwd or locate.current_folder(), every=every):
        if files.commit:
            yield session_record.read(files, _beside_in_commit(files))
            continue
        record = session_record.read(files, _beside(files))
        if every and record.tree.parent is not None:
            continue  # it is read with its parent
        if files.playbook is None and files.folder is not None and record.session is not None:
            playbook = _project_playbook(files.folder, record.session)
            record = replace(record, files=replace(files, playbook=playbook))
        yield record


def with_history(record: SessionRecord) -> SessionRecord:
    """The same with what git knows: when its lines were committed, and whether it was merged."""
    files, session, folder = record.files, record.session, record.files.folder
    if folder is None:
        return record
    above = f"{SESSIONS}/{files.name}/" if files.commit else ""
    committed = git_history.line_times(folder, f"{above}{_JOURNAL}", files.commit)
    files = replace(files, committed=committed)
    branch = (session.branch or session.feature) if session is not None else ""
    if branch and session is not None and not session.ended:
        merged = git_history.merged_into(folder, f"{above}{_SESSION}", branch)
        files = replace(files, merged=merged)
    return replace(record, files=files)


def _find(names: Sequence[str], here: Path, *, every: bool) -> Iterator[SessionFiles]:
    if not _is_checkout(here) and _is_bare(here):
        yield from _in_bare(names, here, every=every)
        return
    if every:
        seen = overview.sessions(locate.store(here))
        for each in sorted(seen, key=lambda each: each.session_id):
            yield _in_store(each.store, each.session_id, here)
        yield from _in_references(locate.store(here).checkout.root)
        return
    for given in names or (locate.choose(locate.store(here), ""),):
        if not SESSION_ID.match(given) and os.path.lexists(here / given):
            yield _at_path(here / given, given)
            continue
        store = locate.store(here)
        name = locate.named(store, given)
        if SESSION_ID.match(name):
            yield _in_store(overview.find(store, name), name, here)
        else:
            yield _at_path(here / given, given)


def _in_bare(names: Sequence[str], here: Path, *, every: bool) -> Iterator[SessionFiles]:
    if not (names or every):
        raise StateError(
            "PB-STATE-NO-REPOSITORY",
            f"{here} is a bare repository, where nothing is checked out",
            guidance="Name a session, or take all that its references have: --all.",
        )
    if every:
        yield from _in_references(here)
    for given in names:
        if not SESSION_ID.match(given) and os.path.lexists(here / given):
            yield _at_path(here / given, given)
            continue
        found = list(_in_references(here, given)) if SESSION_ID.match(given) else []
        if not found:
            raise StateError(
                "PB-STATE-NO-SESSION",
                "no reference of this repository has a session with that id",
                where=given,
            )
        yield from found


def _is_checkout(here: Path) -> bool:
    try:
        checkout.find(here)
    except PlaybookError:
        return False
    return True


def _beside(files: SessionFiles) -> Callable[[str], SessionFiles | None]:
    def find(session_id: str) -> SessionFiles | None:
        if files.folder is None or not SESSION_ID.match(session_id):
            return None
        folder = files.folder.parent / session_id
        shown = Path(files.journal.file).parent.parent / session_id
        return _in_folder(folder, str(shown)) if (folder / _SESSION).is_file() else None

    return find


def _in_store(store: DiskStore, session_id: str, here: Path) -> SessionFiles:
    """A worktree's session, read under the lock, between two writes of its driver."""
    shown = os.path.relpath(store.checkout.root / SESSIONS / session_id, here)
    journal = f"{shown}/{_JOURNAL}"
    try:
        store.require_worktree(session_id)
        folder = store.folder(session_id)
    except StateError as error:
        missing = SessionFile(journal, problem=error.message, guidance=error.guidance)
        return SessionFiles(session_id, missing)
    except StorageError as error:
        return SessionFiles(session_id, SessionFile(journal, problem=error.message))
    runtime = store.runtime(session_id)
    with locked(runtime / "lock") if runtime.is_dir() else nullcontext():
        found = _without_lag(_in_folder(folder, shown), runtime)
        return replace(found, unproved=_unproved(store, session_id))


def _without_lag(files: SessionFiles, private: Path) -> SessionFiles:
    """A crash between two writes is no contradiction: the next command finishes session.yaml."""
    journal, session = files.journal.data, files.session
    if journal is None or session is None or session.data is None:
        return files
    try:
        runtime = Runtime.load(ABFile(private / NAME))
        if runtime is None:
            return files
        data = projection.caught_up(runtime, journal, session.data)
    except (PlaybookError, KeyError, TypeError, ValueError):  # a damaged state knows nothing
        return files
    return replace(files, session=replace(session, data=data))


def _unproved(store: DiskStore, session_id: str) -> tuple[str, ...]:
    try:
        if doubted := store.doubt(session_id):
            return (f"the runtime state is {doubted}",)
    except PlaybookError as error:
        unreadable = error.where.startswith(str(store.checkout.runtime))
        return (error.message,) if unreadable else ()
    try:
        found = session_diff.differences(store, session_id)
    except PlaybookError:  # a file that cannot be read has a finding of its own
        return ()
    return tuple(f"{each.file}: {each.what}" for each in found)


def _at_path(path: Path, shown: str) -> SessionFiles:
    if path.is_dir():
        return _in_folder(path, shown)
    if not path.is_file():
        raise StateError(
            "PB-STATE-NO-SESSION",
            "there is no session with that id, and no folder or journal of that name",
            where=shown,
            guidance="`playbook status --all` lists the sessions.",
        )
    if path.name == _JOURNAL and (path.parent / _SESSION).is_file():
        return _in_folder(path.parent, str(Path(shown).parent))
    return SessionFiles("", _file(path, shown))


def _in_folder(folder: Path, shown: str) -> SessionFiles:
    def file(name: str) -> SessionFile:
        return _file(folder / name, str(Path(shown) / name))

    def exists(name: str) -> bool:
        return os.path.lexists(folder / name)

    return _files_of(folder.resolve().name, folder, file, exists)


def _file(path: Path, shown: str) -> SessionFile:
    if path.is_symlink():  # findings quote the file, and the link may lead to a private one
        return SessionFile(shown, problem="it is a symbolic link")
    try:
        return SessionFile(shown, read_bytes(path, limit=MAX_BYTES))
    except FileNotFoundError:
        return SessionFile(shown, problem="there is no such file")
    except StorageError as error:
        return SessionFile(shown, problem=error.message)


def _project_playbook(folder: Path, session: LooseSession) -> SessionFile | None:
    if not re.match(_PLAYBOOK_NAME, session.playbook):
        return None
    try:
        root = checkout.find(folder).root
    except PlaybookError:
        return None
    path = f"{library.FOLDER}/{session.playbook}.yaml"
    content = git_history.as_of(root, path, session.started_at or 0)
    return _file(root / path, path) if content is None else SessionFile(path, content)


# ── the sessions of references, those of a fleet or not, without a checkout ──────────────────
#
# A session's reference is a chain of snapshots; what counts is the newest one. A bare mirror has
# all references of the remote, another clone those that were fetched. All in them is hostile data.


@dataclass(frozen=True, slots=True)
class _Blob:
    mode: str
    object_id: str
    size: int


def _is_bare(folder: Path) -> bool:
    try:
        return ask(folder, "rev-parse", "--is-bare-repository").strip() == "true"
    except PlaybookError:
        return False


def _in_references(repository: Path, session_id: str = "") -> Iterator[SessionFiles]:
    for name, ref, commit in _references(repository):
        if session_id in ("", name):
            files = _in_tree(repository, ref, commit, name, _blobs_of(repository, commit))
            if files is None:
                shown = f"{ref}:{_path(name, _JOURNAL)}"
                problem = "the reference does not have the session's files"
                missing = SessionFile(shown, problem=problem)
                files = SessionFiles(name, missing, folder=repository, commit=commit)
            yield files


def _beside_in_commit(files: SessionFiles) -> Callable[[str], SessionFiles | None]:
    repository = files.folder
    assert repository is not None  # noqa: S101 - `find` has set it
    blobs = _blobs_of(repository, files.commit)
    ref = files.journal.file.partition(":")[0]

    def find_other(session_id: str) -> SessionFiles | None:
        if not SESSION_ID.match(session_id):
            return None
        return _in_tree(repository, ref, files.commit, session_id, blobs)

    return find_other


def _references(repository: Path) -> Sequence[tuple[str, str, str]]:
    form = "--format=%(objecttype) %(objectname) %(refname)"
    try:
        listed = ask(repository, "for-each-ref", form, "--", *REF_FOLDERS, _FETCHED)
    except PlaybookError:
        return ()
    found: dict[str, tuple[str, str, str]] = {}
    for line in listed.splitlines():
        kind, commit, ref = line.split(" ", 2)
        name = ref.rpartition("/")[2]
        if kind == "commit" and SESSION_ID.match(name):
            known = found.setdefault(name, (name, ref, commit))
            if ref.startswith(REF_FOLDERS[0]) and not known[1].startswith(REF_FOLDERS[0]):
                found[name] = (name, ref, commit)
    return sorted(found.values())


@lru_cache(maxsize=2)
def _blobs_of(repository: Path, commit: str) -> Mapping[str, _Blob]:
    options = ("-r", "-z", "--long", "--full-tree")
    try:
        listed = ask(repository, "ls-tree", *options, commit, "--", f"{SESSIONS}/")
    except PlaybookError:
        return {}
    found = {}
    for line in listed.split("\0"):
        if entry := _ENTRY.fullmatch(line):
            mode, object_id, size, path = entry.groups()
            found[path] = _Blob(mode, object_id, int(size) if size != "-" else 0)
    return found


def _in_tree(
    repository: Path, ref: str, commit: str, session_id: str, blobs: Mapping[str, _Blob]
) -> SessionFiles | None:
    if _path(session_id, _SESSION) not in blobs and _path(session_id, _JOURNAL) not in blobs:
        return None

    def file(name: str) -> SessionFile:
        path = _path(session_id, name)
        return _blob_file(repository, f"{ref}:{path}", blobs.get(path))

    def exists(name: str) -> bool:
        return _path(session_id, name) in blobs

    return replace(_files_of(session_id, repository, file, exists), commit=commit)


def _files_of(
    name: str, folder: Path, file: Callable[[str], SessionFile], exists: Callable[[str], bool]
) -> SessionFiles:
    playbook = file(_PLAYBOOK) if exists(_PLAYBOOK) else None
    return SessionFiles(
        name=name,
        journal=file(_JOURNAL),
        session=file(_SESSION),
        playbook=playbook,
        pinned=playbook is not None,
        policy=file(session_policy.FILE) if exists(session_policy.FILE) else None,
        folder=folder,
    )


def _blob_file(repository: Path, shown: str, blob: _Blob | None) -> SessionFile:
    if blob is None:
        return SessionFile(shown, problem="there is no such file")
    if blob.mode == _LINK:
        return SessionFile(shown, problem="it is a symbolic link")
    if blob.size > MAX_BYTES:
        return SessionFile(shown, problem=f"it is larger than {MAX_BYTES:,} bytes")
    try:
        data = ask(repository, "cat-file", "blob", blob.object_id)
    except PlaybookError as error:
        return SessionFile(shown, problem=error.message)
    return SessionFile(shown, data.encode())


def _path(session_id: str, name: str) -> str:
    return f"{SESSIONS}/{session_id}/{name}"
