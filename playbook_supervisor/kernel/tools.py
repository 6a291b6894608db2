"""The tools of an agent's steps, and what a person has allowed in this session.

A tool is named by a rule, as in `tools:` of a step: `Write`, or `Bash(git diff *)` for a part of
what `Bash` can do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.requests import rule_of
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.kernel.vocabulary import GateReason, Resolution

READ_ONLY = ("Glob", "Grep", "Read")
"""The tools of a prompt that names none: they change nothing and start nothing."""

_PREFIX = f"{GateReason.TOOLS}:"
_ALWAYS = f"{GateReason.PERMISSION}:"


def _tool(rule: str) -> str:
    """`Bash(git diff *)` → `Bash`; what is not one rule, `Read(a),Bash`, as it is."""
    name, _, part = rule.partition("(")
    return rule if part and part.find(")") != len(part) - 1 else name


def lacking(step: Step, allowed: Collection[str]) -> tuple[str, ...]:
    """The rules of the step that are not read-only, not allowed, and no part of an allowed tool."""
    return tuple(rule for rule in changing(step.tools) if not {rule, _tool(rule)} & {*allowed})


def changing(rules: Iterable[str]) -> tuple[str, ...]:
    """The rules that allow more than reading, each once."""
    return tuple(rule for rule in dict.fromkeys(rules) if _tool(rule) not in READ_ONLY)


def lacking_in(steps: Iterable[Step]) -> dict[str, tuple[str, ...]]:
    """Step id → what a run of these steps is going to ask about, if a person allows each time."""
    asked: dict[str, tuple[str, ...]] = {}
    known: set[str] = set()
    for step in steps:
        asked[step.id] = lacking(step, known)
        if not step.approval:
            known.update(step.tools)
    return asked


def allowed(state: State) -> frozenset[str]:
    """The rules that were allowed at a gate of this session."""
    passed = state.past.passed | passed_at(state.playbook.step, state.entries)
    return frozenset(key[len(_PREFIX) :] for key in passed if key.startswith(_PREFIX))


def passed_at(step: Callable[[str], Step], entries: Iterable[Entry]) -> frozenset[str]:
    """The rules allowed at the gates of these entries, as `Past.passed` has them: `tools:Write`."""
    return frozenset(
        f"{_PREFIX}{rule}"
        for entry in entries
        for gate in entry.gates
        if gate.reason is GateReason.TOOLS and gate.resolution is Resolution.CONTINUE
        for rule in step(entry.step_id).tools
    )


def always_allowed(state: State) -> tuple[str, ...]:
    """The rules of the calls that a person allowed for the whole session, sorted."""
    passed = state.past.passed | always_at(state.entries)
    return tuple(sorted(key[len(_ALWAYS) :] for key in passed if key.startswith(_ALWAYS)))


def always_at(entries: Iterable[Entry]) -> frozenset[str]:
    """The rules allowed for the session at these entries: `permission:Bash(npm test *)`."""
    return frozenset(
        f"{_ALWAYS}{rule}"
        for entry in entries
        for gate in entry.gates
        if gate.resolution is Resolution.ALWAYS and (rule := rule_of(gate.request))
    )
