"""Who takes a decision, and how that is known."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.kernel.vocabulary import Mode
from playbook_supervisor.records import Record


class Principal(Record):
    """`name` is what the journal keeps: a git identity, or `autonomous`.

    `proof` says what vouches for the name; today that is only where the decision was taken.
    `via` is journaled, too: `inbox`, `fleet`, or nothing for a terminal. So is `role`, that of the
    fleet's database which gave the answer: the database vouches for it.
    """

    name: str
    proof: str = ""
    via: str = ""
    role: str = ""


NO_ONE = Principal("")
"""No person is known."""
AUTONOMOUS = Principal(Mode.AUTONOMOUS.value, "run --mode autonomous")


def local(root: Path, proof: str = "") -> Principal:
    """The person that git knows in this repository; starts git."""
    from playbook_supervisor.system.git.git_process import identity

    return Principal(identity(root), proof)
