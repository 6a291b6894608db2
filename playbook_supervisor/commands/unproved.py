"""What a person has to know to accept a session that no record of this checkout proves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.commands.session_diff import Difference, playbook_changes
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project import config, library, session_settings
from playbook_supervisor.project.schema import read_playbook
from playbook_supervisor.sessions import integrity, pinned_inputs
from playbook_supervisor.sessions.store import DiskStore

STATE = "runtime state"


def described(store: DiskStore, session_id: str, doubted: str) -> tuple[Difference, ...]:
    """That the runtime state is `doubted`, and what of the files deserves a look."""
    first = Difference(STATE, f"it is {doubted}, so nothing proves the session's files")
    return (first, *_against_project(store, session_id), *_answers(store, session_id))


def _against_project(store: DiskStore, session_id: str) -> Iterator[Difference]:
    """The pinned playbook and settings, compared with those of the project."""
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
