"""One open session: its state, its files, and the only way to write them.

An `OpenSession` exists only under the session's lock. `accept` takes events in, `write` makes them
durable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.state import Entry, Event, State
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.project.settings import session_settings
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions.files import (
    integrity,
    local_state,
    pinned_inputs,
    portable_records,
    serialize,
)
from playbook_supervisor.sessions.files.integrity import FILES, RECORDS
from playbook_supervisor.sessions.files.journal import JournalText
from playbook_supervisor.sessions.files.local_state import JOURNAL, Runtime
from playbook_supervisor.sessions.files.manifest import (
    Confirmation,
    Driver,
    Manifest,
    manifest_to_json,
    update_manifest,
)
from playbook_supervisor.sessions.files.pinned_inputs import Pinned
from playbook_supervisor.sessions.files.projection import project
from playbook_supervisor.sessions.files.session_branch import Standing
from playbook_supervisor.sessions.steps.output_files import LoopFile, StepData
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import digest, write_atomically


class Written(Record):
    """The content of the disk after a write: the runtime state, and the files that belong to it."""

    runtime: bytes
    journal: JournalText
    manifest: bytes


class OpenSession(Record, frozen=False):
    """The session under its lock. `folder` is in the work tree, `private` in the git directory;
    both are that where another branch is checked out (`standing`). `copied`: what was written last
    has copies there. `_entered` are the entries of the due phase that the text contains,
    `unwritten` the outputs of steps by their paths in the folder. `notices` say what could not be
    written, and is not needed."""

    folder: Path
    private: Path
    pinned: Pinned
    state: State
    manifest: Manifest
    text: JournalText
    runtime: Runtime
    place: ABFile
    _manifest_text: bytes = b""
    written: Written = field(init=False, default=Written(b"", JournalText(), b""))
    _seen: tuple[object, ...] = field(init=False, default=())
    copied: bool = field(init=False, default=False)
    _entered: tuple[Entry, ...] = field(init=False, default=())
    unwritten: dict[str, StepData | LoopFile] = field(init=False, default_factory=dict)
    standing: Standing = field(init=False, default=Standing())
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._entered = self.state.entries

    def bind_steps(self, bind: Callable[[Step], Step]) -> None:
        playbook = replace(self.playbook, bind=bind)
        self.pinned = replace(self.pinned, playbook=playbook)
        self.state = replace(self.state, playbook=playbook)

    @property
    def playbook(self) -> Playbook:
        """The pinned one, tightened by the policies."""
        return self.pinned.playbook

    @property
    def policy(self) -> Policy:
        return self.pinned.policy

    @property
    def config(self) -> Config:
        """The settings in force, with the isolation that the run was given."""
        return self.pinned.config.isolated(self.manifest.driver.isolation)

    @property
    def current(self) -> bool:
        return self.place.unchanged and self._seen == self._look()

    @property
    def vanished(self) -> bool:
        """True if files that this object wrote are gone, and the others unchanged."""
        seen = self._look()
        return (
            self.place.unchanged
            and bool(self._seen)
            and None in seen
            and all(now in (None, was) for now, was in zip(seen, self._seen, strict=True))
        )

    def stands(self, now: Standing, head: str) -> None:
        """Note how the session stands to what is checked out, and follow its branch's new name."""
        self.standing = now
        if not now.instead:
            self.runtime.head = head or self.runtime.head
            self.restate(replace(self.manifest, branch=now.branch))

    def accept(self, events: Iterable[Event]) -> None:
        for event in events:
            evolved = machine.evolve(self.state, event)
            if evolved.past.entries > self.state.past.entries:
                entries = self.state.with_entry(event.entry).entries
                self._update_text(entries)
                local_state.keep_settled(self.private, self.runtime, entries)
                self.runtime.launches.clear()
                self.runtime.failing.clear()
                self.text, self._entered = self.text.settled(), ()
            self.state = evolved

    def keep(self, output: StepData | LoopFile) -> None:
        """Let a later step read this output; `write` makes it durable, before the journal."""
        self.unwritten[output.file] = output

    def write(self, driver: Driver | None = None, *, launching: bool = True) -> None:
        """Write what was accepted; it is fsynced when this returns (kai NFR2).

        `driver`: also remember that the session is driven in this way. Unless it may be `launching`
        work, a journal that is in place counts even if the disk did not sync it. records.yaml and
        the outputs of steps are written before the journal, so that a commit of it has both.

        The runtime state is written first, with the digest of the new journal. A crash between the
        two leaves the previous journal, whose digest is also recorded. session.yaml repeats the
        journal: if it cannot be written now, the next opening writes it.
        """
        self._update_text(self.state.entries)
        data = self.text.data
        journaled = digest(data)
        journal_changed = not self.runtime.latest(JOURNAL, journaled)
        if self.folder == self.private and not self.runtime.away:
            digests = self.runtime.digests
            names = (name for name in (JOURNAL, "session.yaml", RECORDS) if name in digests)
            self.runtime.away = {name: digests[name][-1] for name in names}
        if journal_changed:
            self.runtime.will_write(JOURNAL, journaled)
        records = portable_records.emit(self.runtime)
        records_changed = records and not self.runtime.latest(RECORDS, digest(records))
        if records_changed:
            self.runtime.will_write(RECORDS, digest(records))
        projected = project(self.manifest, self.state)
        self.restate(replace(projected, driver=driver or self.manifest.driver))
        stated = digest(self._manifest_text)
        manifest_changed = not self.runtime.latest("session.yaml", stated)
        if manifest_changed:
            self.runtime.will_write("session.yaml", stated)
        outputs = {name: output.emit() for name, output in self.unwritten.items()}
        for name, output in outputs.items():
            self.runtime.will_write(name, digest(output))
        self._save()
        self._write_outputs(outputs)
        if records_changed:
            write_atomically(self.folder / RECORDS, records, durable=False)
        if journal_changed:
            self._write_journal(data, durable=launching)
        try:
            if manifest_changed:
                write_atomically(self.folder / "session.yaml", self._manifest_text, durable=False)
        except StorageError as error:
            said = "recorded, but session.yaml is older until the next command"
            self.notices.append(f"{said}: {error.message}")
            self.note()
            self._seen = ()
        else:
            self.note()

    def _write_outputs(self, outputs: Mapping[str, bytes]) -> None:
        for name, output in outputs.items():
            integrity.write_inside(self.private, name, output, durable=False)
            integrity.write_inside(self.folder, name, output)
        self.unwritten.clear()

    def _write_journal(self, data: bytes, *, durable: bool) -> None:
        try:
            write_atomically(self.folder / JOURNAL, data)
        except StorageError as error:
            if durable or integrity.read_file(self.folder, JOURNAL) != data:
                raise
            self.notices.append(f"recorded, but a power cut may lose it: {error.message}")

    def note(self) -> None:
        """Remember what is on the disk now as what this process wrote or accepted."""
        self.written = Written(self.place.content, self.text, self._manifest_text)
        self._seen, self.copied = self._look(), False

    def expect(self) -> None:
        """Let the runtime state be what another process will have written of this state."""
        self.runtime.expect()
        self.restate(project(self.manifest, self.state))
        self._record()
        if records := portable_records.emit(self.runtime):
            self.runtime.will_write(RECORDS, digest(records))

    def save(self) -> None:
        """Write the runtime state alone, when nothing has been accepted."""
        self._save()
        self.note()

    def copy(self) -> None:
        """Keep copies of the files in the git directory; they need not survive a crash. A copy that
        cannot be written is left out, since the files themselves are on the disk."""
        try:
            write_atomically(self.private / JOURNAL, self.text.data, durable=False)
            write_atomically(self.private / "session.yaml", self._manifest_text, durable=False)
            for name, data in self.pinned.files.items():
                if not (self.private / name).exists():
                    integrity.write_inside(self.private, name, data, durable=False)
            integrity.copy_outputs(self.folder, self.private, self.runtime.digests)
            self.copied = True
        except StorageError as error:
            said = "recorded, but the copies in the git directory are older"
            self.notices.append(f"{said}: {error.message}")

    def pin_settings(self, data: bytes | None = None) -> None:
        """Run under the project's present settings from now on, or under these."""
        data = session_settings.text(self.folder.parents[2]) if data is None else data
        config = pinned_inputs.replace_settings(
            self.folder, self.private, self.runtime, data, self._save
        )
        files = {**self.pinned.files, session_settings.FILE: data}
        self.pinned = replace(self.pinned, config=config, files=files)
        self.save()

    def confirm(self, accepted: Confirmation) -> None:
        """Record in session.yaml what a person accepted; `write` makes it durable."""
        confirmed = (*self.manifest.confirmed, accepted)
        self.restate(replace(self.manifest, confirmed=confirmed))

    def entry(self, attempt_id: str) -> Entry:
        """The entry of an attempt of the due phase; KeyError if there is none."""
        return {entry.id: entry for entry in self.state.entries}[attempt_id]

    def _update_text(self, entries: tuple[Entry, ...]) -> None:
        for index, entry in enumerate(entries):
            if index == len(self._entered):
                self.text = self.text.with_new(entry)
            elif entry is not (before := self._entered[index]):
                self.text = self.text.with_entry(index, before, entry)
            else:
                continue
            self._entered = (*self._entered[:index], entry, *self._entered[index + 1 :])

    def restate(self, manifest: Manifest) -> None:
        """Let session.yaml say this; `write` makes it durable."""
        if manifest != self.manifest:
            self._manifest_text = update_manifest(self._manifest_text, self.manifest, manifest)
            self.manifest = manifest

    def _save(self) -> None:
        self._record()
        self.runtime.save(self.place)

    def _record(self) -> None:
        self.runtime.state = serialize.state_to_json(self.state)
        self.runtime.text = self.text.places()
        self.runtime.manifest = manifest_to_json(self.manifest)

    def _look(self) -> tuple[object, ...]:
        watched = (*FILES, *integrity.nested(self.runtime.digests))
        return tuple(_signature(str(self.folder / name)) for name in watched)


def _signature(path: str) -> tuple[int, ...] | None:
    """Changes with every write of the file, even if its times were reset."""
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size
