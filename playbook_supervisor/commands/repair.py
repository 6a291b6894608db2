"""`playbook repair`: show what else changed a session, and accept it or undo it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.views.session_diff import (
    Difference,
    SavedSession,
    SessionPaths,
    differences,
    playbook_changes,
    written_journal,
)
from playbook_supervisor.commands.worktrees import worktree
from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import read_playbook
from playbook_supervisor.project.settings import config, session_settings
from playbook_supervisor.sessions.files import (
    integrity,
    pinned_inputs,
    portable_records,
    principal,
    provenance,
)
from playbook_supervisor.sessions.files.local_state import NAME
from playbook_supervisor.sessions.files.manifest import (
    Confirmation,
    emit_manifest,
    manifest_from_json,
)
from playbook_supervisor.sessions.store import opening
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.files import ensure_folder, locked, remove, write_atomically
from playbook_supervisor.system.process import ancestry

_STATE = "runtime state"
_LONGEST = 300  # characters of what a person accepted


@dataclass(frozen=True, slots=True)
class RepairReport:
    """A session and its differences before the repair.

    `root` is the worktree if the repair restored it, else None. `moved` are folders that were in
    the place of a file, where they are now.
    """

    session_id: str
    differences: tuple[Difference, ...]
    root: Path | None = None
    moved: tuple[Path, ...] = ()

    @property
    def restorable(self) -> bool:
        """True if it is known what was written last."""
        return all(each.file != _STATE for each in self.differences)


def repair(
    session: str = "", *, accept: bool = False, undo: bool = False, cwd: Path | None = None
) -> RepairReport:
    """Report the differences; with `accept` or `undo` (at most one of them) also resolve them.

    `undo` also restores the session's worktree if it was removed by hand.
    """
    store, session_id = locate.select(session, cwd, itself=True)
    locate.require_human(store, session_id, "repair")
    removed = not (store.checkout.root / ".git").exists()
    if removed and undo:
        worktree.restore(store.checkout)
    store.require_worktree(session_id)
    locate.client_tree(store, locate.driven_as(store, session_id))
    store.folder(session_id)
    if not store.drives(session_id):
        _require_readable(store, session_id)
    doubted = store.doubt(session_id)
    found = _described(store, session_id, doubted) if doubted else differences(store, session_id)
    if not found:
        _require_readable(store, session_id)
    if doubted and accept:
        _require_terminal(session_id, doubted)
    if doubted and undo:
        raise _unrestorable(session_id, doubted)
    moved = _make_way_in_private_folder(store, session_id) if accept or undo else ()
    if accept and (found or not store.drives(session_id)):
        take(store, session_id, found)
    elif accept:
        with store.open(session_id):  # completes what a killed command has begun to write
            pass
    elif undo:
        moved += restore(store, session_id)
    return RepairReport(session_id, found, store.checkout.root if removed else None, moved)


def take(store: DiskStore, session_id: str, found: Sequence[Difference] = ()) -> None:
    """Accept the files as they are; session.yaml records who accepted which differences.

    StateError if they cannot be read or replayed.
    """
    with _locked(store, session_id):
        folder, manifest = store.folder(session_id), store.manifest(session_id)
        pinned_inputs.pin_substitute(store.checkout.root, folder, manifest)
        accepted = None
        if found:
            what = "; ".join(f"{each.file}: {each.what}" for each in found)
            by = principal.local(store.checkout.root).name
            accepted = Confirmation(store.clock(), by, first_line(what, _LONGEST))
        _adopt(SessionPaths.of(store, session_id), accepted)


def restore(store: DiskStore, session_id: str) -> tuple[Path, ...]:
    """Put back what was last written; returns where folders that were in the way are now.

    StateError if not all of it was saved.
    """
    with _locked(store, session_id):
        saved = SavedSession.load(store, session_id)
        if saved is None:
            raise StateError(
                "PB-STATE-CORRUPT",
                f"this worktree has no copy of session {session_id}",
                where=str(store.folder(session_id)),
                guidance="Take it from git: `git checkout -- .playbooks/sessions`.",
            )
        if forged := set(integrity.pinned(saved.copies)) - saved.proved:
            raise _unrestorable(session_id, f"of no use: the copy of {min(forged)} was changed")
        journal = written_journal(saved)
        folder = saved.paths.folder
        ensure_folder(folder)
        moved = _make_way((folder / name for name in integrity.FILES), saved.paths.private)
        write_atomically(folder / "journal.yaml", journal)
        for name in integrity.nested(saved.copies):
            if name in saved.proved:
                integrity.write_inside(folder, name, saved.copies[name])
            else:
                remove(folder / name)
        for name in set(integrity.FILES) & saved.copies.keys() - {"journal.yaml"}:
            write_atomically(folder / name, saved.copies[name])
        for name in set(integrity.PINNED) - saved.copies.keys():
            remove(folder / name)
        remove(folder / integrity.RECORDS)
        if "session.yaml" not in saved.proved:
            written = emit_manifest(manifest_from_json(saved.runtime.manifest))
            write_atomically(folder / "session.yaml", written)
        _adopt(saved.paths)
        return moved


def _require_terminal(session_id: str, doubted: str) -> None:
    """Nothing but a person's look tells what an agent has put there."""
    if locate.in_claude_code() or not ancestry.has_terminal():
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"the runtime state is {doubted}, so a person must accept the files at a terminal",
            where=f"session {session_id}",
            guidance=f"Run `playbook repair {session_id} --take` in a terminal of your own.",
        )


def _unrestorable(session_id: str, doubted: str) -> StateError:
    return StateError(
        "PB-STATE-UNCONFIRMED",
        f"what this checkout kept of session {session_id} is {doubted}",
        guidance="Take the files from git (`git checkout -- .playbooks/sessions`), "
        f"then `playbook repair {session_id} --take`.",
    )


def _make_way_in_private_folder(store: DiskStore, session_id: str) -> tuple[Path, ...]:
    private = store.runtime(session_id)
    names = ("lock", *integrity.FILES, *(f"{NAME}-{turn}" for turn in (0, 1)))
    return _make_way((private / name for name in names), private)


def _make_way(files: Iterable[Path], private: Path) -> tuple[Path, ...]:
    """Move folders out of the place of files: nothing that a person may have put there is lost."""
    moved = []
    for file in files:
        if file.is_dir() and not file.is_symlink():
            aside = private / f"moved-{file.name}-{os.urandom(4).hex()}"
            try:
                file.rename(aside)
            except OSError as error:
                said = f"cannot move the folder {file} away: {error.strerror}"
                raise StorageError("PB-IO-WRITE", said, where=str(file)) from error
            moved.append(aside)
    return tuple(moved)


def _require_readable(store: DiskStore, session_id: str) -> None:
    """Without a saved copy there are no differences, even if the file is unreadable."""
    try:
        store.manifest(session_id)
    except StateError as error:
        if error.code == "PB-STATE-NEWER":
            raise
        raise StateError(
            error.code,
            error.message,
            where=error.where,
            guidance="No copy is kept here: fix the file by hand, or take it from git.",
        ) from error


@contextmanager
def _locked(store: DiskStore, session_id: str) -> Iterator[None]:
    private = store.runtime(session_id)
    ensure_folder(private)
    with locked(private / "lock"):
        yield


def _adopt(paths: SessionPaths, accepted: Confirmation | None = None) -> None:
    previous, records = provenance.recorded(paths.state), paths.folder / integrity.RECORDS
    if previous is not None and not records.exists() and (data := portable_records.emit(previous)):
        write_atomically(records, data)
    opened = opening.adopt(paths.folder, paths.private, paths.state, accepted)
    if previous is not None:
        portable_records.keep_stamps(opened.runtime, previous)
        opened.save()
    for name in (*integrity.PINNED, integrity.CHILDREN, integrity.OUTPUTS):
        remove(paths.private / name)
    opened.copy()


# ── a session that no record of this checkout proves ─────────────────────────────────────────


def _described(store: DiskStore, session_id: str, doubted: str) -> tuple[Difference, ...]:
    first = Difference(_STATE, f"it is {doubted}, so nothing proves the session's files")
    return (first, *_against_project(store, session_id), *_answers(store, session_id))


def _against_project(store: DiskStore, session_id: str) -> Iterator[Difference]:
    root, folder = store.checkout.root, store.folder(session_id)
    with suppress(PlaybookError):
        pinned = read_playbook(integrity.read_file(folder, "playbook.yaml"), "playbook.yaml")
        known = library.find(root, pinned.name).playbook
        if found := tuple(playbook_changes(known, pinned)):
            yield Difference("playbook.yaml", "it differs from the project's playbook", found)
    yield from _children(root, folder)
    with suppress(PlaybookError):
        name = session_settings.FILE
        kept = session_settings.read_settings(integrity.read_file(folder, name), name)
        if found := tuple(session_settings.changes(config.load(root), kept)):
            yield Difference(name, "it differs from the project's settings", found)


def _children(root: Path, folder: Path) -> Iterator[Difference]:
    for name, kept in pinned_inputs.pinned_children(folder).items():
        file = integrity.child_file(name)
        try:
            known = library.find(root, name).playbook
        except PlaybookError:
            yield Difference(file, "the project has no valid playbook of this name")
            continue
        if found := tuple(playbook_changes(known, kept)):
            yield Difference(file, "it differs from the project's playbook", found)


def _answers(store: DiskStore, session_id: str) -> Iterator[Difference]:
    with suppress(PlaybookError):
        given = tuple(
            (gate.id, "", first_line(f"{gate.resolution} by {gate.by}: {gate.text}", 120))
            for entry in store.journal(session_id).entries
            for gate in entry.gates
            if gate.resolution is not None
        )
        if given:
            yield Difference("journal.yaml", "these answers are said to be people's", given)
