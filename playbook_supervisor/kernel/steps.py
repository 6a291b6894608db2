"""The life cycle of one step: it is skipped, or checked, run and judged.

Every function here is a rule of the transition table: it takes the state, the step, the observation
and the time, and returns the event that follows for this step alone.
"""

from __future__ import annotations

from typing import Any

from playbook_supervisor.kernel import gates, tools
from playbook_supervisor.kernel.directives import (
    Begun,
    Checked,
    Finding,
    Probed,
    Report,
    Returned,
    Standing,
)
from playbook_supervisor.kernel.error_policy import Reaction
from playbook_supervisor.kernel.model import Step, item_number
from playbook_supervisor.kernel.recovery import untried
from playbook_supervisor.kernel.state import (
    OUTPUT,
    POSTCONDITION,
    PRECONDITION,
    TRIGGERED,
    UNDO,
    UNTIL,
    WITNESSES,
    Change,
    Entry,
    Event,
    State,
    merged,
    settle,
)
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Trigger,
)
from playbook_supervisor.records import replace

UNDO_REPORT = "undo"
"""The name of the condition that reports what was undone of an attempt."""
_NOT_THE_WORKERS: dict[str, Any] = {"error_guidance": "", "error_cause": "", "error_lasts": False}


def skip_earlier(state: State, step: Step, begun: Begun, at: int) -> Event:
    """Skip a step that comes before the one named by `--from`."""
    entry, said = state.next_entry(step.id, at), f"--from {begun.start}"
    skipped = replace(entry, decision=Decision.SKIPPED, human_response=said)
    return settle(skipped, EntryStatus.SKIPPED, at)


def before_run(state: State, step: Step, checked: Checked, at: int) -> Event:
    """Skip or pass over the step, fail it, open a gate, or launch it."""
    report = checked.reports[step.id]
    attempts = state.attempts(step.id)
    open_entry = attempts[-1] if attempts and not attempts[-1].settled else None
    entry = open_entry or replace(state.next_entry(step.id, at), item=report.item)
    if step.autonomy is Autonomy.SKIP or (report.passed_over and untried(attempts)):
        return _pass_over(entry, report, at)
    required = gates.required_before(step, tools.lacking(step, tools.allowed(state)))
    asks = required is not None and not gates.passed(state, step, required)
    if required and asks and item_number(step.id):  # before anything is looked at for the items
        return gates.open_gate(entry, required, Place.BEFORE, at)
    not_held = [probed for probed in report.conditions if not probed.held]
    accepted = {name for each in attempts for name in each.waived}  # for this very step
    waived = tuple(each.name for each in not_held if each.as_waived and each.name in accepted)
    failing = [probed for probed in not_held if probed.name not in waived]
    if failing:
        entry = replace(entry, evidence=_evidence(report))
        return _cannot_start(state, step, entry, failing, at)
    if step.for_each is not None:
        return _pass_over(entry, report, at)
    if required and asks:
        return gates.open_gate(entry, required, Place.BEFORE, at)
    breaking = _undecided_breaking_changes(entry, report)
    if step.autonomy is Autonomy.GATE_ON_BREAKING and breaking:
        entry = replace(entry, error=_said(breaking), error_code=TRIGGERED)
        reason, names = GateReason.AGREEMENT_BREAKING, (Trigger.AGREEMENT_BREAKING.value,)
        return gates.open_gate(entry, reason, Place.BEFORE, at, failing=names)
    launched = replace(
        entry,
        launched_at=at,
        waived=merged(entry.waived, waived),
        session=report.session,
        isolation=report.isolation,
    )
    if step.is_checkpoint:  # there is nothing to run
        return Event(Change.RETURNED, replace(launched, returned_at=at))
    return Event(Change.LAUNCHED, launched)


def _cannot_start(state: State, step: Step, entry: Entry, failing: list[Probed], at: int) -> Event:
    if _only_witnesses(failing) and step.for_each is None:
        return _ask_about_tests(entry, failing, Place.BEFORE, at)
    known = state.waived  # they were accepted, as they are now, for an earlier step only
    carried = tuple(each.name for each in failing if each.as_waived and each.name in known)
    codes = (each.code for each in failing if each.code not in ("", WITNESSES))
    entry = replace(
        entry,
        error="; ".join(
            each.line + (" (waived for an earlier step)" if each.name in carried else "")
            for each in failing
        ),
        error_code=next(codes, PRECONDITION),
    )
    reason = GateReason.PRECONDITION_FAIL
    only_carried = len(carried) == len(failing)
    asked_before = any(gate.reason in (reason, GateReason.WITNESSES) for gate in entry.gates)
    reaction = step.error_policy.handling(*entry.error_codes).reaction
    decides = reaction is Reaction.GATE or only_carried or asked_before
    if decides and step.for_each is None:  # a person cannot change the list, which is settled
        return gates.open_gate(entry, reason, Place.BEFORE, at, failing=_names(failing))
    return settle(entry, EntryStatus.FAILED, at)


def _ask_about_tests(entry: Entry, failing: list[Probed], place: Place, at: int) -> Event:
    """Open the gate about tests that have changed, whatever the error policy and the triggers."""
    entry = replace(entry, error=_lines(failing), error_code=WITNESSES, **_NOT_THE_WORKERS)
    return gates.open_gate(entry, GateReason.WITNESSES, place, at, failing=_names(failing))


def record_return(state: State, step: Step, returned: Returned, at: int) -> Event:
    """Record what the worker returned, before anything is checked."""
    outcome = returned.outcome
    entry = replace(
        state.last(step.id),
        returned_at=at,
        output=outcome.output,
        agent=outcome.agent,
        cached_from=outcome.cached_from,
    )
    if error := outcome.error:
        entry = replace(
            entry,
            error=error.message,
            error_code=error.code,
            error_guidance=error.guidance,
            error_cause=error.cause,
            error_lasts=error.lasts,
        )
    return Event(Change.RETURNED, entry)


def after_run(state: State, step: Step, checked: Checked, at: int) -> Event:
    """Settle the step as done or failed, or open a gate."""
    report = checked.reports[step.id]
    entry = state.last(step.id)
    rechecked = gates.rechecked(entry)
    erred = entry.erred and not rechecked
    failing, missing = _failing_after(report)
    implied = (Trigger.AGREEMENT_BREAKING,) if step.autonomy is Autonomy.GATE_ON_BREAKING else ()
    declared = (*step.escalation_triggers, *implied)
    accepted = (Trigger.AGREEMENT_BREAKING, Standing.ACCEPTED)
    findings = [each for each in report.findings if each.trigger in declared]
    findings = [each for each in findings if (each.trigger, each.standing) != accepted]
    cached = (f"cached: the output of {entry.cached_from}",) if entry.cached_from else ()
    entry = replace(entry, evidence=(*_evidence(report), *cached))
    only_failing = not (erred or findings or missing)
    if only_failing and _another_round(state, step, failing):
        entry = replace(entry, error=_lines(failing), error_code=UNTIL)
        return settle(entry, EntryStatus.FAILED, at)
    if only_failing and _only_witnesses(failing):
        return _ask_about_tests(entry, failing, Place.AFTER, at)
    fired = {finding.trigger for finding in findings}
    fired |= {Trigger.SUBAGENT_ERROR} if erred else set()
    fired |= {Trigger.POSTCONDITION_FAIL} if failing else set()
    triggers = [trigger for trigger in Trigger if trigger in fired and trigger in declared]
    if not (triggers or erred or failing or missing):
        if step.checkpoint and not gates.continued((entry,), GateReason.CHECKPOINT):
            return gates.open_gate(entry, GateReason.CHECKPOINT, Place.AFTER, at)
        return settle(entry, EntryStatus.DONE, at)
    names = _names(failing + missing) + tuple(finding.trigger.value for finding in findings)
    worker_error = entry.error if erred else ""
    unnamed = _not_named(findings, failing)
    errors = (worker_error, _lines(failing + missing), _said(unnamed))
    entry = replace(entry, error="; ".join(filter(None, errors)))
    if erred:
        names += (Trigger.SUBAGENT_ERROR.value,)
    else:
        code = POSTCONDITION if failing else TRIGGERED if triggers else OUTPUT
        entry = replace(entry, error_code=code, **_NOT_THE_WORKERS)
    if step.on_fail and not erred and _goes_back(state, step, failing, findings):
        return settle(replace(entry, back_to=step.on_fail.back_to), EntryStatus.FAILED, at)
    reaction = step.error_policy.handling(*entry.error_codes).reaction
    by_itself = erred or bool(failing)
    if not triggers and by_itself and (rechecked or reaction is Reaction.GATE):
        triggers = [Trigger.SUBAGENT_ERROR if erred else Trigger.POSTCONDITION_FAIL]
    if triggers:
        reason = GateReason(triggers[0].value)
        return gates.open_gate(entry, reason, Place.AFTER, at, failing=names)
    if missing and reaction in (Reaction.CONTINUE, Reaction.IGNORE):
        return settle(replace(entry, error_code=OUTPUT), EntryStatus.FAILED, at)
    if reaction is Reaction.IGNORE:
        waived = merged(entry.waived, (entry.error_code,))
        return settle(replace(entry, waived=waived), EntryStatus.DONE, at)
    return settle(entry, EntryStatus.FAILED, at)


def undone(state: State, step: Step, checked: Checked, _: int) -> Event:
    """Record what was undone of a failed attempt. Where that failed, the run does not go on."""
    entry = state.last(step.id)
    (report,) = (each for each in checked.reports[step.id].conditions if each.name == UNDO_REPORT)
    if report.held:
        return Event(Change.UNDONE, replace(entry, undone=report.evidence))
    error = f"{entry.error}; its changes could not be undone: {report.evidence}"
    failed = replace(entry, error=error, error_code=UNDO, undone="failed")
    return Event(Change.FAILED, failed)


def _pass_over(entry: Entry, report: Report, at: int) -> Event:
    """Skip the step. It may be the last, which answers for the playbook's outputs."""
    _, missing = _failing_after(report)
    if missing:
        failed = replace(entry, error=_lines(missing), error_code=OUTPUT)
        return settle(failed, EntryStatus.FAILED, at)
    evidence = (report.passed_over,) if report.passed_over else ()
    skipped = replace(entry, decision=Decision.SKIPPED, evidence=evidence)
    return settle(skipped, EntryStatus.SKIPPED, at)


def _failing_after(report: Report) -> tuple[list[Probed], list[Probed]]:
    failing = [probed for probed in report.conditions if not probed.held]
    missing = [probed for probed in failing if probed.code == OUTPUT]
    return [probed for probed in failing if probed not in missing], missing


def _another_round(state: State, step: Step, failing: list[Probed]) -> bool:
    """True if all that fails are conditions until which the step is repeated, and it may be.

    Changed tests do not count: they are asked about once nothing else fails.
    """
    rounds = 1 + sum(entry.error_code == UNTIL for entry in state.attempts(step.id))
    codes = {each.code for each in failing}
    return UNTIL in codes and codes <= {UNTIL, WITNESSES} and rounds < step.rounds


def _goes_back(state: State, step: Step, failing: list[Probed], findings: list[Finding]) -> bool:
    """True if all that stands against the step blames the work of an earlier one, and it may.

    A breaking change is for a person to decide.
    """
    breaking = any(each.trigger is Trigger.AGREEMENT_BREAKING for each in findings)
    blames = bool(failing or findings) and all(each.blames for each in failing)
    times = step.on_fail.times if step.on_fail else 0
    return blames and not breaking and gates.times_sent_back(state, step) < times


def _only_witnesses(failing: list[Probed]) -> bool:
    return bool(failing) and all(each.code == WITNESSES for each in failing)


def _undecided_breaking_changes(entry: Entry, report: Report) -> list[Finding]:
    """`continue` at a gate of this attempt means "fixed, check again".

    A finding that is still there was not decided by it.
    """
    undecided = {Standing.NEW}
    if gates.continued((entry,), GateReason.AGREEMENT_BREAKING):
        undecided.add(Standing.ANSWERED)
    return [
        finding
        for finding in report.findings
        if finding.trigger is Trigger.AGREEMENT_BREAKING and finding.standing in undecided
    ]


def _names(conditions: list[Probed]) -> tuple[str, ...]:
    return tuple(probed.name for probed in conditions)


def _lines(conditions: list[Probed]) -> str:
    return "; ".join(probed.line for probed in conditions)


def _not_named(findings: list[Finding], failing: list[Probed]) -> list[Finding]:
    """Without the verdicts of reports that a failing condition has named already."""
    return [
        finding
        for finding in findings
        if finding.trigger is not Trigger.VERDICT_FAIL
        or not any(finding.evidence.partition(": ")[0] in each.evidence for each in failing)
    ]


def _said(findings: list[Finding]) -> str:
    return "; ".join(f"{finding.trigger.value}: {finding.evidence}" for finding in findings)


def _evidence(report: Report) -> tuple[str, ...]:
    return tuple(probed.line for probed in report.conditions if probed.held)
