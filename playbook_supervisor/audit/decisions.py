"""Decisions: who decided, and why."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseGate
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.kernel.error_policy import Reaction
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    Place,
    Resolution,
    Trigger,
)

FROM = "--from "
_TRIGGERS = frozenset(trigger.value for trigger in Trigger)
_BY_POLICY = frozenset({Trigger.SUBAGENT_ERROR, Trigger.POSTCONDITION_FAIL})
_AT_A_GATE = (Decision.GATE, Decision.ESCALATED)


def check(context: AuditContext) -> Iterator[Problem]:
    """Decisions that their entry contradicts."""
    for entry in context.journal.entries:
        yield from _escalated(context, entry)
        yield from _decided(context, entry)
        yield from _skipped(context, entry)
        yield from _answered(context, entry)


def _escalated(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    trigger = entry.trigger
    if trigger is None:
        if entry.decision is Decision.ESCALATED and "trigger" not in entry.unclear:
            message = f"{entry.name} is escalated, but names no trigger"
            yield found("AUD-ESCALATION", message, entry, "decision")
        return
    raised = [gate.reason for gate in entry.gates if gate.reason in (*_TRIGGERS, None)]
    if entry.decision in (Decision.AUTO, Decision.GATE, Decision.SKIPPED):
        message = f"{entry.name} names the trigger {trigger}, but was not escalated"
        yield found("AUD-TRIGGER", message, entry, "trigger")
    elif entry.gates and (not raised or raised[-1] not in (trigger.value, None)):
        message = f"{entry.name} names the trigger {trigger}, but its last gate had another reason"
        yield found("AUD-TRIGGER", message, entry, "trigger")
    elif not _may_fire(context, entry, trigger):
        message = f"{entry.name} names the trigger {trigger}, which its step does not declare"
        yield found("AUD-UNDECLARED", message, entry, "trigger")


def _may_fire(context: AuditContext, entry: LooseEntry, trigger: Trigger) -> bool:
    step = context.step(entry)
    if not step.id or trigger in step.declared:
        return True
    # the error policy raises these two, and so does a check after the answer `continue`
    judged = [gate for gate in entry.gates if gate.place is not Place.DURING]
    asked_again = len(judged) > 1 or not context.journal.ours
    by_policy = step.policy is not None and step.policy.reacts(Reaction.GATE)
    return trigger in _BY_POLICY and (asked_again or by_policy)


def _decided(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    decision, why = entry.decision, ""
    if (
        context.files.pinned
        and context.step(entry).autonomy == Autonomy.SKIP
        and entry.status not in (EntryStatus.SKIPPED, None)
    ):
        why = f"its playbook skips it, but it is {entry.status}"
    elif decision is Decision.SKIPPED and entry.status not in (EntryStatus.SKIPPED, None):
        why = f"its decision is `skipped`, but it is {entry.status}"
    elif decision in (Decision.AUTO, Decision.SKIPPED) and entry.gates:
        why = f"its decision is `{decision}`, but it had a gate"
    elif decision in _AT_A_GATE and context.journal.ours and not entry.gates:
        excused = entry.resolution is Resolution.ABORT or "gates" in entry.unclear
        why = "" if excused else f"its decision is `{decision}`, but it had no gate"
    if why:
        yield found("AUD-DECISION", f"{entry.name}: {why}", entry, "decision")


def _skipped(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    if entry.status is not EntryStatus.SKIPPED:
        return
    if entry.human_response:
        if entry.decision is Decision.SKIPPED and not _before_the_start(context, entry):
            message = f"{entry.name} was skipped, but does not come before that step"
            yield found("AUD-SKIP", message, entry, "human_response")
        return
    step = context.step(entry)
    by_playbook = step.autonomy in ("", Autonomy.SKIP) or step.conditional or step.loop
    by_gate = entry.resolution in (Resolution.SKIP, Resolution.BACK, Resolution.ABORT)
    match entry.decision:
        case Decision.SKIPPED:
            fits = by_playbook
        case Decision.AUTO:
            fits = by_gate
        case _:
            fits = by_gate or entry.resolution is None  # without an answer: AUD-GATE-OPEN
    if not fits:
        message = f"{entry.name} was skipped, but neither by its playbook nor by a person"
        yield found("AUD-SKIP", message, entry, "status")


def _before_the_start(context: AuditContext, entry: LooseEntry) -> bool:
    """True if `--from` skips the step; True if the response is something else."""
    kind, _, start = entry.human_response.partition(FROM)
    names = list(context.outline.by_id) if context.outline is not None else []
    if kind or entry.step not in names:
        return True
    return start in names and names.index(entry.step) < names.index(start)


def _answered(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """An answer needs a gate, except an abort and `--from`."""
    if entry.resolution is Resolution.ABORT:
        return
    gates = [gate for gate in entry.gates if gate.answered]
    if gates:
        yield from _differs_from_gate(entry, gates[-1])
        return
    response, key = entry.human_response, "human_response"
    if entry.decision is Decision.SKIPPED:
        stray = context.journal.ours and bool(response) and not response.startswith(FROM)
    elif entry.decision in _AT_A_GATE and not entry.gates:
        stray = False  # other tools write no gates
    else:
        stray = bool(response)
        if entry.resolution not in (None, Resolution.RETRY):
            stray, key = True, "resolution"
    if stray:
        message = f"{entry.name} has an answer, but no gate"
        yield found("AUD-RESPONSE", message, entry, key)


def _differs_from_gate(entry: LooseEntry, gate: LooseGate) -> Iterator[Problem]:
    """The entry repeats its last gate's answer; only a `retry` may come later, from a resume."""
    for key, in_entry, gate_key, in_gate in (
        ("human_response", entry.human_response, "text", gate.text),
        ("resolution", entry.resolution, "resolution", gate.resolution),
    ):
        later = key == "resolution" and in_entry is Resolution.RETRY
        unclear = key in entry.unclear or gate_key in gate.unclear
        if in_entry != in_gate and not later and not unclear:
            message = f"{entry.name}: `{key}` differs from its last gate's answer"
            yield found("AUD-RESPONSE", message, entry, key)
            return
