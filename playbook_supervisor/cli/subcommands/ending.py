"""`pause`, `abort` and `finish`: stop a session, and take away what is left of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from playbook_supervisor.cli import completers, options, output
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands import locate, places
from playbook_supervisor.commands.driving import driving, protocol
from playbook_supervisor.commands.worktrees import finish as finishing
from playbook_supervisor.commands.worktrees.journal_home import Homecoming
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import printable


@options.command
@options.session_argument
def pause(named: str, *, session: str) -> int:
    """Stop driving a session and leave it open.

    Steps that are running may finish; no further step is launched. Continue with `playbook
    resume`.

    \b
    Examples:
      playbook pause
      playbook pause 20260219-a7k
    """
    snapshot = driving.pause(options.chosen_session(named, session), on_wait=output.inform)
    output.show_notices(snapshot.notices)
    output.write(f"session {snapshot.manifest.session_id} is paused")
    output.write(text.next_move(snapshot, locate.required_id(snapshot)))
    if where := locate.other_worktree(snapshot):
        output.inform(printable(where))
    return 0


@options.command
@click.argument(
    "named", metavar="[SESSION]", default="", shell_complete=completers.sessions_anywhere
)
@options.session
@click.option("-m", "--message", metavar="TEXT", default="", help="The reason, for the journal.")
@click.option("--clean", is_flag=True, help="Take it away, if it came to nothing.")
def abort(named: str, *, session: str, message: str, clean: bool) -> int:
    """End an open or failed session for good.

    Running steps are stopped first, even if another terminal drives the session. The journal
    records the end. A session of a fleet is ended from any folder, by one of its workers.

    With --clean the session is removed instead, with the worktree that `start` created for it, and
    the branch if it has no work: if none of its steps ran, and no commit has it. Otherwise the
    command lists what it keeps the session for and changes nothing.

    \b
    Examples:
      playbook abort
      playbook abort 20260219-a7k -m "superseded by 014"
      playbook abort 20260219-a7k --clean
    """
    chosen = options.chosen_session(named, session)
    if clean:
        return _take_away(chosen)
    if decided := places.end(chosen, message):
        output.write(decided.what)
        output.inform(f"next: {decided.next}")
        return 0
    snapshot = driving.abort(chosen, message)
    output.show_notices(snapshot.notices)
    output.write(
        text.summary(
            snapshot, [*protocol.tree_entries(snapshot).values()], snapshot.manifest.status
        )
    )
    return 0


def _take_away(session: str) -> int:
    here = Path.cwd()
    try:
        gone = finishing.discard(session)
    except StateError as error:
        output.write(*map(printable, error.details))
        raise
    lines = [f"✓ Session {gone.session_id} removed: none of its steps ran"]
    if gone.root is None:
        lines.append(f"✓ Folder {os.path.relpath(gone.folder, here)} removed")
    else:
        lines.append(f"✓ Worktree {os.path.relpath(gone.root, here)} removed")
    if gone.branch:
        how = f": {gone.merged}" if gone.merged else ""
        lines.append(f"✓ Branch {gone.branch} removed{how}")
    elif gone.stays:
        lines.append(f"Branch {gone.stays} stays")
    output.write(*map(printable, lines))
    return 0


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
    brought, notices = finishing.finish(plan, force=force)
    output.show_notices(notices)
    output.write(*map(printable, _lines(plan, brought, here)))
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


def _lines(plan: finishing.FinishPlan, brought: Iterable[Homecoming], here: Path) -> Iterator[str]:
    inside = here.is_relative_to(plan.root)
    if plan.gone:
        yield f"✓ Worktree {os.path.relpath(plan.root, here)} was already gone"
    else:
        shown = plan.root if inside else os.path.relpath(plan.root, here)
        yield f"✓ Worktree {shown} removed"
    if plan.branch:
        how = f": {plan.merged}" if plan.merged else ""
        yield f"✓ Branch {plan.branch} removed{how}"
    for each in brought:
        yield f"✓ The journal of {each.session_id} was completed in {each.home}, but not committed"
    if inside:
        yield f"→ Run: cd {shlex.quote(str(plan.leaving.main))}"
