"""How a drive ended."""

from __future__ import annotations

from dataclasses import dataclass

from playbook_supervisor.kernel.state import Entry, last_entries
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DriveResult:
    """How a drive ended: `why` is the session's status, `waiting`, `paused` or `interrupted`."""

    snapshot: Snapshot
    why: str
    signal: int = 0
    context: GateContext | None = None  # helps to answer the gate that is left open

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The whole journal as it is now, oldest first."""
        return self.snapshot.store.journal(self.snapshot.session_id).entries

    @property
    def steps(self) -> dict[str, Entry]:
        """The last attempt at each step that began, by the step's id."""
        return last_entries(self.entries)

    @property
    def exit_code(self) -> int:
        """0 completed, 2 failed or aborted, 4 waiting or paused, 128 + signal interrupted."""
        if self.why == "interrupted":
            return 128 + self.signal
        return {"completed": 0, "failed": 2, "aborted": 2}.get(self.why, 4)
