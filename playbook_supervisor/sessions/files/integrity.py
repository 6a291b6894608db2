"""Compares a session's files with what was recorded of them, and restores missing files.

The data of a file are our keys and the order of entries. Comments, layout and unknown keys are a
person's notes, and never count as a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.project.policies import session_policy
from playbook_supervisor.project.settings import session_settings
from playbook_supervisor.records import Record, fields
from playbook_supervisor.sessions.files.journal import MAX_BYTES, durations, parse_journal
from playbook_supervisor.sessions.files.local_state import chain
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.system.disk.files import (
    digest,
    ensure_folder,
    read_bytes,
    write_atomically,
)

RECORDS = "records.yaml"  # follows from the local state, so that no copy of it is needed
CHILDREN = "playbooks"  # folder of the child playbooks that the session can reach, as they were
OUTPUTS = "outputs"  # folder of what later steps read of the output of steps (`step_data.py`)
PINNED = ("playbook.yaml", session_policy.FILE, session_settings.FILE)
"""The files that say how the session runs, but for its children; not each has a policy."""
FILES = ("session.yaml", "journal.yaml", *PINNED, RECORDS)
"""The files of a session. The git directory has copies of all but the last."""


def journal_difference(recorded: State, chained: str, entries: Sequence[Entry], copy: Path) -> str:
    """The first difference between the entries and what was recorded of them; empty if none. Of
    settled phases only the digest `chained` is recorded; the `copy`, if any, helps to name the
    entry."""
    past = recorded.past.entries
    if chain("", entries[:past]) != chained:
        return _settled_difference(entries, copy) or f"one of the first {past} entries was changed"
    for known, found in zip_longest(recorded.entries, entries[past:]):
        if known != found:
            return _difference(known, found)
    return ""


def wrong_duration(data: bytes, entries: Sequence[Entry], source: str) -> str:
    """An entry whose duration is not the difference of its times, in a sentence; empty if none."""
    for index, seconds in durations(data, source):
        entry = entries[index]
        completed_at = entry.completed_at
        if completed_at is None or (completed_at - entry.started_at) / 1000 != seconds:
            return f"the duration of {entry.id} was changed"
    return ""


def manifest_difference(recorded: Manifest, found: Manifest) -> str:
    """The first difference of the manifests; empty if there is none."""
    same = recorded == found
    return "" if same else f"it was changed by something else: {_changed(recorded, found)}"


def tampered(message: str, source: str) -> StateError:
    """The error for data that something else has changed."""
    return StateError("PB-STATE-TAMPERED", message, where=source)


def read_file(folder: Path, name: str) -> bytes:
    """StorageError PB-IO-ESCAPE for a symbolic link, PB-IO-READ; StateError if it is missing."""
    path = folder / name
    if path.is_symlink() or path.parent.is_symlink():
        place = shown(folder, name)
        raise StorageError("PB-IO-ESCAPE", f"{place} is a symbolic link", where=place)
    try:
        return read_bytes(path, limit=MAX_BYTES)
    except FileNotFoundError as error:
        missing = "PB-STATE-NO-PLAYBOOK" if name == "playbook.yaml" else "PB-STATE-CORRUPT"
        what = "pinned playbook" if name == "playbook.yaml" else name
        place = shown(folder, name)
        raise StateError(missing, f"session {folder.name} has no {what}", where=place) from error


def shown(folder: Path, name: str) -> str:
    """The path of a file in messages: from the repository's top."""
    return Path(*folder.parts[-3:], name).as_posix()


def missing(folder: Path, copied: Iterable[str] = ()) -> list[str]:
    """The session's files that are not there, or empty, as a crash of the machine can leave one.
    `copied` are outputs of steps and child playbooks that should be there."""
    return [name for name in (*FILES, *copied) if not _has_content(folder / name)]


def outputs(names: Iterable[str]) -> list[str]:
    """Of the names of files those of the outputs of steps."""
    return [name for name in names if name.startswith(f"{OUTPUTS}/")]


def child_file(playbook: str) -> str:
    """The file in which a session keeps a child playbook."""
    return f"{CHILDREN}/{playbook}.yaml"


def children(names: Iterable[str]) -> list[str]:
    """Of the names of files those of child playbooks."""
    return [name for name in names if name.startswith(f"{CHILDREN}/") and name.endswith(".yaml")]


def pinned(names: Iterable[str]) -> list[str]:
    """Of the names of files those that say how the session runs."""
    known = list(names)
    return [*(name for name in PINNED if name in known), *children(known)]


def nested(names: Iterable[str]) -> list[str]:
    """Of the names of files those in a folder of the session's."""
    known = list(names)
    return [*outputs(known), *children(known)]


def write_inside(folder: Path, name: str, data: bytes, *, durable: bool = True) -> None:
    """Write a file that has a folder of its own. StorageError, also if that is a symbolic link."""
    place = (folder / name).parent
    if place.is_symlink():
        said = shown(folder, place.name)
        raise StorageError("PB-IO-ESCAPE", f"{said} is a symbolic link", where=said)
    ensure_folder(place)
    write_atomically(folder / name, data, durable=durable)


def copy_outputs(folder: Path, private: Path, names: Iterable[str]) -> None:
    """Copy those of the outputs that have no copy yet; they need not survive a crash."""
    for name in outputs(names):
        if not (private / name).exists() and _has_content(folder / name):
            write_inside(private, name, read_file(folder, name), durable=False)


def restore_missing(folder: Path, private: Path) -> list[str]:
    """Restore missing files of the session's folder from the copies; returns their names."""
    restored = []
    copied = [f"{OUTPUTS}/{path.name}" for path in (private / OUTPUTS).glob("*.json")]
    copied += [f"{CHILDREN}/{path.name}" for path in (private / CHILDREN).glob("*.yaml")]
    for name in missing(folder, copied):
        try:
            copy = read_bytes(private / name)
        except FileNotFoundError:
            continue
        if not copy and (folder / name).exists():  # the settings may have been an empty file
            continue
        if name in copied:
            write_inside(folder, name, copy)
        else:
            write_atomically(folder / name, copy)
        restored.append(name)
    return restored


def copy_all(private: Path, folder: Path, names: Iterable[str]) -> None:
    """Make the files of the work tree what the copies are; the journal comes last."""
    known = {*names, *FILES}
    for name in sorted(known & {*FILES, *nested(known)}, key=lambda name: name == FILES[1]):
        with suppress(FileNotFoundError):
            copy = read_bytes(private / name)
            if not _has_content(folder / name) or read_file(folder, name) != copy:
                write_inside(folder, name, copy)


def bring(private: Path, folder: Path, names: Iterable[str], away: Mapping[str, str]) -> None:
    """Write what was recorded while another branch was checked out, over what `away` names. It is
    repeated after a crash. A file that is neither is left: something else has changed it."""
    for name, former in away.items():
        if _has_content(folder / name):
            found = read_file(folder, name)
            if digest(found) != former and found != read_file(private, name):
                return
    copy_all(private, folder, names)


def _has_content(path: Path) -> bool:
    try:
        return path.lstat().st_size > 0
    except FileNotFoundError:
        return False


def _settled_difference(entries: Sequence[Entry], copy: Path) -> str:
    try:
        known = parse_journal(read_bytes(copy), copy.name).entries
    except (FileNotFoundError, StateError):
        return ""
    for mine, theirs in zip_longest(known, entries[: len(known)]):
        if mine != theirs and mine.settled:
            return _difference(mine, theirs)
    return ""


def _difference(known: Entry | None, found: Entry | None) -> str:
    if known is None and found is not None:
        return f"the entry {found.id} was added by something else"
    if known is not None and found is not None and known.id == found.id:
        return f"the entry {known.id} was changed: {_changed(known, found)}"
    return f"the entry {known.id if known else ''} was removed or moved"


def _changed(known: Record, found: Record) -> str:
    key = next(key for key in fields(known) if getattr(known, key) != getattr(found, key))
    mine, theirs = getattr(known, key), getattr(found, key)
    while isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs):
        mine, theirs = next(each for each in zip(mine, theirs, strict=True) if each[0] != each[1])
    if isinstance(mine, Record) and isinstance(theirs, Record):
        return f"{key}.{_changed(mine, theirs)}"
    return f"{key} was {_short(mine)} and is {_short(theirs)}"


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value in (None, "", ()):
        return "empty"
    values = value if isinstance(value, tuple) else (value,)
    return repr(", ".join(str(getattr(each, "id", each)) for each in values))[:80]
