"""What a run would do: `run --dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import DriveOptions
from playbook_supervisor.kernel.vocabulary import Mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.planning import RunPlan


def plan(
    reference: str,
    args: Sequence[str] = (),
    *,
    start: str = "",
    drive: DriveOptions | None = None,
    cwd: Path | None = None,
) -> RunPlan:
    """What `run` of the same would do here, and what it would be refused for.

    Nothing is created or launched. Raises what is wrong with the playbook and its arguments.
    """
    from playbook_supervisor.commands import planning
    from playbook_supervisor.drivers import budget
    from playbook_supervisor.drivers.claude_code import authorization

    drive = drive or DriveOptions()
    limits = drive.limits or budget.NO_LIMITS
    store = locate.store(cwd)

    def free(session_id: str) -> None:
        authorization.refuse_living_client(store.runtime(session_id))
        locate.undriven(store, session_id)

    return planning.plan(
        store,
        reference,
        args,
        start=start,
        agent=drive.agent,
        mode=drive.mode or Mode.MANUAL,
        suits=lambda agent: budget.require_enforceable(agent, limits),
        free=free,
    )
