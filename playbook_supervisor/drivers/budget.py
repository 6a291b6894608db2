"""A run's limits, and how much of them the next step may use, given what the journal has spent."""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.agents.protocol import Agent, Budget, keeps_budgets
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.kernel.directives import Run
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.sessions.supervisor import Supervisor

NO_LIMITS = Budget()


def remaining(limits: Budget, supervisor: Supervisor, snapshot: Snapshot) -> Budget:
    """A step's budget: turns and tool calls count for each step, the cost for the whole run.

    The steps of a parallel group share the remaining cost.
    """
    if limits.max_cost_usd is None:
        return limits
    spent = sum(
        cost
        for entry in supervisor.store.journal(supervisor.id).entries
        if isinstance(cost := entry.agent.get("cost_usd"), int | float) and cost >= 0
    )
    sharing = len(snapshot.directive.members) if isinstance(snapshot.directive, Run) else 1
    return Budget(
        limits.max_turns, limits.max_tool_calls, (limits.max_cost_usd - spent) / max(sharing, 1)
    )


def merged(requested: Budget, stored: Mapping[str, float]) -> Budget:
    """The requested limits; the session's stored ones where none is requested.

    Unknown stored keys are ignored.
    """
    limits = {**stored, **to_session(requested)}
    turns, calls = limits.get("max_turns"), limits.get("max_tool_calls")
    return Budget(
        None if turns is None else int(turns),
        None if calls is None else int(calls),
        limits.get("max_cost_usd"),
    )


def to_session(limits: Budget) -> dict[str, float]:
    """The limits that are set, as the session remembers them."""
    return {name: value for name, value in as_mapping(limits).items() if value is not None}


def unenforceable(agent: Agent, limits: Budget) -> str:
    """Why the agent cannot keep these limits, or nothing."""
    if limits == NO_LIMITS or keeps_budgets(agent):
        return ""
    options = ", ".join(f"--{name.replace('_', '-')}" for name in to_session(limits))
    return f"the agent {agent.name} does not report its usage, so it cannot keep {options}"


def require_enforceable(agent: Agent, requested: Budget) -> None:
    """ArgumentError PB-ARG-AGENT where the agent cannot keep the requested limits."""
    if problem := unenforceable(agent, requested):
        guidance = "Omit the limit, or use --agent claude; --timeout works with every agent."
        raise ArgumentError("PB-ARG-AGENT", problem, guidance=guidance)
