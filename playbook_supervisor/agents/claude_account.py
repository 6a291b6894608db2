"""What a call has used, over all processes of the client that it took. Pure."""

from __future__ import annotations

from playbook_supervisor.agents.claude_stream import Stream
from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.records import Record, field, replace


class Account(Record, frozen=False):
    """`streams` are the processes in their order; `retries` counts those begun afresh.

    A conversation that is taken up again sums up what it used before, too: of each, the largest
    sum counts.
    """

    streams: list[Stream] = field(default_factory=list)
    retries: int = 0

    @property
    def turns(self) -> int:
        return sum(stream.turns for stream in self.streams)

    @property
    def tool_calls(self) -> int:
        return sum(stream.tool_calls for stream in self.streams)

    def as_journaled(self, name: str) -> dict[str, str | int | float]:
        """The journal's `agent`, with what is known."""
        last = self.streams[-1] if self.streams else Stream()
        costs = self._costs()
        known: dict[str, str | int | float | None] = {
            "name": name,
            "id": last.session or None,
            "model": next((each.model for each in reversed(self.streams) if each.model), None),
            "cost_usd": round(sum(costs.values()), 6) if costs else None,
            "input_tokens": sum(self._largest("input_tokens").values()) or None,
            "output_tokens": sum(self._largest("output_tokens").values()) or None,
            "turns": self.turns or None,
            "retries": self.retries or None,
        }
        return {key: value for key, value in known.items() if value is not None}

    def left_of(self, budget: Budget, session: str = "") -> Budget:
        """What another process may use: in the conversation `session`, or in a new one."""
        turns, cost = budget.max_turns, budget.max_cost_usd
        others = sum(cost for id_, cost in self._costs().items() if id_ != session)
        return replace(
            budget,
            max_turns=None if turns is None else turns - self.turns,
            max_cost_usd=None if cost is None else cost - others,
        )

    def _costs(self) -> dict[str, float]:
        """Of each conversation, as far as the client has summed up."""
        costs: dict[str, float] = {}
        for stream in self.streams:
            if (cost := stream.usage.cost_usd) is not None:
                costs[stream.session] = max(cost, costs.get(stream.session, 0.0))
        return costs

    def _largest(self, what: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for stream in self.streams:
            found[stream.session] = max(getattr(stream.usage, what), found.get(stream.session, 0))
        return found
