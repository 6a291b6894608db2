"""One open session: its state, its three files, and the one way to write them.

Whoever holds an `OpenSession` holds the session's lock. `accept` takes in what follows from an
observation, `write` takes it to the disk; nothing else does.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from playbook_supervisor import integrity, kernel, wire
from playbook_supervisor.files import digest, read_bytes, write_atomically
from playbook_supervisor.journal import parse_journal
from playbook_supervisor.journal_text import JournalText
from playbook_supervisor.kernel import gates, phases
from playbook_supervisor.kernel.directives import Ask, Observation
from playbook_supervisor.kernel.state import Entry, Event, State
from playbook_supervisor.manifest import (
    Manifest,
    Waiting,
    read_manifest,
    update_manifest,
)
from playbook_supervisor.model import Playbook
from playbook_supervisor.runtime import Runtime
from playbook_supervisor.vocabulary import SessionStatus

FILES: Final = ("session.yaml", "journal.yaml", "playbook.yaml")
_ENDED: Final = frozenset({SessionStatus.COMPLETED, SessionStatus.FAILED, SessionStatus.ABORTED})


@dataclass(slots=True)
class OpenSession:
    """The session under its lock. `folder` is in the work tree, `private` in the git directory."""

    folder: Path
    private: Path
    playbook: Playbook
    state: State
    manifest: Manifest
    text: JournalText
    runtime: Runtime
    _manifest_text: bytes = b""
    _seen: tuple[object, ...] = ()

    @property
    def id(self) -> str:
        return self.manifest.session_id

    def current(self) -> bool:
        """Whether the files are still those that this object last saw."""
        return self._seen == self._look()

    def accept(self, observation: Observation) -> tuple[Event, ...]:
        """Take in the facts that follow from an observation; `write` makes them durable.

        StateError `PB-STATE-REFUSED` if it answers nothing, and then nothing has changed.
        """
        events = kernel.decide(self.state, observation)
        for event in events:
            self._take_in(event)
        return events

    def write(self) -> None:
        """What was accepted is on the disk, fsynced, when this returns (kai NFR2).

        The runtime state goes first and names the journal that is to come: a crash between the
        two leaves the former journal, known as ours.
        """
        journaled = digest(self.text.data)
        grown = self.runtime.digests["journal.yaml"][-1] != journaled
        if grown:
            self.runtime.will_write("journal.yaml", journaled)
        changed = self._project()
        self.save()
        if grown:
            write_atomically(self.folder / "journal.yaml", self.text.data)
        if changed:
            write_atomically(self.folder / "session.yaml", self._manifest_text, durable=False)
        self._seen = self._look()

    def save(self) -> None:
        """Write the runtime state."""
        self.runtime.state = wire.state_to_json(self.state)
        self.runtime.text = self.text.places()
        self.runtime.manifest = asdict(self.manifest)
        self.runtime.save(self.private / "runtime.json")
        self._seen = self._look()

    def copy(self) -> None:
        """Keep copies of the files out of a worker's reach; not durable, they are a comfort."""
        write_atomically(self.private / "journal.yaml", self.text.data, durable=False)
        write_atomically(self.private / "session.yaml", self._manifest_text, durable=False)
        pinned = self.private / "playbook.yaml"
        if not pinned.exists():
            write_atomically(pinned, read_bytes(self.folder / "playbook.yaml"), durable=False)

    def entry(self, attempt_id: str) -> Entry:
        """The entry of an attempt of the due phase; KeyError if there is none."""
        for entry in self.state.entries:
            if entry.id == attempt_id:
                return entry
        raise KeyError(attempt_id)

    def _take_in(self, event: Event) -> None:
        entries = self.state.entries
        index = next((i for i, known in enumerate(entries) if known.id == event.entry.id), None)
        if index is None:
            self.text = self.text.with_new(event.entry)
        else:
            self.text = self.text.with_entry(index, entries[index], event.entry)
        evolved = kernel.evolve(self.state, event)
        if evolved.past.phases > self.state.past.phases:
            self._leave_behind(self.state.with_entry(event.entry).entries)
        self.state = evolved

    def _leave_behind(self, entries: tuple[Entry, ...]) -> None:
        self.runtime.chain = integrity.chain(self.runtime.chain, entries)
        self.runtime.launches.clear()
        self.runtime.failing.clear()
        self.text = self.text.settled()

    def _project(self) -> bool:
        projected = project(self.manifest, self.state)
        if projected == self.manifest:
            return False
        self._manifest_text = update_manifest(self._manifest_text, self.manifest, projected)
        self.manifest = projected
        self.runtime.will_write("session.yaml", digest(self._manifest_text))
        return True

    def _look(self) -> tuple[object, ...]:
        paths = [self.private / "runtime.json", *(self.folder / name for name in FILES)]
        return tuple(_signature(path) for path in paths)


def load(folder: Path, private: Path, runtime: Runtime) -> OpenSession:
    """The session as its files and the runtime state say, which must agree in their data.

    StateError `PB-STATE-TAMPERED` if something else changed data; what a person changed in
    comments and layout is taken silently, and what a crash left unfinished is finished.
    """
    playbook = _pinned(folder, private, runtime)
    state, text = _journaled(folder, playbook, runtime)
    recorded = _manifest_from_json(runtime.manifest)
    data = read_bytes(folder / "session.yaml")
    written = digest(data)
    known = recorded
    if runtime.digests["session.yaml"][-1:] != [written]:
        known = read_manifest(data, _shown(folder, "session.yaml"))
        if not runtime.ours("session.yaml", written):
            integrity.same_manifest(recorded, known, _shown(folder, "session.yaml"))
        runtime.digests["session.yaml"] = [written]
    opened = OpenSession(folder, private, playbook, state, known, text, runtime, data)
    opened.write()
    return opened


def adopt(folder: Path, private: Path) -> OpenSession:
    """The session as its files say, where this worktree knows nothing of it."""
    runtime = Runtime()
    playbook = _pinned(folder, private, runtime)
    data = read_bytes(folder / "journal.yaml")
    parsed = parse_journal(data, _shown(folder, "journal.yaml"))
    state = kernel.replay(playbook, parsed.entries)
    due = len(state.entries)
    runtime.chain = integrity.chain("", parsed.entries[: len(parsed.entries) - due])
    runtime.digests["journal.yaml"] = [digest(data)]
    manifest_text = read_bytes(folder / "session.yaml")
    known = read_manifest(manifest_text, _shown(folder, "session.yaml"))
    runtime.digests["session.yaml"] = [digest(manifest_text)]
    text = JournalText.parsed(data, parsed, due)
    opened = OpenSession(folder, private, playbook, state, known, text, runtime, manifest_text)
    opened.write()
    return opened


def project(manifest: Manifest, state: State) -> Manifest:
    """The manifest with what the journal says: `status`, `current_step`, `gate`, the end."""
    status = kernel.status(state)
    asked = kernel.directive(state)
    waiting = None
    if isinstance(asked, Ask):
        entry = state.attempts(asked.member.step.id)[-1]
        waiting = Waiting(
            id=asked.id,
            reason=asked.reason.value,
            question=question(state, asked),
            opened_at=entry.gates[-1].opened_at,
        )
    return replace(
        manifest,
        status=status,
        current_step=phases.current_step(state),
        completed_at=state.latest if status in _ENDED else None,
        gate=waiting,
    )


def question(state: State, asked: Ask) -> str:
    """The question of the gate that is being asked."""
    entry = state.attempts(asked.member.step.id)[-1]
    return gates.question(
        asked, entry, done=kernel.steps_done(state), total=len(state.playbook.steps)
    )


def _journaled(folder: Path, playbook: Playbook, runtime: Runtime) -> tuple[State, JournalText]:
    data = read_bytes(folder / "journal.yaml")
    written = digest(data)
    recorded = wire.state_from_json(runtime.state, playbook)
    if runtime.digests["journal.yaml"][-1:] == [written]:
        return recorded, JournalText.placed(data, runtime.text)
    source = _shown(folder, "journal.yaml")
    parsed = parse_journal(data, source)
    if not runtime.ours("journal.yaml", written):
        integrity.same_journal(recorded, runtime.chain, parsed, data, source)
    state = kernel.replay(playbook, parsed.entries)
    due = len(state.entries)
    runtime.chain = integrity.chain("", parsed.entries[: len(parsed.entries) - due])
    runtime.digests["journal.yaml"] = [written]
    return state, JournalText.parsed(data, parsed, due)


def _pinned(folder: Path, private: Path, runtime: Runtime) -> Playbook:
    """The playbook that the session began with; compiled beside the runtime state."""
    data = read_bytes(folder / "playbook.yaml")
    written = digest(data)
    compiled = private / "compiled.json"
    former = _compiled(compiled)
    if former and former["digest"] == written:
        return wire.playbook_from_json(former["playbook"])
    from playbook_supervisor.schema import read_playbook

    source = _shown(folder, "playbook.yaml")
    playbook = read_playbook(data, source)
    known = runtime.digests.get("playbook.yaml")
    if former and known and wire.playbook_from_json(former["playbook"]) != playbook:
        raise integrity.tampered("the pinned playbook was changed by something else", source)
    runtime.digests["playbook.yaml"] = [written]
    made = {"digest": written, "playbook": wire.playbook_to_json(playbook)}
    write_atomically(compiled, json.dumps(made, separators=(",", ":")).encode(), durable=False)
    return playbook


def _compiled(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(read_bytes(path))
    except (FileNotFoundError, ValueError):
        return None
    return data if isinstance(data, dict) and data.keys() >= {"digest", "playbook"} else None


def _manifest_from_json(data: dict[str, Any]) -> Manifest:
    gate = Waiting(**data["gate"]) if data["gate"] else None
    return Manifest(**{**data, "status": SessionStatus(data["status"]), "gate": gate})


def _signature(path: Path) -> tuple[int, ...] | None:
    """What changes whenever a file is written: also where its times were put back."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size


def _shown(folder: Path, name: str) -> str:
    return Path(*folder.parts[-3:], name).as_posix()
