"""Whether the files are still what we wrote, and what to do when they are not.

Data are the keys of our vocabulary and the order of entries. Comments, layout and keys that we do
not know are a person's notes and never a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.project import session_policy
from playbook_supervisor.records import fields
from playbook_supervisor.sessions import serialize
from playbook_supervisor.sessions.journal import MAX_BYTES, durations, parse_journal
from playbook_supervisor.sessions.manifest import Manifest
from playbook_supervisor.system.files import digest, read_bytes, write_atomically

FILES = ("session.yaml", "journal.yaml", "playbook.yaml", session_policy.FILE)
"""What a session's folder holds, the last only where its project has policies, and what is kept of
it in the git directory."""
PINNED = ("playbook.yaml", session_policy.FILE)
"""What a session began with, which is never written again."""


def chain(former: str, entries: Iterable[Entry]) -> str:
    """A digest over the data of entries, to be continued: settled ones never change again."""
    for entry in entries:
        data = json.dumps(serialize.entry_to_json(entry), sort_keys=True, separators=(",", ":"))
        former = digest(f"{former}\n{data}".encode())
    return former


def journal_difference(recorded: State, chained: str, entries: Sequence[Entry], copy: Path) -> str:
    """How the entries differ from what was recorded of them, naming one; empty if they do not.

    Of the settled phases only `chained` is recorded; the copy of the journal, where there is one,
    says which of their entries it is.
    """
    past = recorded.past.entries
    if chain("", entries[:past]) != chained:
        return _culprit(entries, copy) or f"one of the first {past} entries was changed"
    for known, found in zip_longest(recorded.entries, entries[past:]):
        if known != found:
            return _told(known, found)
    return ""


def lying_duration(data: bytes, entries: Sequence[Entry], source: str) -> str:
    """An entry whose stated duration is not the difference of its times; empty if there is none."""
    for index, seconds in durations(data, source):
        entry = entries[index]
        completed_at = entry.completed_at
        if completed_at is None or (completed_at - entry.started_at) / 1000 != seconds:
            return f"the duration of {entry.id} was changed"
    return ""


def manifest_difference(recorded: Manifest, found: Manifest) -> str:
    """How the manifests differ; empty if they do not."""
    if recorded == found:
        return ""
    return f"it was changed by something else: {_changed(recorded, found)}"


def tampered(message: str, source: str) -> StateError:
    """The error that stops every command until a person has looked."""
    return StateError("PB-STATE-TAMPERED", message, where=source)


def read_file(folder: Path, name: str) -> bytes:
    """A file of the session, which must be one: what is a link could be anybody's.

    StorageError PB-IO-ESCAPE, PB-IO-READ; StateError if there is none.
    """
    path = folder / name
    if path.is_symlink():
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
    """How a file of the session is named to people: from the repository's top."""
    return Path(*folder.parts[-3:], name).as_posix()


def restore_missing(folder: Path, private: Path) -> list[str]:
    """Put back from the copies what has vanished from the session's folder; returns the names.

    An empty file has vanished, too: that is what a failing machine can leave of one.
    """
    restored = []
    for name in FILES:
        try:
            if (folder / name).lstat().st_size:
                continue
        except FileNotFoundError:
            pass
        try:
            kept = read_bytes(private / name)
        except FileNotFoundError:
            continue
        write_atomically(folder / name, kept)
        restored.append(name)
    return restored


def _culprit(entries: Sequence[Entry], copy: Path) -> str:
    """Where the entries leave the copy, which may be older and then says nothing."""
    try:
        known = parse_journal(read_bytes(copy), copy.name).entries
    except (FileNotFoundError, StateError):
        return ""
    for mine, theirs in zip_longest(known, entries[: len(known)]):
        if mine != theirs and mine.settled:
            return _told(mine, theirs)
    return ""


def _told(known: Entry | None, found: Entry | None) -> str:
    if known is None and found is not None:
        return f"the entry {found.id} was added by something else"
    if known is not None and found is not None and known.id == found.id:
        return f"the entry {known.id} was changed: {_changed(known, found)}"
    return f"the entry {known.id if known else ''} was removed or moved"


def _changed(known: Entry | Manifest, found: Entry | Manifest) -> str:
    """The first key in which two records of one kind differ, with both values."""
    return next(
        f"{key} was {_short(mine)} and is {_short(theirs)}"
        for key in fields(known)
        if (mine := getattr(known, key)) != (theirs := getattr(found, key))
    )


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value in (None, "", ()):
        return "empty"
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return repr(text)[:80]
