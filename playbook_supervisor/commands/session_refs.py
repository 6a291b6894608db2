"""The sessions that a repository's references have, those of a fleet or not, without a checkout.

A session's reference is a chain of snapshots; what counts is the newest one. A bare mirror has all
references of the remote, another clone those that were fetched. Everything in them is hostile data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from playbook_supervisor.audit.session_record import SessionFile, SessionFiles
from playbook_supervisor.drivers.fleet.session_tip import FOLDERS, HEADS
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project import schema, session_policy
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions import session_ids
from playbook_supervisor.sessions.journal import MAX_BYTES, parse_journal
from playbook_supervisor.sessions.manifest import SESSION_ID, Manifest, read_manifest
from playbook_supervisor.sessions.store import SESSIONS
from playbook_supervisor.system import git_history
from playbook_supervisor.system.git_process import ask

_JOURNAL, _SESSION, _PLAYBOOK = "journal.yaml", "session.yaml", "playbook.yaml"
_FETCHED = f"refs/remotes/*/{FOLDERS[1].removeprefix(HEADS)}*"
_ENTRY = re.compile(r"(1[0-9]{5}) (?:blob|commit) ([0-9a-f]{40,64}) +([0-9]+|-)\t(.*)", re.DOTALL)
_LINK = "120000"


class _Blob(Record):
    mode: str
    object_id: str
    size: int


def is_bare(folder: Path) -> bool:
    """Whether the folder is in a bare repository, or in the git directory of one."""
    try:
        return ask(folder, "rev-parse", "--is-bare-repository").strip() == "true"
    except PlaybookError:
        return False


def find(repository: Path, session_id: str = "") -> Iterator[SessionFiles]:
    """The sessions that the references of the repository have, by id; only that one, if named."""
    for name, ref, commit in _references(repository):
        if session_id in ("", name):
            files = _in_tree(repository, ref, commit, name, _tree(repository, commit))
            yield files or _without_files(repository, ref, commit, name)


def beside(files: SessionFiles) -> Callable[[str], SessionFiles | None]:
    """Finds another session in the same snapshot by its id."""
    repository = files.folder
    assert repository is not None  # noqa: S101 - `find` has set it
    blobs = _tree(repository, files.commit)
    ref = files.journal.file.partition(":")[0]

    def find_other(session_id: str) -> SessionFiles | None:
        if not SESSION_ID.match(session_id):
            return None
        return _in_tree(repository, ref, files.commit, session_id, blobs)

    return find_other


def on_a_branch(
    repository: Path, session_id: str
) -> tuple[Manifest, tuple[Entry, ...], Playbook] | None:
    """The session as the branch has it, here or fetched, that committed its files last."""
    if not SESSION_ID.match(session_id):
        return None
    since = session_ids.earliest(session_id)

    def last(name: str) -> bytes:
        path = f":(top,literal){_path(session_id, name)}"
        return next(git_history.on_branches(repository, path, since), ("", b""))[1]

    try:
        manifest = read_manifest(last(_SESSION), _SESSION)
        entries = parse_journal(last(_JOURNAL), _JOURNAL).entries
        return manifest, entries, schema.read_playbook(last(_PLAYBOOK), _PLAYBOOK)
    except PlaybookError:
        return None


def _references(repository: Path) -> Sequence[tuple[str, str, str]]:
    """Session, reference and commit of each, in the order of the ids; each session once."""
    form = "--format=%(objecttype) %(objectname) %(refname)"
    try:
        listed = ask(repository, "for-each-ref", form, "--", *FOLDERS, _FETCHED)
    except PlaybookError:
        return ()
    found: dict[str, tuple[str, str, str]] = {}
    for line in listed.splitlines():
        kind, commit, ref = line.split(" ", 2)
        name = ref.rpartition("/")[2]
        if kind == "commit" and SESSION_ID.match(name):
            known = found.setdefault(name, (name, ref, commit))
            if ref.startswith(FOLDERS[0]) and not known[1].startswith(FOLDERS[0]):
                found[name] = (name, ref, commit)
    return sorted(found.values())


@lru_cache(maxsize=2)
def _tree(repository: Path, commit: str) -> Mapping[str, _Blob]:
    """The files below the sessions' folders in that commit, by their paths."""
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
    """The session's files in that commit; None if it has no such session."""
    if _path(session_id, _SESSION) not in blobs and _path(session_id, _JOURNAL) not in blobs:
        return None

    def file(name: str) -> SessionFile:
        path = _path(session_id, name)
        return _file(repository, f"{ref}:{path}", blobs.get(path))

    def exists(name: str) -> bool:
        return _path(session_id, name) in blobs

    return replace(files_of(session_id, repository, file, exists), commit=commit)


def files_of(
    name: str, folder: Path, file: Callable[[str], SessionFile], exists: Callable[[str], bool]
) -> SessionFiles:
    """The files of a session; `file` reads one of that name, and says that it is missing."""
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


def _without_files(repository: Path, ref: str, commit: str, session_id: str) -> SessionFiles:
    shown = f"{ref}:{_path(session_id, _JOURNAL)}"
    missing = SessionFile(shown, problem="the reference does not have the session's files")
    return SessionFiles(session_id, missing, folder=repository, commit=commit)


def _file(repository: Path, shown: str, blob: _Blob | None) -> SessionFile:
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
