"""`finish`: remove a session's worktree and branch after the merge."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.worktrees import finish as finishing
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import printable


@options.command
@options.session_argument
@click.option("--force", is_flag=True, help="Discard unmerged work, after asking.")
def finish(named: str, *, session: str, force: bool) -> int:
    """Remove a session's worktree and branch after the merge.

    Everything has to be committed and merged: into the branch that it came from, the main branch
    or their upstreams, also squashed or rebased, or by a pull request that `gh` reports as
    merged. Otherwise the command lists what prevents it and changes nothing. The journal is kept.

    \b
    Examples:
      playbook finish
      playbook finish 20260219-b3m
      playbook finish 20260219-b3m --force
    """
    plan = finishing.plan(options.chosen_session(named, session))
    here = Path.cwd()
    output.write(*map(printable, (*plan.obstacles, *plan.unsafe)))
    if force and plan.obstacles and not plan.unsafe:
        locate.require_human(plan.store, plan.session_id, "finish --force")
        if not _confirmed(plan):
            output.inform("nothing was removed")
            return 1
    finished = finishing.finish(plan, force=force)
    output.show_notices(finished.notices)
    output.write(*map(printable, _lines(finished, here)))
    return 0


def _confirmed(plan: finishing.FinishPlan) -> bool:
    if not output.is_interactive():
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            "`playbook finish --force` discards work, and there is no terminal to ask at",
            where=str(plan.root),
            guidance="Run it in a terminal of your own.",
        )
    meaning = "y removes what is named above, n leaves everything."
    return output.confirmed(f"Discard this and remove {plan.root}?", meaning, default=False)


def _lines(finished: finishing.FinishResult, here: Path) -> Iterator[str]:
    plan = finished.plan
    inside = here.is_relative_to(plan.root)
    if plan.gone:
        yield f"✓ Worktree {os.path.relpath(plan.root, here)} was already gone"
    else:
        shown = plan.root if inside else os.path.relpath(plan.root, here)
        yield f"✓ Worktree {shown} removed"
    if plan.branch:
        how = f": {plan.merged}" if plan.merged else ""
        yield f"✓ Branch {plan.branch} removed{how}"
    for each in finished.brought:
        yield f"✓ The journal of {each.session_id} was completed in {each.home}, but not committed"
    if inside:
        yield f"→ Run: cd {shlex.quote(str(plan.leaving.main))}"
