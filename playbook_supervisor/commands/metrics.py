"""`playbook metrics`: the figures of one session or of many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.audit.metrics import Metrics, measure
from playbook_supervisor.commands import locate, session_files
from playbook_supervisor.project import library


def metrics(
    name: str = "", *, every: bool = False, playbook: str = "", cwd: Path | None = None
) -> Metrics:
    """The figures of a session named by id or path, of all sessions, or of this worktree's.

    `playbook` selects the sessions of that playbook. StateError if the name means no session;
    ArgumentError PB-ARG-PLAYBOOK if neither the project nor any session has that playbook.
    Reads only.
    """
    every = every or (bool(playbook) and not name)
    records = tuple(session_files.find((name,) if name else (), every=every, cwd=cwd))
    if not playbook:
        return measure(records)
    names = [record.session.playbook if record.session is not None else "" for record in records]
    if playbook not in names:
        _require_playbook(playbook, names, cwd)
    return measure(record for record, its in zip(records, names, strict=True) if its == playbook)


def _require_playbook(name: str, recorded: Sequence[str], cwd: Path | None) -> None:
    """A playbook that never ran has no figures; an unknown one is a typing error."""
    root = locate.store(cwd).checkout.root
    known = [each.name for each in library.playbooks(root)]
    if name not in known:
        raise library.none_called(root, name, [*known, *filter(None, recorded)])
