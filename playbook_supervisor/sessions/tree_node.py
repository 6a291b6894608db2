"""A session's place in a tree of sessions: its parent, and the children that work for its steps."""

from __future__ import annotations

from playbook_supervisor.kernel.directives import Outcome, Returned
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions.judge import Judge
from playbook_supervisor.sessions.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.session import OpenSession
    from playbook_supervisor.sessions.store import DiskStore
    from playbook_supervisor.sessions.supervisor import Supervisor


class Untold(Record, frozen=False):
    """What has happened and no snapshot of the tree has reported yet: an error came between.

    `below` are the snapshots of the children to which the events belong.
    """

    events: list[Event] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    below: dict[str, Snapshot] = field(default_factory=dict)


class TreeNode(Judge):
    """Judges one session, and knows its relatives.

    `parent` is the node of the session that a child works for, and `place` the attempt there.
    """

    def __init__(
        self,
        store: DiskStore,
        session_id: str,
        *,
        parent: Supervisor | None = None,
        place: str = "",
        exports: bool = True,
        runs_programs: bool = True,
        runs_checks: bool = True,
        copies: bool = False,
        commits: bool = True,
    ) -> None:
        super().__init__(
            store,
            session_id,
            exports=exports,
            runs_programs=runs_programs,
            runs_checks=runs_checks,
            copies=copies,
            commits=commits,
        )
        self.parent, self.place = parent, place
        self.children: dict[str, Supervisor] = {}
        """Those of the attempts that are under way, by the attempt's own id."""
        self.untold = Untold()
        self.held = self.exists = False
        self.max_depth = 0
        """How many sessions may be above one, as the top playbook says; 0: this is the top."""

    @property
    def depth(self) -> int:
        """How many sessions are above it."""
        return self.parent.depth + 1 if self.parent else 0

    def tell(self, place: str, below: Snapshot) -> None:
        """Let the next snapshot of the tree report what the snapshot of a child does."""
        for event in below.events:
            within = f"{place}/{event.within}".rstrip("/")
            self.untold.events.append(replace(event, within=within))
        self.untold.notices += below.notices
        known, below = self.untold.below, below.without_events()
        known[place] = below.after(known[place]) if place in known else below

    def returned(self, place: str, outcome: Outcome) -> Snapshot:
        """Journal the end of a child; the snapshot of this session alone."""
        returned = Returned(self.store.clock(), place, outcome)
        return self._advance(lambda _: returned)

    def _reserved(self, opened: OpenSession) -> str:
        too_deep = self.depth >= (self.max_depth or opened.playbook.max_depth)
        return "" if too_deep else super()._reserved(opened)
