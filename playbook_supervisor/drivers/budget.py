"""The budget of the next step, by the limits of the run, the step and the playbook.

A limit that a person gives to `run` or `resume` counts instead of the playbook's; a step's own
counts instead of the playbook's for each step. The cost and the tokens that a run or a playbook
allows are those of all its steps, so the journal says what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from playbook_supervisor.agents.protocol import Agent, Budget, keeps_budgets
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.kernel.directives import Attempt, Run
from playbook_supervisor.kernel.model import Limits, Playbook
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree

NO_LIMITS = Budget()
_UNKEPT = "does not report its usage, so it cannot keep"
_TOTALS = {"max_cost_usd": "cost_usd", "max_tokens": "weighed_tokens"}
"""Limit of all steps together → the figure of an entry that counts."""


def remaining(run: Budget, tree: SessionTree, snapshot: Snapshot, attempt: Attempt) -> Budget:
    """The budget of an attempt. Attempts that run at once share what is left for all.

    The totals of a playbook count for the children of its session, too, and what a person allows
    for the run for the whole tree.
    """
    asked, own = to_session(run), to_session(_budget(attempt.step.limits))
    sharing = len(snapshot.directive.members) if isinstance(snapshot.directive, Run) else 1
    session = snapshot.of(attempt)
    limits = {**to_session(_budget(session.state.playbook.limits)), **own, **asked}
    for name, figure in _TOTALS.items():
        lefts = [
            allowed - spent
            for allowed, spent in _allowances(asked, tree, snapshot, attempt, name, figure)
        ]
        if lefts:
            left = min(lefts) / max(sharing, 1)
            limits[name] = min(limits.get(name, left), left)
    return merged(NO_LIMITS, limits)


def _allowances(
    asked: Mapping[str, float],
    tree: SessionTree,
    snapshot: Snapshot,
    attempt: Attempt,
    name: str,
    figure: str,
) -> Iterator[tuple[float, float]]:
    """The limits, and what is spent of them, for the run and each session above the attempt."""
    if name in asked:
        yield asked[name], _spent(tree.store, tree.id, figure)
        return
    places = attempt.within.split("/") if attempt.within else []
    while True:
        playbook = to_session(_budget(snapshot.state.playbook.limits))
        if name in playbook:
            yield playbook[name], _spent(tree.store, snapshot.session_id, figure)
        if not places:
            return
        snapshot = snapshot.children[places.pop(0)]


def _budget(limits: Limits) -> Budget:
    return Budget(limits.max_turns, limits.max_tool_calls, limits.max_cost_usd, limits.max_tokens)


def _spent(store: DiskStore, session_id: str, figure: str) -> float:
    entries = store.journal(session_id).entries
    figures = (entry.agent.get(figure) for entry in entries)
    own = sum(each for each in figures if isinstance(each, int | float) and each >= 0)
    children = {entry.session for entry in entries if entry.session}
    kept = store.ids() if children else []
    return own + sum(_spent(store, child, figure) for child in children if child in kept)


def merged(requested: Budget, stored: Mapping[str, float]) -> Budget:
    """The requested limits, else the session's stored ones; unknown stored keys are ignored."""
    limits = {**stored, **to_session(requested)}
    whole = {
        name: int(limits[name])
        for name in ("max_turns", "max_tool_calls", "max_tokens")
        if name in limits
    }
    return Budget(**whole, max_cost_usd=limits.get("max_cost_usd"))


def to_session(limits: Budget) -> dict[str, float]:
    """The limits that are set, as the session remembers them."""
    return {name: value for name, value in as_mapping(limits).items() if value is not None}


def unenforceable(agent: Agent, limits: Budget) -> str:
    """Why the agent cannot keep these limits, or nothing."""
    if limits == NO_LIMITS or keeps_budgets(agent):
        return ""
    options = ", ".join(f"--{name.replace('_', '-')}" for name in to_session(limits))
    return f"the agent {agent.name} {_UNKEPT} {options}"


def unkept(agent: Agent, playbook: Playbook) -> str:
    """Which limits of the playbook or its steps the agent cannot keep, or nothing."""
    stated = (playbook.limits, *(step.limits for step in playbook.steps))
    names = dict.fromkeys(name for each in stated for name in to_session(_budget(each)))
    if not names or keeps_budgets(agent):
        return ""
    return f"the agent {agent.name} {_UNKEPT} the playbook's {', '.join(names)}"


def require_enforceable(
    agent: Agent, requested: Budget, playbooks: Iterable[Playbook] = ()
) -> None:
    """ArgumentError PB-ARG-AGENT if the agent cannot keep these or the playbooks' limits."""
    stated = (unkept(agent, playbook) for playbook in playbooks)
    if problem := unenforceable(agent, requested) or next(filter(None, stated), ""):
        guidance = "Omit the limit, or use --agent claude; --timeout works with every agent."
        raise ArgumentError("PB-ARG-AGENT", problem, guidance=guidance)
