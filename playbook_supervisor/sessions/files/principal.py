"""Who takes a decision."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.kernel.vocabulary import Mode
from playbook_supervisor.records import Record


class Principal(Record):
    """`name` is a git identity, or `autonomous`; `via` is `inbox`, `fleet`, or nothing for a
    terminal; `role` is that of the fleet's database, which vouches for it. All are journaled."""

    name: str
    via: str = ""
    role: str = ""


NO_ONE = Principal("")  # no person is known
AUTONOMOUS = Principal(Mode.AUTONOMOUS.value)


def local(root: Path) -> Principal:
    """The person that git knows in this repository; starts git."""
    from playbook_supervisor.system.git.git_process import identity

    return Principal(identity(root))
