"""The session under audit, and how a rule reports a finding."""

from __future__ import annotations

from dataclasses import dataclass

from playbook_supervisor.audit.lenient_playbook import LoosePlaybook, LooseStep
from playbook_supervisor.audit.lenient_session import (
    LooseEntry,
    LooseGate,
    LooseJournal,
    LooseSession,
)
from playbook_supervisor.audit.rules import finding
from playbook_supervisor.audit.session_record import RelatedSessions, SessionFiles
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.kernel.state import State
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.records import replace

SKEW = 60_000
"""The greatest difference of the clocks of two machines, in ms."""
_WHOLE_SECONDS = 1_000

_UNKNOWN = LooseStep("")


@dataclass(frozen=True, slots=True)
class AuditContext:
    """A session with everything that is known about it.

    `outline` is None if no playbook is known; if it is the session's own, it is tightened by
    `policy`. `state` is the journal replayed by the kernel, None if it cannot be. `tree` is its
    child sessions, and its parent if it is one.
    """

    files: SessionFiles
    tree: RelatedSessions
    journal: LooseJournal
    session: LooseSession | None
    outline: LoosePlaybook | None
    policy: Policy
    state: State | None
    now: int

    @property
    def tolerance(self) -> int:
        """The rounding of times, in ms: other tools write whole seconds."""
        return 0 if self.journal.ours else _WHOLE_SECONDS

    def step(self, entry: LooseEntry) -> LooseStep:
        """The entry's step in the playbook; an empty one if it is not known.

        For an item of a loop without the conditions that name the item.
        """
        step = self.outline.by_id.get(entry.step, _UNKNOWN) if self.outline else _UNKNOWN
        if not step.loop:
            return step if entry.step == entry.step_id else _UNKNOWN
        plain = tuple(name for name in step.postconditions if "{{" not in name)
        return replace(step, postconditions=plain)

    def phase(self, entry: LooseEntry) -> int | None:
        """The phase of the entry's step; None if the playbook does not have it."""
        known = self.outline is not None and self.step(entry) is not _UNKNOWN
        return self.outline.phase_of[entry.step] if self.outline and known else None

    def gated(self, entry: LooseEntry) -> bool:
        return self.step(entry).asked


def found(
    code: str, message: str, each: LooseEntry | LooseGate | LooseSession, *keys: str | int
) -> Problem:
    """A finding about a key of an entry, a gate or a session."""
    position = each.document.position((*each.path, *keys))
    return finding(code, message, each.document.source, position)
