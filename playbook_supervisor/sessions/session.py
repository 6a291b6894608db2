"""One open session: its state, its three files, and the only way to write them.

An `OpenSession` exists only under the session's lock. `accept` takes events in, `write` makes them
durable.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry, Event, State
from playbook_supervisor.project.session_policy import Policy
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions import integrity, pinned_inputs, portable_records, serialize
from playbook_supervisor.sessions.integrity import FILES, RECORDS
from playbook_supervisor.sessions.journal import EMPTY, ParsedJournal, parse_journal
from playbook_supervisor.sessions.journal_bytes import JournalText
from playbook_supervisor.sessions.local_state import JOURNAL, Runtime, unreadable
from playbook_supervisor.sessions.manifest import (
    Driver,
    Manifest,
    emit_manifest,
    manifest_to_json,
    read_manifest,
    update_manifest,
)
from playbook_supervisor.sessions.projection import load_manifest, project
from playbook_supervisor.system.ab_file import ABFile
from playbook_supervisor.system.files import digest, read_bytes, write_atomically


class OpenSession(Record, frozen=False):
    """The session under its lock. `folder` is in the work tree, `private` in the git directory.

    `playbook` is the pinned one, tightened by `policy`.
    """

    folder: Path
    private: Path
    playbook: Playbook
    policy: Policy
    state: State
    manifest: Manifest
    text: JournalText
    runtime: Runtime
    place: ABFile
    _manifest_text: bytes = b""
    _watched: tuple[str, ...] = field(init=False)
    _seen: tuple[object, ...] = field(init=False, default=())
    _entered: tuple[Entry, ...] = field(init=False, default=())
    """The entries of the due phase that the text contains."""

    def __post_init__(self) -> None:
        self._entered = self.state.entries
        self._watched = tuple(str(self.folder / name) for name in FILES)

    @property
    def current(self) -> bool:
        """Whether no other process has changed the files."""
        return self._seen == self._look()

    @property
    def vanished(self) -> bool:
        """Whether files that this object wrote are gone, and the others unchanged."""
        seen = self._look()
        return (
            seen[:1] == self._seen[:1]
            and None in seen
            and all(now in (None, was) for now, was in zip(seen, self._seen, strict=True))
        )

    def accept(self, events: Iterable[Event]) -> None:
        """Apply events that the kernel has decided."""
        for event in events:
            evolved = machine.evolve(self.state, event)
            if evolved.past.phases > self.state.past.phases:
                self._leave_phase(self.state.with_entry(event.entry).entries)
            self.state = evolved

    def write(self, driver: Driver | None = None) -> None:
        """Write what was accepted; it is fsynced when this returns (kai NFR2).

        `driver`: also remember that the session is driven in this way. records.yaml is written
        before the journal, so that a commit of the journal has the records of its launches.

        The runtime state is written first, with the digest of the new journal. A crash between the
        two leaves the previous journal, whose digest is also recorded. session.yaml repeats the
        journal: if it cannot be written now, the next opening writes it.
        """
        self._update_text(self.state.entries)
        data = self.text.data
        journaled = digest(data)
        journal_changed = not self.runtime.latest(JOURNAL, journaled)
        if journal_changed:
            self.runtime.will_write(JOURNAL, journaled)
        records = portable_records.emit(self.runtime)
        records_changed = records and not self.runtime.latest(RECORDS, digest(records))
        if records_changed:
            self.runtime.will_write(RECORDS, digest(records))
        manifest_changed = self._project(driver or self.manifest.driver)
        self._save()
        if records_changed:
            write_atomically(self.folder / RECORDS, records, durable=False)
        if journal_changed:
            write_atomically(self.folder / JOURNAL, data)
        try:
            if manifest_changed:
                write_atomically(self.folder / "session.yaml", self._manifest_text, durable=False)
        except StorageError:
            self._seen = ()
        else:
            self._seen = self._look()

    def save(self) -> None:
        """Write the runtime state alone, when nothing has been accepted."""
        self._save()
        self._seen = self._look()

    def copy(self) -> None:
        """Keep copies of the files in the git directory; they need not survive a crash."""
        write_atomically(self.private / JOURNAL, self.text.data, durable=False)
        write_atomically(self.private / "session.yaml", self._manifest_text, durable=False)
        for name in integrity.PINNED:
            copy = self.private / name
            if name in self.runtime.digests and not copy.exists():
                write_atomically(copy, read_bytes(self.folder / name), durable=False)

    def entry(self, attempt_id: str) -> Entry:
        """The entry of an attempt of the due phase; KeyError if there is none."""
        for entry in self.state.entries:
            if entry.id == attempt_id:
                return entry
        raise KeyError(attempt_id)

    def _leave_phase(self, entries: tuple[Entry, ...]) -> None:
        self._update_text(entries)
        self.runtime.chain = integrity.chain(self.runtime.chain, entries)
        self.runtime.launches.clear()
        self.runtime.failing.clear()
        self.text, self._entered = self.text.settled(), ()

    def _update_text(self, entries: tuple[Entry, ...]) -> None:
        for index, entry in enumerate(entries):
            if index == len(self._entered):
                self.text = self.text.with_new(entry)
            elif entry is not (before := self._entered[index]):
                self.text = self.text.with_entry(index, before, entry)
            else:
                continue
            self._entered = (*self._entered[:index], entry, *self._entered[index + 1 :])

    def _project(self, driver: Driver) -> bool:
        projected = replace(project(self.manifest, self.state), driver=driver)
        if projected == self.manifest:
            return False
        self._manifest_text = update_manifest(self._manifest_text, self.manifest, projected)
        self.manifest = projected
        self.runtime.will_write("session.yaml", digest(self._manifest_text))
        return True

    def _save(self) -> None:
        self.runtime.state = serialize.state_to_json(self.state)
        self.runtime.text = self.text.places()
        self.runtime.manifest = manifest_to_json(self.manifest)
        self.runtime.save(self.place)

    def _look(self) -> tuple[object, ...]:
        return (self.place.headers(), *map(_signature, self._watched))


# ── from the disk ───────────────────────────────────────────────────────────────────────────


def load(folder: Path, private: Path, runtime: Runtime, place: ABFile) -> OpenSession:
    """The session from its files and the runtime state, whose data must agree.

    StateError `PB-STATE-TAMPERED` if something else changed data. Changes of comments and layout
    are accepted, and what a crash left unfinished is finished.
    """
    known = {name: list(digests) for name, digests in runtime.digests.items()}
    playbook, policy = pinned_inputs.load(folder, private, runtime)
    try:
        state, text = _load_journal(folder, private, playbook, runtime)
        manifest, data = load_manifest(folder, runtime)
        portable_records.load(folder, runtime)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(place, str(error)) from error
    opened = OpenSession(
        folder, private, playbook, policy, state, manifest, text, runtime, place, data
    )
    if runtime.digests != known or project(manifest, state) != manifest:
        opened.write()
    else:
        opened._seen = opened._look()
    return opened


def create(
    folder: Path,
    private: Path,
    place: ABFile,
    runtime: Runtime,
    manifest: Manifest,
    playbook: Playbook,
    policy: Policy,
) -> OpenSession:
    """A new session, whose pinned files are written. `playbook` is tightened by `policy`."""
    manifest_text = emit_manifest(manifest)
    write_atomically(folder / JOURNAL, EMPTY)
    write_atomically(folder / "session.yaml", manifest_text)
    runtime.chain = integrity.chain("", ())
    runtime.digests[JOURNAL] = [digest(EMPTY)]
    runtime.digests["session.yaml"] = [digest(manifest_text)]
    state, text = machine.replay(playbook, ()), JournalText()
    opened = OpenSession(
        folder, private, playbook, policy, state, manifest, text, runtime, place, manifest_text
    )
    opened.write()
    return opened


def adopt(folder: Path, private: Path, place: ABFile) -> OpenSession:
    """The session from its files alone: this worktree has no runtime state of it."""
    runtime = Runtime()
    playbook, policy = pinned_inputs.load(folder, private, runtime)
    data = integrity.read_file(folder, JOURNAL)
    parsed = parse_journal(data, integrity.shown(folder, JOURNAL))
    state = machine.replay(playbook, parsed.entries)
    due = len(state.entries)
    runtime.chain = integrity.chain("", parsed.entries[: len(parsed.entries) - due])
    runtime.digests[JOURNAL] = [digest(data)]
    portable_records.adopt(folder, runtime, [entry.id for entry in state.entries])
    manifest_text = integrity.read_file(folder, "session.yaml")
    known = read_manifest(manifest_text, integrity.shown(folder, "session.yaml"))
    runtime.digests["session.yaml"] = [digest(manifest_text)]
    text = JournalText.parsed(data, parsed, due)
    opened = OpenSession(
        folder, private, playbook, policy, state, known, text, runtime, place, manifest_text
    )
    opened.write()
    return opened


def _load_journal(
    folder: Path, private: Path, playbook: Playbook, runtime: Runtime
) -> tuple[State, JournalText]:
    """The recorded state, which the journal must agree with, and the journal's text."""
    data = integrity.read_file(folder, JOURNAL)
    written = digest(data)
    if not runtime.ours(JOURNAL, written):
        parsed = _read_edited(data, private, playbook, runtime, integrity.shown(folder, JOURNAL))
        state = serialize.state_from_json(runtime.state, playbook)
        runtime.digests[JOURNAL] = [written]
        return state, JournalText.parsed(data, parsed, len(state.entries))
    if not runtime.latest(JOURNAL, written):
        runtime.step_back()
    return serialize.state_from_json(runtime.state, playbook), JournalText.placed(
        data, runtime.text
    )


def _read_edited(
    data: bytes, private: Path, playbook: Playbook, runtime: Runtime, source: str
) -> ParsedJournal:
    """A journal that something else wrote; its data must be those of the last one or the former.

    StateError `PB-STATE-TAMPERED` if they are not.
    """
    parsed = parse_journal(data, source)

    def difference() -> str:
        recorded = serialize.state_from_json(runtime.state, playbook)
        copy = private / JOURNAL
        return integrity.journal_difference(recorded, runtime.chain, parsed.entries, copy)

    found = difference()
    if found and runtime.former:
        runtime.step_back()
        found = found if difference() else ""
    found = found or integrity.wrong_duration(data, parsed.entries, source)
    if found:
        raise integrity.tampered(found, source)
    return parsed


def _signature(path: str) -> tuple[int, ...] | None:
    """Changes with every write of the file, even if its times were reset."""
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size
