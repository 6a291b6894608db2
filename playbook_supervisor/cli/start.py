"""`start`: a session in a worktree of its own, and how to go on there."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.cli import streams
from playbook_supervisor.commands.worktrees import start as starting
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.worktrees.start import StartResult


def start(playbook: str, args: Sequence[str], *, base: str, branch: str, exec: bool) -> int:
    """Make it and print the four lines (kai FR35); with `exec` Claude Code takes over from us."""
    if exec:
        _require_room()
    started = starting.start(playbook, args, base=base, branch=branch)
    streams.tell_notices(started.notices)
    for line in _told(started, exec=exec):
        streams.put(printable(line))
    for line in _about(started)[: 1 if exec else None]:
        streams.tell(printable(line))
    if exec:
        sys.stdout.flush()
        starting.open_client(started)
    return 0


def _require_room() -> None:
    if not streams.at_a_terminal():
        raise ArgumentError(
            "PB-ARG-USAGE",
            "--exec opens Claude Code at your terminal, and there is none",
            guidance="Leave --exec out; what is printed says how to go on.",
        )
    starting.require_client()


def _told(started: StartResult, *, exec: bool) -> list[str]:
    folder = shlex.quote(os.path.relpath(started.root, Path.cwd()))
    made = [f"✓ Session {started.session_id} created", f"✓ Worktree created at {folder}"]
    if exec:
        return made
    return [*made, f"→ Run: cd {folder} && claude", f"→ Then type: {started.typed}"]


def _about(started: StartResult) -> list[str]:
    branch = started.branch
    how = f"new, from {started.base.name}" if branch.new else "which was there already"
    trust = "Claude asks once whether you trust the new folder."
    headless = started.typed.replace("/playbook.run", "playbook run", 1)
    return [
        f"It is on branch {branch.name}, {how}. {trust}",
        f"Without Claude Code, type there: {headless}",
    ]
