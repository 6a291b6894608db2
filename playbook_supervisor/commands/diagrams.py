"""`graph`: a playbook, or a session of it, to be drawn."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.commands import view
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import pinned_inputs
from playbook_supervisor.sessions.manifest import Manifest


class Diagram(Record):
    """A playbook; with a session also its journal and its session.yaml."""

    playbook: Playbook
    entries: tuple[Entry, ...] = ()
    manifest: Manifest | None = None


def graph(reference: str = "", *, session: str = "", cwd: Path | None = None) -> Diagram:
    """The playbook of that name or path, or the one that a session runs under its policies.

    A session that has pinned none, such as kai's, is drawn by the project's playbook of its name.

    ArgumentError PB-ARG-USAGE if neither is named, or if the session runs another playbook;
    StateError if the session cannot be read, PB-STATE-NO-PLAYBOOK if it has none.
    """
    if not session:
        if not reference:
            raise ArgumentError(
                "PB-ARG-USAGE",
                "neither a playbook nor a session is named",
                guidance="For example: playbook graph auto-feature; `playbook list` names all.",
            )
        return Diagram(view.load_playbook(reference, cwd=cwd))
    shown = view.show(session, cwd=cwd)
    if shown.problem:
        raise shown.problem
    manifest = shown.seen.manifest
    playbook = shown.tightened
    if manifest and playbook is None:
        store = shown.seen.store
        folder = store.folder(shown.seen.session_id)
        found = pinned_inputs.substitute(store.checkout.root, folder, manifest)
        playbook = found.playbook if found else None
    if manifest is None or playbook is None:
        raise StateError(
            "PB-STATE-NO-PLAYBOOK", "the session has no readable playbook.yaml", where=session
        )
    name = playbook.name
    if reference and reference != name:
        named = view.load_playbook(reference, cwd=cwd).name
        if named != name:
            raise ArgumentError(
                "PB-ARG-USAGE",
                f"session {session} runs {name}, not {named}",
                guidance=f"Use: playbook graph --session {session}",
            )
    return Diagram(playbook, shown.entries, manifest)
