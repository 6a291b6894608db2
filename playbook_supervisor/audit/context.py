"""What is judged, and what a judgement is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from playbook_supervisor.audit.lenient_playbook import LoosePlaybook, LooseStep
from playbook_supervisor.audit.lenient_session import (
    LooseEntry,
    LooseGate,
    LooseJournal,
    LooseSession,
)
from playbook_supervisor.audit.rules import finding
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.kernel.state import State
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.session_policy import Policy
from playbook_supervisor.records import Record

SKEW = 60_000
"""By how much, ms, the clocks of two machines may differ."""
_WHOLE_SECONDS = 1_000

_UNKNOWN = LooseStep("")


class AuditContext(Record):
    """A session with all that is known of it.

    `outline` is None where no playbook is known; `pinned`: it is the session's own, as tight as
    `policy` makes it. `state` is the journal replayed by the kernel, None where that is not
    possible. `committed`: when each line of the journal was, ms (0: never). `merged` names a
    branch that holds this session's, or is empty.
    """

    name: str
    journal: LooseJournal
    session: LooseSession | None
    outline: LoosePlaybook | None
    pinned: bool
    policy: Policy
    state: State | None
    committed: Sequence[int]
    merged: str
    now: int

    @property
    def slack(self) -> int:
        """By how much, ms, times may be rounded: other tools write whole seconds."""
        return 0 if self.journal.ours else _WHOLE_SECONDS

    def step(self, entry: LooseEntry) -> LooseStep:
        """What the playbook says of the entry's step; empty words where that is not known."""
        return self.outline.by_id.get(entry.step_id, _UNKNOWN) if self.outline else _UNKNOWN

    def gated(self, entry: LooseEntry) -> bool:
        """Whether the playbook puts a gate before the entry's step, whatever happens."""
        return self.step(entry).autonomy == Autonomy.GATE_ALWAYS


Judge = Callable[[AuditContext], Iterator[Problem]]


def found(
    code: str, message: str, each: LooseEntry | LooseGate | LooseSession, *keys: str | int
) -> Problem:
    """A finding about the key of an entry, a gate or a session."""
    position = each.document.position((*each.path, *keys))
    return finding(code, message, each.document.source, position)
