"""What gives a session a worktree of its own, and takes it away again: start, finish."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import GitError, StateError, StorageError
from playbook_supervisor.formats.sanitize import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.worktrees.finishing import FinishPlan, FinishResult
    from playbook_supervisor.commands.worktrees.starting import StartResult
    from playbook_supervisor.sessions.store import DiskStore

CLIENT = "claude"


def start(
    reference: str,
    args: Sequence[str] = (),
    *,
    base: str = "",
    branch: str = "",
    cwd: Path | None = None,
) -> StartResult:
    """A pending session in a new worktree (kai FR33); nothing remains where that fails."""
    from playbook_supervisor.commands.worktrees import starting

    wish = starting.StartRequest(reference, tuple(args), base, branch)
    return starting.start(locate.store(cwd), wish)


def require_client() -> None:
    """StorageError PB-IO-PROGRAM if Claude Code is not on PATH."""
    import shutil

    if shutil.which(CLIENT) is None:
        raise StorageError(
            "PB-IO-PROGRAM",
            f"`{CLIENT}` is not on PATH, and --exec would open it",
            guidance="Install Claude Code, or leave --exec out.",
        )


def open_client(started: StartResult) -> None:
    """Become Claude Code in the new worktree, which begins the session at once."""
    from playbook_supervisor.system import processes

    processes.become([CLIENT, started.typed], cwd=started.root)


# ── after the merge ─────────────────────────────────────────────────────────────────────────


def parting(session: str = "", *, cwd: Path | None = None) -> FinishPlan:
    """What `finish` would remove, and what is in the way of it. Reads only.

    StateError where the session that is meant has no worktree; it names those that have one.
    """
    from playbook_supervisor.commands.worktrees import finishing

    try:
        return finishing.examine(*locate.meant(session, cwd))
    except StateError as error:
        others = [] if session else _with_worktrees(locate.store(cwd))
        if not others or error.code not in ("PB-STATE-NO-SESSION", "PB-STATE-NO-WORKTREE"):
            raise
        guidance = f"Name one that has a worktree: playbook finish {' or '.join(others[:4])}"
        raise StateError(
            error.code, error.message, where=error.where, guidance=f"{guidance}."
        ) from error


def _with_worktrees(store: DiskStore) -> list[str]:
    from playbook_supervisor.commands import overview
    from playbook_supervisor.commands.worktrees import finishing

    seen = [each for each in overview.sessions(store) if each.manifest is not None]
    return [each.session_id for each in seen if finishing.lives(each.store, each.session_id)]


def require_human(parting: FinishPlan) -> None:
    """StateError PB-STATE-HUMAN-ONLY where it is not for the asker to throw work away."""
    locate.a_human(parting.store, parting.session_id, "finish --force")


def finish(parting: FinishPlan, *, force: bool = False) -> FinishResult:
    """Remove worktree and branch; with `force` also where something is in the way.

    GitError PB-GIT-UNFINISHED, with every obstacle, before anything is touched. Sessions that are
    open are aborted first, journaled.
    """
    from playbook_supervisor.commands import driving
    from playbook_supervisor.commands.worktrees import finishing
    from playbook_supervisor.sessions import selection

    if parting.obstacles and not force:
        number = counted(len(parting.obstacles), "thing")
        verb = "is" if len(parting.obstacles) == 1 else "are"
        raise GitError(
            "PB-GIT-UNFINISHED",
            f"session {parting.session_id} cannot be finished: {number} {verb} in the way",
            where=str(parting.root),
            details=parting.obstacles,
        )
    if not parting.gone:
        for name in selection.open_here(parting.store):
            driving.abort(name, "finish --force", cwd=parting.root)
    return finishing.carry_out(parting)
