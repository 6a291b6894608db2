"""Decisions: who decided, and why."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseGate
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    ErrorPolicy,
    Resolution,
    Trigger,
)

FROM = "--from "
_TRIGGERS = frozenset(trigger.value for trigger in Trigger)
_OF_POLICY = frozenset({Trigger.SUBAGENT_ERROR, Trigger.POSTCONDITION_FAIL})
_BY_A_GATE = (Decision.GATE, Decision.ESCALATED)


def judge(case: AuditContext) -> Iterator[Problem]:
    """All of them."""
    for entry in case.journal.entries:
        yield from _escalated(case, entry)
        yield from _decided(case, entry)
        yield from _skipped(case, entry)
        yield from _answered(case, entry)


def _escalated(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """An entry is escalated if, and only if, it names a trigger (kai FR39)."""
    trigger = entry.trigger
    if trigger is None:
        if entry.decision is Decision.ESCALATED and "trigger" not in entry.unclear:
            message = f"{entry.name} is escalated, and names no trigger"
            yield found("AUD-ESCALATION", message, entry, "decision")
        return
    raised = [gate.reason for gate in entry.gates if gate.reason in (*_TRIGGERS, None)]
    if entry.decision in (Decision.AUTO, Decision.GATE, Decision.SKIPPED):
        message = f"{entry.name} names the trigger {trigger}, and was not escalated"
        yield found("AUD-TRIGGER", message, entry, "trigger")
    elif entry.gates and (not raised or raised[-1] not in (trigger.value, None)):
        message = f"{entry.name} names the trigger {trigger}, for which its last gate did not open"
        yield found("AUD-TRIGGER", message, entry, "trigger")
    elif not _may_fire(case, entry, trigger):
        message = f"{entry.name} names the trigger {trigger}, which the step does not declare"
        yield found("AUD-UNDECLARED", message, entry, "trigger")


def _may_fire(case: AuditContext, entry: LooseEntry, trigger: Trigger) -> bool:
    step = case.step(entry)
    if not step.id or trigger in step.declared:
        return True
    # the error policy raises these two, and so does a check after somebody said `continue`
    asked_again = len(entry.gates) > 1 or not case.journal.ours
    return trigger in _OF_POLICY and (asked_again or step.policy == ErrorPolicy.GATE)


def _decided(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    decision, why = entry.decision, ""
    if (
        case.pinned
        and case.step(entry).autonomy == Autonomy.SKIP
        and entry.status not in (EntryStatus.SKIPPED, None)
    ):
        why = f"its playbook passes it over, and it is {entry.status}"
    elif decision is Decision.SKIPPED and entry.status not in (EntryStatus.SKIPPED, None):
        why = f"its decision is `skipped`, and it is {entry.status}"
    elif decision in (Decision.AUTO, Decision.SKIPPED) and entry.gates:
        why = f"its decision is `{decision}`, and it had a gate"
    elif decision in _BY_A_GATE and case.journal.ours and not entry.gates:
        excused = entry.resolution is Resolution.ABORT or "gates" in entry.unclear
        why = "" if excused else f"its decision is `{decision}`, and it had no gate"
    if why:
        yield found("AUD-DECISION", f"{entry.name}: {why}", entry, "decision")


def _skipped(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """Only autonomy, `when`, `--from` or a person skips (chapter 3, property 5)."""
    if entry.status is not EntryStatus.SKIPPED:
        return
    if entry.human_response:
        if entry.decision is Decision.SKIPPED and not _before_the_start(case, entry):
            message = f"{entry.name} was skipped, and does not stand before that step"
            yield found("AUD-SKIP", message, entry, "human_response")
        return
    step = case.step(entry)
    by_playbook = step.autonomy in ("", Autonomy.SKIP) or step.conditional
    by_gate = entry.resolution in (Resolution.SKIP, Resolution.ABORT)
    match entry.decision:
        case Decision.SKIPPED:
            fits = by_playbook
        case Decision.AUTO:
            fits = by_gate
        case _:
            fits = by_gate or entry.resolution is None  # where no answer is: AUD-GATE-OPEN
    if not fits:
        message = f"{entry.name} was skipped, and neither its playbook nor a person said so"
        yield found("AUD-SKIP", message, entry, "status")


def _before_the_start(case: AuditContext, entry: LooseEntry) -> bool:
    """Whether `--from` leaves the step out, where that is what a person said."""
    kind, _, start = entry.human_response.partition(FROM)
    names = list(case.outline.by_id) if case.outline is not None else []
    if kind or entry.step_id not in names:
        return True
    return start in names and names.index(entry.step_id) < names.index(start)


def _answered(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """What a person said, said at a gate; an abort and `--from` need none."""
    if entry.resolution is Resolution.ABORT:
        return
    gates = [gate for gate in entry.gates if gate.answered]
    if gates:
        yield from _as_at_the_gate(entry, gates[-1])
        return
    said, key = entry.human_response, "human_response"
    if entry.decision is Decision.SKIPPED:
        stray = case.journal.ours and bool(said) and not said.startswith(FROM)
    elif entry.decision in _BY_A_GATE and not entry.gates:
        stray = False  # other tools keep no gates
    else:
        stray = bool(said)
        if entry.resolution not in (None, Resolution.RETRY):
            stray, key = True, "resolution"
    if stray:
        message = f"{entry.name} has an answer, and no gate was there to be answered"
        yield found("AUD-RESPONSE", message, entry, key)


def _as_at_the_gate(entry: LooseEntry, gate: LooseGate) -> Iterator[Problem]:
    """The flat keys repeat the last answer; a `retry` may come later, with a resume."""
    for key, of_entry, gates_key, of_gate in (
        ("human_response", entry.human_response, "text", gate.text),
        ("resolution", entry.resolution, "resolution", gate.resolution),
    ):
        later = key == "resolution" and of_entry is Resolution.RETRY
        unclear = key in entry.unclear or gates_key in gate.unclear
        if of_entry != of_gate and not later and not unclear:
            message = f"{entry.name}: `{key}` is not what its last gate was answered"
            yield found("AUD-RESPONSE", message, entry, key)
            return
