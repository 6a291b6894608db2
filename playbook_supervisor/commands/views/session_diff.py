"""The differences between a session's files and what this program last wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypeVar

from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.yaml_writer import flow
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project.playbooks.schema import read_playbook
from playbook_supervisor.project.policies import session_policy
from playbook_supervisor.project.settings import session_settings
from playbook_supervisor.sessions.files import (
    integrity,
    local_state,
    portable_records,
    provenance,
    serialize,
)
from playbook_supervisor.sessions.files.journal import (
    EMPTY,
    HEADER,
    emit_entry,
    entry_mapping,
    parse_journal,
)
from playbook_supervisor.sessions.files.local_state import NAME, Runtime
from playbook_supervisor.sessions.files.manifest import (
    Manifest,
    manifest_from_json,
    manifest_mapping,
    read_manifest,
)
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import digest, read_bytes

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: `what` in a short sentence, and the changed keys.

    `file` is one of the session's files. A change is a key with its YAML before and after, empty
    where the key is absent.
    """

    file: str
    what: str
    changes: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """A session's folder, and its private folder and state file in the git directory."""

    session_id: str
    folder: Path
    private: Path
    state: ABFile

    @classmethod
    def of(cls, store: DiskStore, session_id: str) -> SessionPaths:
        private = store.runtime(session_id)
        return cls(session_id, store.folder(session_id), private, ABFile(private / NAME))


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session as this worktree saved it: its local state, and copies of its files."""

    paths: SessionPaths
    runtime: Runtime
    copies: Mapping[str, bytes]

    @classmethod
    def load(cls, store: DiskStore, session_id: str) -> SavedSession | None:
        paths = SessionPaths.of(store, session_id)
        runtime = provenance.recorded(paths.state)
        if runtime is None:
            return None
        copied = (name for name in integrity.FILES if name != integrity.RECORDS)
        names: list[str] = [name for name in copied if name in runtime.digests]
        names += integrity.nested(runtime.digests)
        copies = {name: _saved(paths, runtime, name) for name in names}
        return cls(paths, runtime, copies)

    @property
    def complete(self) -> bool:
        return all(self.copies.values())

    @property
    def proved(self) -> frozenset[str]:
        """The pinned files of which the copy is what was written."""
        copies = self.copies.items()
        return frozenset(name for name, copy in copies if self.runtime.ours(name, digest(copy)))


def differences(store: DiskStore, session_id: str) -> tuple[Difference, ...]:
    """All differences; empty also if this worktree never wrote the session. Writes nothing."""
    saved = SavedSession.load(store, session_id)
    if saved is None:
        return ()
    return (
        *_in_file(saved, "journal.yaml", _read_journal, _in_journal),
        *_in_file(saved, "session.yaml", read_manifest, _in_manifest),
        *_in_pinned(saved, "playbook.yaml", "playbook was", read_playbook, playbook_changes),
        *_in_pinned(
            saved, session_policy.FILE, "policies were", session_policy.read_policy, _policy_changes
        ),
        *_in_pinned(
            saved,
            session_settings.FILE,
            "settings were",
            session_settings.read_settings,
            session_settings.changes,
        ),
        *_in_records(saved),
        *chain.from_iterable(
            _in_pinned(saved, name, "playbook was", read_playbook, playbook_changes)
            for name in integrity.children(saved.copies)
        ),
        *_in_outputs(saved),
    )


def written_journal(saved: SavedSession) -> bytes:
    """The journal as last written, with its layout if the copy is up to date.

    StateError if the copy is too old to tell.
    """
    data = saved.copies["journal.yaml"]
    if saved.runtime.latest("journal.yaml", digest(data)):
        return data
    current = _entries(_content(saved.paths.folder / "journal.yaml"))
    entries = _written_entries(saved, current)
    if entries is None:
        raise StateError(
            "PB-STATE-CORRUPT",
            "the copy of the journal is older than what was written last",
            where=str(saved.paths.private / "journal.yaml"),
            guidance="Take the journal from git, then "
            f"`playbook repair {saved.paths.folder.name} --take`.",
        )
    return HEADER + b"".join(map(emit_entry, entries)) if entries else EMPTY


def _written_entries(
    saved: SavedSession, current: tuple[Entry, ...] = ()
) -> tuple[Entry, ...] | None:
    """The entries as last written; None if they cannot be recovered.

    The local state holds the entries of the current phase, and only a digest of the settled ones:
    those come from the copy, or from the current file if only later entries were changed.
    """
    if "playbook.yaml" not in saved.proved:
        return None
    playbook = read_playbook(saved.copies["playbook.yaml"], "playbook.yaml")
    recorded = serialize.state_from_json(saved.runtime.state, playbook)
    for source in (_entries(saved.copies["journal.yaml"]), current):
        past = source[: recorded.past.entries]
        if local_state.chain("", past) == saved.runtime.chain:
            return (*past, *recorded.entries)
    return None


def _entries(data: bytes) -> tuple[Entry, ...]:
    try:
        return parse_journal(data, "journal.yaml").entries
    except StateError:
        return ()


def _saved(paths: SessionPaths, runtime: Runtime, name: str) -> bytes:
    """The copy; without one, the file itself if it is as it was last written."""
    if copy := _content(paths.private / name):
        return copy
    data = _content(paths.folder / name)
    return data if runtime.latest(name, digest(data)) else b""


def _content(path: Path) -> bytes:
    try:
        return b"" if path.is_dir() else read_bytes(path)
    except FileNotFoundError:
        return b""


# ── file by file ────────────────────────────────────────────────────────────────────────────


def _in_file(
    saved: SavedSession,
    name: str,
    read: Callable[[bytes, str], Read],
    compare: Callable[[SavedSession, Read], Iterator[Difference]],
) -> Iterator[Difference]:
    data = _content(saved.paths.folder / name)
    if saved.runtime.ours(name, digest(data)):
        return
    if not data:
        folder = (saved.paths.folder / name).is_dir()
        yield Difference(name, "a folder is in its place" if folder else "it is missing")
        return
    if integrity.pinned([name]) and name not in saved.proved:
        yield Difference(name, "it was changed, and so was its copy")
        return
    try:
        current = read(data, name)
    except PlaybookError as error:
        yield Difference(name, f"it cannot be read: {error.message} ({error.where})")
        return
    yield from compare(saved, current)


def _read_journal(data: bytes, name: str) -> tuple[tuple[Entry, ...], str]:
    entries = parse_journal(data, name).entries
    return entries, integrity.wrong_duration(data, entries, name)


def _in_journal(
    saved: SavedSession, journal: tuple[tuple[Entry, ...], str]
) -> Iterator[Difference]:
    name, (current, wrong_duration) = "journal.yaml", journal
    written = _written_entries(saved, current)
    if written is None:
        yield Difference(name, "entries of settled steps were changed, and the copy is older")
    else:
        yield from _entry_by_entry(written, current)
    if wrong_duration:
        yield Difference(name, wrong_duration)


def _entry_by_entry(written: tuple[Entry, ...], current: tuple[Entry, ...]) -> Iterator[Difference]:
    """Compare by position; entries with different ids are reported as removed and added."""
    for before, after in zip_longest(written, current):
        if before == after:
            continue
        if before is not None and after is not None and before.id == after.id:
            changes = tuple(changes_of(entry_mapping(before), entry_mapping(after)))
            yield Difference("journal.yaml", f"the entry {before.id} was changed", changes)
            continue
        if before is not None:
            yield Difference("journal.yaml", f"the entry {before.id} was removed or moved")
        if after is not None:
            added = tuple(changes_of({}, entry_mapping(after)))
            what = f"the entry {after.id} was added by something else"
            yield Difference("journal.yaml", what, added)


def _in_manifest(saved: SavedSession, current: Manifest) -> Iterator[Difference]:
    before = manifest_mapping(manifest_from_json(saved.runtime.manifest))
    if changes := tuple(changes_of(before, manifest_mapping(current))):
        yield Difference("session.yaml", "it was changed", changes)


def _in_pinned(
    saved: SavedSession,
    name: str,
    what: str,
    read: Callable[[bytes, str], Read],
    changes: Callable[[Read, Read], Iterable[tuple[str, str, str]]],
) -> Iterator[Difference]:
    def compare(saved: SavedSession, current: Read) -> Iterator[Difference]:
        if found := tuple(changes(read(saved.copies[name], name), current)):
            yield Difference(name, f"the pinned {what} changed", found)

    if name in saved.copies:
        yield from _in_file(saved, name, read, compare)
    elif _content(saved.paths.folder / name):
        yield Difference(name, "it did not exist when the session began")


def _in_records(saved: SavedSession) -> Iterator[Difference]:
    """A missing file is no difference: the next command writes it again."""
    name = integrity.RECORDS
    data = _content(saved.paths.folder / name)
    if data and not saved.runtime.ours(name, digest(data)):
        if name not in saved.runtime.digests:
            yield Difference(name, "it was put there by something else")
        elif what := portable_records.difference(data, saved.runtime):
            yield Difference(name, what)


def _in_outputs(saved: SavedSession) -> Iterator[Difference]:
    """A missing file is no difference: the next command restores it."""
    for name in integrity.outputs(saved.runtime.digests):
        data = _content(saved.paths.folder / name)
        if data and not saved.runtime.ours(name, digest(data)):
            yield Difference(name, "it was changed by something else")


def playbook_changes(before: Playbook, after: Playbook) -> Iterator[tuple[str, str, str]]:
    """As `changes_of`."""
    return changes_of(serialize.playbook_to_json(before), serialize.playbook_to_json(after))


def _policy_changes(
    before: session_policy.Policy, after: session_policy.Policy
) -> Iterator[tuple[str, str, str]]:
    def shape(policy: session_policy.Policy) -> dict[str, object]:
        shapes = enumerate(map(session_policy.demand_to_json, policy.demands), 1)
        return {f"demand {number}": shape for number, shape in shapes}

    return changes_of(shape(before), shape(after))


def changes_of(
    before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    """Each key that differs, with its YAML before and after."""
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield key, _short(old), _short(new)


def _short(value: object) -> str:
    return "" if value is None else first_line(flow(value), 200)
