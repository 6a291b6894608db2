"""`graph`: a playbook, or a session of it, to be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.commands import locate, view
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import pinned_inputs
from playbook_supervisor.sessions.manifest import Manifest


class Diagram(Record):
    """A playbook and those that it can reach; with a session also its journal and session.yaml."""

    playbook: Playbook
    children: Mapping[str, Playbook]
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
        named = view.load_playbook(reference, cwd=cwd)
        return Diagram(named, _children(named, cwd))
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
        other = view.load_playbook(reference, cwd=cwd).name
        if other != name:
            raise ArgumentError(
                "PB-ARG-USAGE",
                f"session {session} runs {name}, not {other}",
                guidance=f"Use: playbook graph --session {session}",
            )
    children = pinned_inputs.pinned_children(shown.seen.store.folder(shown.seen.session_id))
    return Diagram(playbook, children, shown.entries, manifest)


def _children(playbook: Playbook, cwd: Path | None) -> Mapping[str, Playbook]:
    if not any(step.child for step in playbook.steps):
        return {}
    from playbook_supervisor.project.child_playbooks import Children

    return Children(locate.store(cwd).checkout.root).reachable(playbook)
