"""Merges two copies of one session's folder: all entries, and every note of a person.

A journal only grows, so one copy continues the other. A file that a person did not touch is taken
over as it is; where one copy has comments or keys of a person, those stay byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.strict_yaml import load_of_session
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.sessions.files.integrity import RECORDS, pinned
from playbook_supervisor.sessions.files.journal import (
    EMPTY,
    HEADER,
    JournalText,
    emit_entry,
    parse_journal,
)
from playbook_supervisor.sessions.files.local_state import JOURNAL
from playbook_supervisor.sessions.files.manifest import (
    emit_manifest,
    read_manifest,
    update_manifest,
)

Files = Mapping[str, bytes]  # path, relative to the session's folder → content

_MANIFEST = "session.yaml"
_RECORDED = (RECORDS, "outputs/")  # what this program alone writes beside the journal


@dataclass(frozen=True, slots=True)
class Merge:
    """The files that one copy lacks of the other, or a sentence for each that differs."""

    writes: Files
    conflicts: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.writes and not self.conflicts


class _ConflictError(ValueError):  # two files that cannot be merged, in a sentence
    pass


def merge(ours: Files, theirs: Files, known: Callable[[str, bytes], bool]) -> Merge:
    """The files to write into the copy `theirs`, so that it holds all of `ours`. `known` tells
    an earlier version of our file, in which nothing is a person's that ours lacks."""
    writes, conflicts = {}, []
    try:
        ahead = _is_ahead(ours.get(JOURNAL, b""), theirs.get(JOURNAL, b""))
    except _ConflictError as conflict:
        return Merge({}, (f"{JOURNAL}: {conflict}",))
    for name, mine in sorted(ours.items()):
        other = theirs.get(name)
        if other is None or (mine.strip() and not other.strip()):
            writes[name] = mine
        elif mine != other and not known(name, other if ahead else mine):
            try:
                merged = _merged(name, mine, other, known, ahead=ahead)
            except _ConflictError as conflict:
                conflicts.append(f"{name}: {conflict}")
            else:
                if merged != other:
                    writes[name] = merged
        elif mine != other and ahead:
            writes[name] = mine
    return Merge(writes, tuple(conflicts))


def is_older(one: bytes, other: bytes) -> bool:
    """True if the other journal continues this one; not if one cannot be read, or both differ."""
    try:
        return not _is_ahead(one, other)
    except _ConflictError:
        return False


def _merged(
    name: str, mine: bytes, other: bytes, known: Callable[[str, bytes], bool], *, ahead: bool
) -> bytes:
    older, newer = (other, mine) if ahead else (mine, other)
    if name == JOURNAL:
        return _merged_journal(older, newer)
    if name == _MANIFEST:
        return _merged_manifest(older, newer)
    if name.startswith(_RECORDED):
        return newer
    if pinned([name]) and known(name, mine) and _data(mine, name) == _data(other, name):
        return other
    raise _ConflictError("it differs")


def _data(content: bytes, name: str) -> object:
    try:
        return load_of_session(content, name).data
    except StateError as error:
        raise _ConflictError(_unreadable(error)) from error


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A journal's text: before its entries, each entry with the comments after it, and the rest."""

    head: bytes
    each: tuple[bytes, ...]
    rest: bytes
    indent: int
    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, data: bytes) -> _Pieces:
        try:
            parsed = parse_journal(data, JOURNAL)
        except StateError as error:
            raise _ConflictError(_unreadable(error)) from error
        text = JournalText.parsed(data, parsed, len(parsed.entries))
        start, stop = text.hollow
        head = text.past[:start] + text.past[stop:] if stop else text.past
        each = tuple(map(_ended, text.due))
        return cls(_ended(head), each, text.rest, text.indent, parsed.entries)


def _is_ahead(ours: bytes, theirs: bytes) -> bool:
    if not ours.strip() or not theirs.strip():
        return bool(ours.strip()) or not theirs.strip()
    mine, other = _Pieces.of(ours).entries, _Pieces.of(theirs).entries
    if _continues(mine, other):
        return True
    if _continues(other, mine):
        return False
    pairs = zip_longest(mine, other)
    differing = next(one or two for one, two in pairs if one != two)
    raise _ConflictError(f"the entry {differing.id if differing else ''} differs")


def _continues(newer: tuple[Entry, ...], older: tuple[Entry, ...]) -> bool:
    return len(newer) >= len(older) and all(map(_may_become, older, newer))


def _may_become(before: Entry, after: Entry) -> bool:
    """True if an entry may have changed so: open ones do, and failed ones that are taken up."""
    if before == after:
        return True
    if (before.id, before.started_at) != (after.id, after.started_at):
        return False
    return not before.settled or before.status is after.status is EntryStatus.FAILED


def _merged_journal(older: bytes, newer: bytes) -> bytes:
    before, after = _Pieces.of(older), _Pieces.of(newer)
    if not after.entries:
        return _with_notes("it", older, newer, EMPTY, EMPTY, older)
    pieces = [_with_notes("its beginning", before.head, after.head, HEADER, HEADER, before.head)]
    for index, entry in enumerate(after.entries):
        text = after.each[index]
        if index < len(before.entries):
            former, former_text = before.entries[index], before.each[index]
            plain = emit_entry(former, indent=before.indent), emit_entry(entry, indent=after.indent)
            edited = former_text
            if former != entry:
                known = JournalText(due=(former_text,), indent=before.indent)
                edited = known.with_entry(0, former, entry).due[0]
            text = _with_notes(f"the entry {entry.id}", former_text, text, *plain, edited)
        pieces.append(_ended(text))
    pieces.append(_with_notes("its end", before.rest, after.rest, b"", b"", before.rest))
    merged = b"".join(pieces)
    if _Pieces.of(merged).entries != after.entries:
        raise _ConflictError("its layout was changed")
    return merged


def _with_notes(
    what: str, older: bytes, newer: bytes, plain_older: bytes, plain_newer: bytes, edited: bytes
) -> bytes:
    """The newer text, or the older one, `edited` to say the same, if that has a person's notes."""
    if older == newer or _same_lines(older, plain_older):
        return newer
    if _same_lines(newer, plain_newer):
        return edited
    raise _ConflictError(f"{what} has notes in both")


def _same_lines(one: bytes, other: bytes) -> bool:
    return one.replace(b"\r\n", b"\n") == other


def _ended(text: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _merged_manifest(older: bytes, newer: bytes) -> bytes:
    try:
        before, after = read_manifest(older, _MANIFEST), read_manifest(newer, _MANIFEST)
    except StateError as error:
        raise _ConflictError(_unreadable(error)) from error
    if (before.session_id, before.started_at) != (after.session_id, after.started_at):
        raise _ConflictError("it is another session's")
    edited = update_manifest(older, before, after)
    return _with_notes("it", older, newer, emit_manifest(before), emit_manifest(after), edited)


def _unreadable(error: StateError) -> str:
    return f"it cannot be read: {error.message} ({error.where})"
