"""`finish`: a session's worktree and branch go after the merge."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.cli import streams
from playbook_supervisor.commands.worktrees import finish as finishing
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.worktrees.finish import FinishPlan, FinishResult


def finish(session: str, *, force: bool) -> int:
    """Say what is in the way, a line each; else remove both and say where to go."""
    plan = finishing.plan(session)
    here = Path.cwd()
    for obstacle in plan.obstacles:
        streams.put(printable(obstacle))
    if force and plan.obstacles:
        finishing.require_human(plan)
        if not _agreed(plan):
            streams.tell("nothing was removed")
            return 1
    finished = finishing.finish(plan, force=force)
    streams.tell_notices(finished.notices)
    for line in _told(finished, here):
        streams.put(printable(line))
    return 0


def _agreed(plan: FinishPlan) -> bool:
    if not streams.at_a_terminal():
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            "`playbook finish --force` throws work away, and there is no terminal to ask at",
            where=str(plan.root),
            guidance="Run it in a terminal of your own.",
        )
    sys.stdout.flush()
    sys.stderr.write(f"Throw this away, and remove {plan.root}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def _told(finished: FinishResult, here: Path) -> Iterator[str]:
    plan = finished.plan
    inside = here.is_relative_to(plan.root)
    if plan.gone:
        yield f"✓ Worktree {_from(here, plan.root)} was gone already"
    else:
        shown = plan.root if inside else _from(here, plan.root)
        yield f"✓ Worktree {shown} removed"
    if plan.branch:
        how = f": {plan.merged}" if plan.merged else ""
        yield f"✓ Branch {plan.branch} removed{how}"
    for name in finished.journals:
        yield f"✓ The journal of {name} ends in {plan.main}, where it is not committed yet"
    if inside:
        yield f"→ Run: cd {shlex.quote(str(plan.main))}"


def _from(here: Path, path: Path) -> str:
    return os.path.relpath(path, here)
