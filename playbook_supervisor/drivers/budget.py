"""What a run's limits leave for a step: what was spent so far stands in its journal."""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.agents.protocol import Agent, Budget, keeps_budgets
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.kernel.directives import Run
from playbook_supervisor.records import as_mapping, fields
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.sessions.supervisor import Supervisor

NO_LIMITS = Budget()


def left(limits: Budget, supervisor: Supervisor, outlook: Snapshot) -> Budget:
    """Turns and tool calls are a step's; the cost is the whole run's, shared by a group."""
    if limits.max_cost_usd is None:
        return limits
    spent = sum(
        cost
        for entry in supervisor.store.journal(supervisor.id).entries
        if isinstance(cost := entry.agent.get("cost_usd"), int | float)
    )
    at_once = len(outlook.directive.members) if isinstance(outlook.directive, Run) else 1
    return Budget(
        limits.max_turns, limits.max_tool_calls, (limits.max_cost_usd - spent) / max(at_once, 1)
    )


def combined(asked: Budget, remembered: Mapping[str, float]) -> Budget:
    """What is asked for now goes before what the session was begun with."""
    before = recalled(remembered)
    return Budget(
        *(
            getattr(before, name) if getattr(asked, name) is None else getattr(asked, name)
            for name in fields(Budget)
        )
    )


def recalled(remembered: Mapping[str, float]) -> Budget:
    """Limits from the runtime state, read leniently: another version may have written them."""
    turns, calls = remembered.get("max_turns"), remembered.get("max_tool_calls")
    return Budget(
        None if turns is None else int(turns),
        None if calls is None else int(calls),
        remembered.get("max_cost_usd"),
    )


def to_remember(limits: Budget) -> dict[str, float]:
    """The limits that there are, as the runtime state keeps them."""
    return {name: value for name, value in as_mapping(limits).items() if value is not None}


def unkept(agent: Agent, limits: Budget) -> str:
    """That the agent cannot hold itself to these limits, or nothing."""
    if limits == NO_LIMITS or keeps_budgets(agent):
        return ""
    options = ", ".join(f"--{name.replace('_', '-')}" for name in to_remember(limits))
    return f"the agent {agent.name} does not say what it uses: nothing holds it to {options}"


def require_keeping(agent: Agent, asked: Budget) -> None:
    """ArgumentError PB-ARG-AGENT where the agent cannot hold itself to what is asked for."""
    if said := unkept(agent, asked):
        guidance = "Leave the limit out, or take the agent claude; --timeout bounds every agent."
        raise ArgumentError("PB-ARG-AGENT", said, guidance=guidance)
