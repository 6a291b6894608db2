"""Opening a session: from its files and what was recorded of them, or from its files alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, PolicyError, StateError, StorageError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import Answered, Ask
from playbook_supervisor.kernel.model import FIRST_VERSION, Playbook
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import integrity, pinned_inputs, portable_records, serialize
from playbook_supervisor.sessions.files.journal import (
    EMPTY,
    JournalText,
    ParsedJournal,
    parse_journal,
)
from playbook_supervisor.sessions.files.local_state import (
    JOURNAL,
    NAME,
    Runtime,
    keep_settled,
    unreadable,
)
from playbook_supervisor.sessions.files.manifest import (
    SESSION_ID,
    Confirmation,
    Manifest,
    emit_manifest,
    manifest_from_json,
    read_manifest,
)
from playbook_supervisor.sessions.files.pinned_inputs import Pinned
from playbook_supervisor.sessions.files.projection import load_manifest, project
from playbook_supervisor.sessions.steps import output_files
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import (
    assembled,
    digest,
    ensure_folder,
    locked,
    put_aside,
    read_bytes,
    remove,
    unfinished,
    write_atomically,
)
from playbook_supervisor.system.git.checkout import Checkout


def on_disk(folder: Path, place: ABFile) -> Runtime | None:
    """The runtime state that belongs to the journal as it is; None if it cannot be read. If the
    last write ended before the journal, that is the former state. It may have been written while
    another branch was checked out than the session's: the copies then count."""
    try:
        runtime = Runtime.load(place)
        if runtime is None:
            return None
        journal = digest(read_bytes(folder / JOURNAL))
        if runtime.away and journal == runtime.away.get(JOURNAL):
            journal = digest(read_bytes(place.path.parent / JOURNAL))
        if _lags(runtime, journal):
            runtime.step_back()
    except FileNotFoundError:
        return runtime
    except PlaybookError:
        return None
    return runtime


def load(folder: Path, private: Path, runtime: Runtime, place: ABFile) -> OpenSession:
    """The session from its files and the runtime state, whose data must agree: StateError
    `PB-STATE-TAMPERED`. What a crash left unfinished is finished."""
    known = {name: list(digests) for name, digests in runtime.digests.items()}
    pinned = pinned_inputs.load(folder, private, runtime)
    try:
        recorded = manifest_from_json(runtime.manifest)
        pinned = _bound(pinned, recorded)
        state, text = _load_journal(folder, private, pinned.playbook, runtime)
        manifest, data = load_manifest(folder, runtime)
        portable_records.load(folder, runtime)
        if integrity.outputs(runtime.digests):
            output_files.require_unchanged(folder, runtime)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(place, str(error)) from error
    opened = OpenSession(folder, private, pinned, state, manifest, text, runtime, place, data)
    with_items(opened)
    driver, confirmed, branch = recorded.driver, recorded.confirmed, recorded.branch
    opened.restate(replace(manifest, driver=driver, confirmed=confirmed, branch=branch))
    if runtime.digests != known or project(manifest, state) != manifest:
        opened.write()
    else:
        opened.note()
    return opened


def adopt(
    folder: Path, private: Path, place: ABFile, accepted: Confirmation | None = None
) -> OpenSession:
    """The session from its files alone: this worktree has no runtime state of it. `accepted` is
    recorded in the same write: who accepted the files as they are."""
    runtime = Runtime()
    pinned = pinned_inputs.load(folder, private, runtime)
    data = integrity.read_file(folder, JOURNAL)
    parsed = parse_journal(data, integrity.shown(folder, JOURNAL))
    stated = integrity.read_file(folder, "session.yaml")
    known = read_manifest(stated, integrity.shown(folder, "session.yaml"))
    pinned = _bound(pinned, known)
    state = machine.replay(pinned.playbook, parsed.entries)
    due = len(state.entries)
    keep_settled(private, runtime, parsed.entries[: len(parsed.entries) - due])
    runtime.digests[JOURNAL] = [digest(data)]
    portable_records.adopt(folder, runtime, [entry.id for entry in state.entries])
    output_files.adopt(folder, pinned.playbook, runtime, child=bool(known.parent))
    runtime.digests["session.yaml"] = [digest(stated)]
    text = JournalText.parsed(data, parsed, due)
    opened = OpenSession(folder, private, pinned, state, known, text, runtime, place, stated)
    with_items(opened)
    if accepted is not None:
        opened.confirm(accepted)
    opened.write()
    return opened


def with_items(opened: OpenSession) -> OpenSession:
    """The session, whose steps of a loop's items know their item."""
    if any(step.for_each for step in opened.playbook.steps):
        from playbook_supervisor.sessions.steps import step_data

        step_data.bind_items(opened)
    return opened


def _bound(pinned: Pinned, manifest: Manifest) -> Pinned:
    if pinned.playbook.version == FIRST_VERSION:
        return pinned
    from playbook_supervisor.project.expressions.bound_conditions import bound

    return replace(pinned, playbook=bound(pinned.playbook, manifest.args))


def _load_journal(
    folder: Path, private: Path, playbook: Playbook, runtime: Runtime
) -> tuple[State, JournalText]:
    data = integrity.read_file(folder, JOURNAL)
    written = digest(data)
    if not runtime.ours(JOURNAL, written):
        parsed = _read_edited(data, private, playbook, runtime, integrity.shown(folder, JOURNAL))
        state = serialize.state_from_json(runtime.state, playbook)
        runtime.digests[JOURNAL] = [written]
        return state, JournalText.parsed(data, parsed, len(state.entries))
    if _lags(runtime, written):
        runtime.step_back()
    return serialize.state_from_json(runtime.state, playbook), JournalText.placed(
        data, runtime.text
    )


def _lags(runtime: Runtime, journaled: str) -> bool:
    return runtime.ours(JOURNAL, journaled) and not runtime.latest(JOURNAL, journaled)


def _read_edited(
    data: bytes, private: Path, playbook: Playbook, runtime: Runtime, source: str
) -> ParsedJournal:
    """A journal that something else wrote, with the data of ours. StateError
    `PB-STATE-TAMPERED`."""
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


# ── what the process that drives accepts ──────────────────────────────────────────────────────────


def reload(held: OpenSession) -> OpenSession:
    """The session that this process drives, after something else has written its files. StateError
    `PB-STATE-TAMPERED` if that was more than an answer. What this process wrote is then put back
    into the git directory, so that later processes refuse the same change."""
    held.place.read()  # the next write must be newer than what is there
    try:
        expected = _with_answers(held)
        opened = load(held.folder, held.private, expected, held.place)
        opened.save()
        if held.place.damaged:
            opened.save()  # the other half, too
    except StateError:
        with suppress(PlaybookError):
            put_copies_back(held)
            for _half in range(2):
                held.place.write(held.written.runtime)
        raise
    return opened


def restore_missing(held: OpenSession) -> list[str]:
    """Write the session's files that are gone as this process wrote them last; their names."""
    ensure_folder(held.private)
    ensure_folder(held.folder)
    if not integrity.missing(held.folder, integrity.nested(held.runtime.digests)):
        return []
    put_copies_back(held)
    return integrity.restore_missing(held.folder, held.private)


def put_copies_back(held: OpenSession) -> None:
    """Make the copies in the git directory those of what this process wrote last."""
    files = {JOURNAL: held.written.journal.data, "session.yaml": held.written.manifest}
    for name, data in {**files, **held.pinned.files}.items():
        integrity.write_inside(held.private, name, data, durable=False)


def _with_answers(held: OpenSession) -> Runtime:
    runtime = Runtime.parse(held.written.runtime, held.place)
    state = serialize.state_from_json(runtime.state, held.playbook)
    manifest = manifest_from_json(runtime.manifest)
    text, place, stated = held.written.journal, held.place, held.written.manifest
    folder, private, pinned = held.folder, held.private, held.pinned
    opened = OpenSession(folder, private, pinned, state, manifest, text, runtime, place, stated)
    with_items(opened)
    if isinstance(machine.directive(opened.state), Ask):
        entries = {entry.id: entry for entry in _entries(held)}
        answered = False
        while _take_answer(opened, entries):
            answered = True
        if answered:
            opened.expect()
    return runtime


def _take_answer(opened: OpenSession, entries: dict[str, Entry]) -> bool:
    from playbook_supervisor.sessions.steps import evidence

    asked = machine.directive(opened.state)
    if not isinstance(asked, Ask) or asked.member.id not in entries:
        return False
    gates = {gate.id: gate for gate in entries[asked.member.id].gates}
    gate = gates.get(asked.id)
    if gate is None or gate.answered_at is None or gate.resolution is None:
        return False
    resolution, by, role = gate.resolution, gate.by, gate.role
    answered = Answered(gate.answered_at, asked.id, resolution, gate.text, by, gate.via, role)
    try:
        opened.policy.admit(asked.member.step.id, gate.reason, resolution, by, role)
        events = machine.decide(opened.state, answered)
    except (PolicyError, StateError):
        return False
    evidence.answered(opened.runtime, opened.entry(asked.member.id), resolution)
    opened.accept(events)
    return True


def _entries(held: OpenSession) -> tuple[Entry, ...]:
    try:
        return parse_journal(integrity.read_file(held.folder, JOURNAL), JOURNAL).entries
    except PlaybookError:  # opening reports it
        return ()


# ── sessions that are being created ───────────────────────────────────────────────────────────────


class UnfinishedSessions:
    """Those of one checkout, which keeps its sessions in the folder `sessions`. A process holds a
    lock while it creates a session, so the holder knows that no other process is creating one. The
    temporary folder is made first and removed last, so it marks all leftovers."""

    def __init__(self, checkout: Checkout, sessions: Path) -> None:
        self._checkout, self._sessions = checkout, sessions
        self._lock = checkout.runtime / "begin.lock"
        self._held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process creates a session meanwhile. It may be nested. After an error nothing is
        left."""
        if self._held:
            yield
            return
        ensure_folder(self._checkout.runtime)
        with locked(self._lock):
            self._remove()
            self._held = True
            try:
                yield
            except BaseException:
                with suppress(StorageError):  # else the next process removes them
                    self._remove()
                raise
            finally:
                self._held = False

    def complete(
        self,
        made: Manifest,
        folder: Path,
        text: bytes,
        definition: Playbook | None,
        policy: Policy | None,
        children: Mapping[str, bytes],
        settings: bytes | None,
    ) -> OpenSession:
        """Write all files of a new session; the last act gives its folder the name `folder`."""
        private, runtime = self._checkout.runtime / made.session_id, Runtime()
        with ExitStack() as stack:
            aside = stack.enter_context(assembled(folder))
            ensure_folder(private)
            stack.enter_context(locked(private / "lock"))
            pinned = pinned_inputs.pin(
                aside, private, runtime, text, definition, policy, children, settings
            )
            pinned = _bound(pinned, made)
            state, empty = machine.replay(pinned.playbook, ()), JournalText()
            made = project(made, state)
            stated, place = emit_manifest(made), ABFile(private / NAME)
            for name, data in ((JOURNAL, EMPTY), ("session.yaml", stated)):
                write_atomically(aside / name, data)
                runtime.digests[name] = [digest(data)]
            opened = OpenSession(aside, private, pinned, state, made, empty, runtime, place, stated)
            with_items(opened)
            opened.write()
            opened.copy()
        opened.folder = folder
        return opened

    def discard(self, folder: Path) -> None:
        """Remove a session: without its name, its folder is one that was not completed."""
        with self.held():
            put_aside(folder)
            self._remove()

    def require_room(self, seen_from: Path) -> None:
        """StorageError if it is plain that none can be created; paths are seen from there."""
        folder = self._sessions
        while not os.path.lexists(folder):
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            shown = os.path.relpath(folder, seen_from)
            raise StorageError("PB-IO-WRITE", f"cannot write to {shown}", where=shown)

    def sweep(self) -> None:
        """Remove them, unless another process may be creating a session or it is not allowed."""
        if not self._held and any(self._left()):
            with suppress(StateError, StorageError), locked(self._lock, timeout=0):
                self._remove()

    def _remove(self) -> None:
        for session_id, aside in list(self._left()):
            remove(self._checkout.runtime / session_id)
            remove(self._checkout.ids / session_id)
            remove(aside)

    def _left(self) -> Iterator[tuple[str, Path]]:
        with suppress(OSError):
            for name, aside in unfinished(self._sessions):
                if SESSION_ID.match(name):
                    yield name, aside
