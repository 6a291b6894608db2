"""What differs between a session's files and what was written of it, and the two ways to mend it.

`take` accepts the files as they are, `restore` puts back what was written; both leave a session
that every command takes again, and neither half of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.yaml_writer import flow
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project import session_policy
from playbook_supervisor.project.schema import read_playbook
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import integrity, serialize, session
from playbook_supervisor.sessions.journal import (
    EMPTY,
    HEADER,
    emit_entry,
    entry_mapping,
    parse_journal,
)
from playbook_supervisor.sessions.local_state import NAME, Runtime
from playbook_supervisor.sessions.manifest import Manifest, Waiting, read_manifest
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system.ab_file import ABFile
from playbook_supervisor.system.files import (
    digest,
    ensure_folder,
    locked,
    read_bytes,
    remove,
    write_atomically,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Read = TypeVar("Read")


class Difference(Record):
    """One thing that is not as it was written: `what` in half a sentence, and key by key.

    `file` is `journal.yaml`, `session.yaml`, `playbook.yaml` or `policy.yaml`; `changes` are key,
    before, after, as YAML, empty where there is no such key.
    """

    file: str
    what: str
    changes: tuple[tuple[str, str, str], ...] = ()


def differences(store: DiskStore, session_id: str) -> tuple[Difference, ...]:
    """All of them, nothing written. Empty as well where this worktree has written nothing of it."""
    kept = _Kept.of(store, session_id)
    if kept is None:
        return ()
    return (
        *_in_file(kept, "journal.yaml", _read_journal, _in_journal),
        *_in_file(kept, "session.yaml", read_manifest, _in_manifest),
        *_in_file(kept, "playbook.yaml", read_playbook, _in_playbook),
        *_in_policy(kept),
    )


def take(store: DiskStore, session_id: str) -> None:
    """The files as they are count from now on. StateError if they cannot be read or replayed."""
    with _locked(store, session_id):
        _take(_Place.of(store, session_id))


def restore(store: DiskStore, session_id: str) -> None:
    """What was written stands there again. StateError where not all of it is kept."""
    with _locked(store, session_id):
        kept = _Kept.of(store, session_id)
        if kept is None:
            raise StateError(
                "PB-STATE-CORRUPT",
                f"nothing of session {session_id} is kept in this worktree",
                where=str(store.folder(session_id)),
                guidance="Take it from git: `git checkout -- .playbooks/sessions`.",
            )
        journal = _written_journal(kept)
        ensure_folder(kept.place.folder)
        write_atomically(kept.place.folder / "journal.yaml", journal)
        for name in kept.copies.keys() - {"journal.yaml"}:
            write_atomically(kept.place.folder / name, kept.copies[name])
        if session_policy.FILE not in kept.copies:
            remove(kept.place.folder / session_policy.FILE)
        _take(kept.place)


# ── what is kept ────────────────────────────────────────────────────────────────────────────


class _Place(Record):
    """Where a session's files are: in the work tree and in the git directory."""

    session_id: str
    folder: Path
    private: Path
    state: ABFile

    @classmethod
    def of(cls, store: DiskStore, session_id: str) -> _Place:
        private = store.runtime(session_id)
        return cls(session_id, store.folder(session_id), private, ABFile(private / NAME))


class _Kept(Record):
    """What was recorded of a session, and the copies of its files."""

    place: _Place
    runtime: Runtime
    copies: Mapping[str, bytes]

    @classmethod
    def of(cls, store: DiskStore, session_id: str) -> _Kept | None:
        place = _Place.of(store, session_id)
        runtime = Runtime.load(place.state)
        if runtime is None:
            return None
        names: list[str] = [name for name in integrity.FILES if name in runtime.digests]
        copies = {name: _content(place.private / name) for name in names}
        if not all(copies.values()):
            return None
        return cls(place, runtime, copies)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return b""


def _written_entries(kept: _Kept, found: tuple[Entry, ...] = ()) -> tuple[Entry, ...] | None:
    """The entries as they were written: the due phase's are recorded, the settled ones' digest is.

    Those may come from the copy, or from the file itself where only later ones were changed; None
    where neither has them all.
    """
    playbook = read_playbook(kept.copies["playbook.yaml"], "playbook.yaml")
    recorded = serialize.state_from_json(kept.runtime.state, playbook)
    copy = parse_journal(kept.copies["journal.yaml"], "journal.yaml").entries
    for source in (copy, found):
        past = source[: recorded.past.entries]
        if integrity.chain("", past) == kept.runtime.chain:
            return (*past, *recorded.entries)
    return None


def _written_journal(kept: _Kept) -> bytes:
    """The journal as it was written, with its layout where the copy is the last that was."""
    data = kept.copies["journal.yaml"]
    if kept.runtime.latest("journal.yaml", digest(data)):
        return data
    entries = _written_entries(kept, _found_entries(kept))
    if entries is None:
        raise StateError(
            "PB-STATE-CORRUPT",
            "the copy of the journal is older than what was written last",
            where=str(kept.place.private / "journal.yaml"),
            guidance="Take the journal from git, then "
            f"`playbook repair {kept.place.folder.name} --take`.",
        )
    return HEADER + b"".join(map(emit_entry, entries)) if entries else EMPTY


def _found_entries(kept: _Kept) -> tuple[Entry, ...]:
    try:
        return parse_journal(_content(kept.place.folder / "journal.yaml"), "journal.yaml").entries
    except StateError:
        return ()


# ── what differs ────────────────────────────────────────────────────────────────────────────


def _in_file(
    kept: _Kept,
    name: str,
    read: Callable[[bytes, str], Read],
    compare: Callable[[_Kept, Read], Iterator[Difference]],
) -> Iterator[Difference]:
    """What differs in one file: nothing in bytes that we wrote, all of one that is not readable."""
    data = _content(kept.place.folder / name)
    if kept.runtime.ours(name, digest(data)):
        return
    if not data:
        yield Difference(name, "it is missing")
        return
    try:
        found = read(data, name)
    except PlaybookError as error:
        yield Difference(name, f"it cannot be read: {error.message} ({error.where})")
        return
    yield from compare(kept, found)


def _read_journal(data: bytes, name: str) -> tuple[tuple[Entry, ...], str]:
    """Its entries, and what is wrong with a duration that it states."""
    found = parse_journal(data, name).entries
    return found, integrity.lying_duration(data, found, name)


def _in_journal(kept: _Kept, read: tuple[tuple[Entry, ...], str]) -> Iterator[Difference]:
    name, (found, lie) = "journal.yaml", read
    known = _written_entries(kept, found)
    if known is None:
        yield Difference(name, "entries of settled steps were changed, and the copy is older")
    else:
        yield from _between(known, found)
    if lie:
        yield Difference(name, lie)


def _between(known: tuple[Entry, ...], found: tuple[Entry, ...]) -> Iterator[Difference]:
    """Entry by entry. One that is in its place in neither is named, not guessed at."""
    for mine, theirs in zip_longest(known, found):
        if mine == theirs:
            continue
        if mine is not None and theirs is not None and mine.id == theirs.id:
            changes = tuple(_changes(entry_mapping(mine), entry_mapping(theirs)))
            yield Difference("journal.yaml", f"the entry {mine.id} was changed", changes)
            continue
        if mine is not None:
            yield Difference("journal.yaml", f"the entry {mine.id} was removed or moved")
        if theirs is not None:
            added = tuple(_changes({}, entry_mapping(theirs)))
            yield Difference("journal.yaml", f"the entry {theirs.id} was not written", added)


def _in_manifest(kept: _Kept, found: Manifest) -> Iterator[Difference]:
    """What the journal says of the session is repeated there and comes back by itself."""
    known = kept.runtime.manifest
    theirs = {key: _plain(getattr(found, key)) for key in known}
    changes = tuple(_changes({key: _plain(value) for key, value in known.items()}, theirs))
    if changes:
        yield Difference("session.yaml", "it was changed", changes)


def _in_playbook(kept: _Kept, found: Playbook) -> Iterator[Difference]:
    name = "playbook.yaml"
    known = serialize.playbook_to_json(read_playbook(kept.copies[name], name))
    changes = tuple(_changes(known, serialize.playbook_to_json(found)))
    if changes:
        yield Difference(name, "the pinned playbook was changed", changes)


def _in_policy(kept: _Kept) -> Iterator[Difference]:
    name = session_policy.FILE
    if name in kept.copies:
        yield from _in_file(kept, name, session_policy.read_policy, _in_demands)
    elif _content(kept.place.folder / name):
        yield Difference(name, "it was not there when the session began")


def _in_demands(kept: _Kept, found: session_policy.Policy) -> Iterator[Difference]:
    name = session_policy.FILE
    known = _demands(session_policy.read_policy(kept.copies[name], name))
    changes = tuple(_changes(known, _demands(found)))
    if changes:
        yield Difference(name, "the policies that hold were changed", changes)


def _demands(held: session_policy.Policy) -> dict[str, object]:
    shapes = enumerate(map(session_policy.demand_to_json, held.demands), 1)
    return {f"demand {number}": shape for number, shape in shapes}


def _changes(
    before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    for key in dict.fromkeys((*before, *after)):
        mine, theirs = before.get(key), after.get(key)
        if mine != theirs:
            yield key, _short(mine), _short(theirs)


def _plain(value: object) -> object:
    """A manifest's value as the runtime state keeps it."""
    if isinstance(value, Waiting):
        return {
            "id": value.id,
            "reason": value.reason,
            "question": value.question,
            "opened_at": value.opened_at,
        }
    return dict(value) if isinstance(value, Mapping) else value


def _short(value: object) -> str:
    return "" if value is None else first_line(flow(value), 200)


# ── mending ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _locked(store: DiskStore, session_id: str) -> Iterator[None]:
    private = store.runtime(session_id)
    ensure_folder(private)
    with locked(private / "lock"):
        yield


def _take(place: _Place) -> None:
    """Adopt the files; what only this worktree knows of the session stays known."""
    former = Runtime.load(place.state)
    opened = session.adopt(place.folder, place.private, place.state)
    if former is not None:
        opened.runtime.agent, opened.runtime.mode = former.agent, former.mode
        opened.runtime.limits, opened.runtime.begun = former.limits, former.begun
        opened.runtime.launches, opened.runtime.failing = former.launches, former.failing
        opened.runtime.waivers, opened.runtime.findings = former.waivers, former.findings
        opened.save()
    for name in integrity.PINNED:
        remove(place.private / name)
    opened.copy()
