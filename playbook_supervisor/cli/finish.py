"""`finish`: a session's worktree and branch go after the merge."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.cli import streams
from playbook_supervisor.commands import worktree_commands
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.worktrees.finishing import FinishPlan, FinishResult


def finish(session: str, *, force: bool) -> int:
    """Say what is in the way, a line each; else remove both and say where to go."""
    parting = worktree_commands.parting(session)
    here = Path.cwd()
    for obstacle in parting.obstacles:
        streams.put(printable(obstacle))
    if force and parting.obstacles:
        worktree_commands.require_human(parting)
        if not _agreed(parting):
            streams.tell("nothing was removed")
            return 1
    finished = worktree_commands.finish(parting, force=force)
    streams.tell_notices(finished.notices)
    for line in _told(finished, here):
        streams.put(printable(line))
    return 0


def _agreed(parting: FinishPlan) -> bool:
    if not streams.at_a_terminal():
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            "`playbook finish --force` throws work away, and there is no terminal to ask at",
            where=str(parting.root),
            guidance="Run it in a terminal of your own.",
        )
    sys.stdout.flush()
    sys.stderr.write(f"Throw this away, and remove {parting.root}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def _told(finished: FinishResult, here: Path) -> Iterator[str]:
    parting = finished.parting
    inside = here.is_relative_to(parting.root)
    if parting.gone:
        yield f"✓ Worktree {_from(here, parting.root)} was gone already"
    else:
        shown = parting.root if inside else _from(here, parting.root)
        yield f"✓ Worktree {shown} removed"
    if parting.branch:
        how = f": {parting.merged}" if parting.merged else ""
        yield f"✓ Branch {parting.branch} removed{how}"
    for name in finished.journals:
        yield f"✓ The journal of {name} ends in {parting.main}, where it is not committed yet"
    if inside:
        yield f"→ Run: cd {shlex.quote(str(parting.main))}"


def _from(here: Path, path: Path) -> str:
    return os.path.relpath(path, here)
