"""Opening a session: from its files and what was recorded of them, or from its files alone."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.model import FIRST_VERSION, Playbook
from playbook_supervisor.kernel.state import State
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import integrity, pinned_inputs, portable_records, serialize
from playbook_supervisor.sessions.files.journal import EMPTY, ParsedJournal, parse_journal
from playbook_supervisor.sessions.files.journal_bytes import JournalText
from playbook_supervisor.sessions.files.local_state import JOURNAL, Runtime, unreadable
from playbook_supervisor.sessions.files.manifest import (
    Confirmation,
    Manifest,
    emit_manifest,
    manifest_from_json,
    read_manifest,
)
from playbook_supervisor.sessions.files.pinned_inputs import Pinned
from playbook_supervisor.sessions.files.projection import load_manifest, project
from playbook_supervisor.sessions.files.settled_entries import keep
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import digest, read_bytes, write_atomically


def on_disk(folder: Path, place: ABFile) -> Runtime | None:
    """The runtime state that belongs to the journal as it is; None if it cannot be read.

    If the last write ended before the journal, that is the former state. It may have been written
    while another branch was checked out than the session's: the copies then count.
    """
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
    """The session from its files and the runtime state, whose data must agree.

    StateError `PB-STATE-TAMPERED` if something else changed data. Changes of comments and layout
    are accepted, and what a crash left unfinished is finished.
    """
    known = {name: list(digests) for name, digests in runtime.digests.items()}
    pinned = pinned_inputs.load(folder, private, runtime)
    try:
        recorded = manifest_from_json(runtime.manifest)
        pinned = _bound(pinned, recorded)
        state, text = _load_journal(folder, private, pinned.playbook, runtime)
        manifest, data = load_manifest(folder, runtime)
        portable_records.load(folder, runtime)
        if integrity.outputs(runtime.digests):
            from playbook_supervisor.sessions.steps import output_files

            output_files.require_unchanged(folder, runtime)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(place, str(error)) from error
    opened = with_items(
        OpenSession(folder, private, pinned, state, manifest, text, runtime, place, data)
    )
    opened.restate(
        replace(
            manifest,
            driver=recorded.driver,
            confirmed=recorded.confirmed,
            branch=recorded.branch,
        )
    )
    if runtime.digests != known or project(manifest, state) != manifest:
        opened.write()
    else:
        opened.note()
    return opened


def create(
    folder: Path,
    private: Path,
    place: ABFile,
    runtime: Runtime,
    manifest: Manifest,
    pinned: Pinned,
) -> OpenSession:
    """A new session, whose pinned files are written."""
    pinned = _bound(pinned, manifest)
    state, text = machine.replay(pinned.playbook, ()), JournalText()
    manifest = project(manifest, state)
    manifest_text = emit_manifest(manifest)
    write_atomically(folder / JOURNAL, EMPTY)
    write_atomically(folder / "session.yaml", manifest_text)
    runtime.digests[JOURNAL] = [digest(EMPTY)]
    runtime.digests["session.yaml"] = [digest(manifest_text)]
    opened = with_items(
        OpenSession(folder, private, pinned, state, manifest, text, runtime, place, manifest_text)
    )
    opened.write()
    return opened


def adopt(
    folder: Path, private: Path, place: ABFile, accepted: Confirmation | None = None
) -> OpenSession:
    """The session from its files alone: this worktree has no runtime state of it.

    `accepted` is recorded in the same write: who accepted the files as they are.
    """
    runtime = Runtime()
    pinned = pinned_inputs.load(folder, private, runtime)
    data = integrity.read_file(folder, JOURNAL)
    parsed = parse_journal(data, integrity.shown(folder, JOURNAL))
    manifest_text = integrity.read_file(folder, "session.yaml")
    known = read_manifest(manifest_text, integrity.shown(folder, "session.yaml"))
    pinned = _bound(pinned, known)
    state = machine.replay(pinned.playbook, parsed.entries)
    due = len(state.entries)
    keep(private, runtime, parsed.entries[: len(parsed.entries) - due])
    runtime.digests[JOURNAL] = [digest(data)]
    portable_records.adopt(folder, runtime, [entry.id for entry in state.entries])
    from playbook_supervisor.sessions.steps import output_files

    output_files.adopt(folder, pinned.playbook, runtime, child=bool(known.parent))
    runtime.digests["session.yaml"] = [digest(manifest_text)]
    text = JournalText.parsed(data, parsed, due)
    opened = with_items(
        OpenSession(folder, private, pinned, state, known, text, runtime, place, manifest_text)
    )
    if accepted is not None:
        opened.confirm(accepted)
    opened.write()
    return opened


def with_items(opened: OpenSession) -> OpenSession:
    """The session, whose steps of a loop's items know their item."""
    if any(step.for_each for step in opened.playbook.steps):
        from playbook_supervisor.sessions.steps import loops

        loops.bind_items(opened)
    return opened


def _bound(pinned: Pinned, manifest: Manifest) -> Pinned:
    """What the session runs, its conditions with the values of its args."""
    if pinned.playbook.version == FIRST_VERSION:
        return pinned
    from playbook_supervisor.project.expressions.bound_conditions import bound

    return replace(pinned, playbook=bound(pinned.playbook, manifest.args))


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
    if _lags(runtime, written):
        runtime.step_back()
    return serialize.state_from_json(runtime.state, playbook), JournalText.placed(
        data, runtime.text
    )


def _lags(runtime: Runtime, journaled: str) -> bool:
    """Whether these bytes are the journal before the one that was to be written last."""
    return runtime.ours(JOURNAL, journaled) and not runtime.latest(JOURNAL, journaled)


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
