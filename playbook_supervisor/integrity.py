"""Whether the files are still what we wrote, and what to do when they are not.

Data are the keys of our vocabulary and the order of entries. Comments, layout and keys that we do
not know are a person's notes and never a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from playbook_supervisor import wire
from playbook_supervisor.errors import StateError
from playbook_supervisor.files import digest, read_bytes, write_atomically
from playbook_supervisor.journal import MAX_BYTES, Parsed, entry_mapping
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.manifest import Manifest


def chain(former: str, entries: Iterable[Entry]) -> str:
    """A digest over the data of entries, to be continued: settled ones never change again."""
    for entry in entries:
        data = json.dumps(wire.entry_to_json(entry), sort_keys=True, separators=(",", ":"))
        former = digest(f"{former}\n{data}".encode())
    return former


def same_journal(recorded: State, chained: str, parsed: Parsed, data: bytes, source: str) -> None:
    """Raise StateError `PB-STATE-TAMPERED`, naming the entry, if the journal's data changed."""
    past = recorded.past.entries
    entries = parsed.entries
    for index, duration in _stated_durations(data, source):
        if entry_mapping(entries[index]).get("duration_seconds") != duration:
            raise tampered(f"the duration of {entries[index].id} was changed", source)
    for known, found in zip(recorded.entries, entries[past:], strict=False):
        if known != found:
            raise tampered(f"the entry {known.id} was changed: {_changed(known, found)}", source)
    if len(entries) > past + len(recorded.entries):
        added = entries[past + len(recorded.entries)].id
        raise tampered(f"the entry {added} was added by something else", source)
    if len(entries) < past + len(recorded.entries):
        raise tampered("entries were removed", source)
    if chain("", entries[:past]) != chained:
        raise tampered(f"one of the first {past} entries was changed", source)


def _stated_durations(data: bytes, source: str) -> Iterator[tuple[int, object]]:
    """(index, seconds) where an entry states its duration: it is derived, so it may lie."""
    from playbook_supervisor.strict_yaml import Plain, load

    top: Any = load(data, source, limit=MAX_BYTES).data
    for index, entry in enumerate(top["entries"]):
        stated = entry.get("duration_seconds", "")
        if stated:
            yield index, stated.value if isinstance(stated, Plain) else stated


def same_manifest(recorded: Manifest, found: Manifest, source: str) -> None:
    """Raise StateError `PB-STATE-TAMPERED` if the manifest's data changed."""
    if recorded != found:
        raise tampered(f"it was changed by something else: {_changed(recorded, found)}", source)


def tampered(message: str, source: str) -> StateError:
    """The error that stops every command until a person has looked."""
    return StateError("PB-STATE-TAMPERED", message, where=source)


def restore_missing(folder: Path, private: Path) -> list[str]:
    """Put back from the copies what has vanished from the session's folder; returns the names."""
    restored = []
    for name in ("session.yaml", "journal.yaml", "playbook.yaml"):
        if (folder / name).exists() or not (private / name).exists():
            continue
        write_atomically(folder / name, read_bytes(private / name))
        restored.append(name)
    return restored


def _changed(known: Entry | Manifest, found: Entry | Manifest) -> str:
    """The first key in which two records of one kind differ, with both values."""
    for key in fields(known):
        mine, theirs = getattr(known, key.name), getattr(found, key.name)
        if mine != theirs:
            return f"{key.name} was {_short(mine)} and is {_short(theirs)}"
    return "nothing"


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, Sequence) else str(value)
    return repr(value if isinstance(value, str) else text)[:80]
