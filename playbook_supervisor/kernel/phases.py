"""A phase: one step, or the members of a parallel group, from due to settled.

A phase is asked first (`Check`), then its gates are put one at a time, then everything in it runs
at once, then all that returned is asked again and judged together (kai FR22). What the members
mean to each other stands here; what may happen to one of them stands in `table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.directives import (
    Attempt,
    Check,
    Directive,
    Finding,
    Finish,
    Probed,
    Report,
    Run,
    Standing,
)
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.recovery import due_again
from playbook_supervisor.kernel.state import (
    NOT_STARTED,
    POSTCONDITION,
    PRECONDITION,
    TRIGGERED,
    Change,
    Entry,
    Event,
    Position,
    State,
    merged,
    once,
    settle,
)
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    ErrorPolicy,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.records import replace

_BEFORE_RUN = frozenset({Position.DUE, Position.CLEARED})
_THROUGH = frozenset({Position.DONE, Position.SKIPPED})
_NOT_STARTED_TEXT = "another step of its group failed first"


def position(step: Step, attempts: tuple[Entry, ...]) -> Position:
    """Where a step stands, read off the keys of its last entry."""
    if not attempts:
        return Position.DUE
    entry = attempts[-1]
    match entry.status:
        case EntryStatus.DONE:
            return Position.DONE
        case EntryStatus.SKIPPED:
            return Position.SKIPPED
        case EntryStatus.FAILED:
            return Position.DUE if due_again(attempts, step.error_policy) else Position.FAILED
        case _:
            if entry.gate is not None:
                return Position.GATED if entry.gate.place is Place.BEFORE else Position.HELD
            if entry.launched_at is None:
                return Position.CLEARED
            return Position.RUNNING if entry.returned_at is None else Position.RETURNED


@once
def positions(state: State) -> Mapping[str, Position]:
    """Step id → position, for the members of the due phase, in order."""
    return {step.id: position(step, state.attempts(step.id)) for step in state.phase or ()}


def is_due(state: State, step: Step) -> bool:
    """Whether no attempt at the step has begun, or another is to follow."""
    return position(step, state.attempts(step.id)) is Position.DUE


def attempt(state: State, step: Step) -> Attempt:
    """The attempt that is open, or the next one."""
    entries = state.attempts(step.id)
    if not entries:
        return Attempt(step, 1)
    last = entries[-1]
    return Attempt(step, last.attempt + 1 if last.settled else last.attempt)


@once
def status(state: State) -> SessionStatus:
    """The session's status: a projection of the entries (kai data model, Session Status)."""
    if state.pristine:
        return SessionStatus.PENDING
    if any(entry.resolution is Resolution.ABORT for entry in state.entries):
        return SessionStatus.ABORTED
    if state.phase is None:
        return SessionStatus.COMPLETED
    if any(not entry.settled for entry in state.entries):
        return SessionStatus.IN_PROGRESS
    if Position.FAILED in positions(state).values():
        return SessionStatus.FAILED
    return SessionStatus.IN_PROGRESS


@once
def outstanding(state: State) -> Directive:
    """The one thing that must happen next: gates first, then what runs, then judgement."""
    where = positions(state)
    ended = status(state)
    if ended in (SessionStatus.COMPLETED, SessionStatus.FAILED, SessionStatus.ABORTED):
        return Finish(ended)
    phase = state.phase or ()
    for step in phase:
        if where[step.id] in (Position.GATED, Position.HELD):
            gate = state.attempts(step.id)[-1].gates[-1]
            return gates.ask(attempt(state, step), gate)
    running = [step for step in phase if where[step.id] is Position.RUNNING]
    if running:
        return Run(tuple(attempt(state, step) for step in running))
    returned = [step for step in phase if where[step.id] is Position.RETURNED]
    if returned:
        return _check(state, Place.AFTER, returned)
    return _check(state, Place.BEFORE, [step for step in phase if where[step.id] in _BEFORE_RUN])


def _check(state: State, place: Place, members: list[Step]) -> Check:
    attempts = tuple(attempt(state, step) for step in members)
    asked = sum(len(entry.gates) for entry in state.entries)
    names = "+".join(member.id for member in attempts)
    return Check(id=f"{place}:{names}.{asked}", place=place, members=attempts)


# ── before the work ─────────────────────────────────────────────────────────────────────────


def begin(state: State, check: Check, reports: Mapping[str, Report], at: int) -> tuple[Event, ...]:
    """What a `Checked` before the work begins: skips, failures, gates, or the launch of all."""
    events = tuple(_before(state, member, reports[member.step.id], at) for member in check.members)
    changes = {event.change for event in events}
    if Change.FAILED in changes:
        return _failed_before(state, check, events, at)
    if Change.GATE_OPENED in changes:
        return tuple(event for event in events if event.change is not Change.LAUNCHED)
    return events


def _failed_before(
    state: State, check: Check, events: tuple[Event, ...], at: int
) -> tuple[Event, ...]:
    """One member cannot begin, so none does; who has passed a gate is settled as not started."""
    kept = []
    for member, event in zip(check.members, events, strict=True):
        entry = _open_entry(state, member)
        if event.change in (Change.FAILED, Change.SKIPPED):
            kept.append(event)
        elif entry is not None:
            kept.append(_not_started(entry, at))
    return tuple(kept)


def _before(state: State, member: Attempt, report: Report, at: int) -> Event:
    """What the order of one step says before it runs (1 to 4), for this member alone."""
    step = member.step
    entry = _open_entry(state, member) or Entry(
        step_id=step.id,
        status=EntryStatus.IN_PROGRESS,
        decision=Decision.AUTO,
        started_at=at,
        attempt=member.number,
    )
    if step.autonomy is Autonomy.SKIP:
        return settle(replace(entry, decision=Decision.SKIPPED), EntryStatus.SKIPPED, at)
    broken = [probed for probed in report.conditions if not probed.held]
    waived = tuple(
        probed.name for probed in broken if probed.as_waived and probed.name in state.waived
    )
    failing = [probed for probed in broken if probed.name not in waived]
    if failing:
        entry = replace(
            entry, error=_text(failing), error_code=PRECONDITION, evidence=_evidence(report)
        )
        if step.error_policy is ErrorPolicy.GATE:
            reason = GateReason.PRECONDITION_FAIL
            return gates.opened(entry, reason, Place.BEFORE, at, failing=_names(failing))
        return settle(entry, EntryStatus.FAILED, at)
    if step.autonomy is Autonomy.GATE_ALWAYS and not gates.continued(
        state.attempts(step.id), GateReason.GATE_ALWAYS
    ):
        return gates.opened(entry, GateReason.GATE_ALWAYS, Place.BEFORE, at)
    breaking = _unanswered(entry, report)
    if step.autonomy is Autonomy.GATE_ON_BREAKING and breaking:
        entry = replace(entry, error=_said(breaking), error_code=TRIGGERED)
        reason, names = GateReason.AGREEMENT_BREAKING, (Trigger.AGREEMENT_BREAKING.value,)
        return gates.opened(entry, reason, Place.BEFORE, at, failing=names)
    launched = replace(entry, launched_at=at, waived=merged(entry.waived, waived))
    return Event(Change.LAUNCHED, launched)


def _unanswered(entry: Entry, report: Report) -> list[Finding]:
    """The breaking findings that still need a human before this attempt.

    `continue` at this attempt's own gate says "mended, look again", so a finding that is still
    there is no more settled by it than a new one.
    """
    need = {Standing.NEW}
    if gates.continued((entry,), GateReason.AGREEMENT_BREAKING):
        need.add(Standing.ANSWERED)
    return [
        finding
        for finding in report.findings
        if finding.trigger is Trigger.AGREEMENT_BREAKING and finding.standing in need
    ]


def _open_entry(state: State, member: Attempt) -> Entry | None:
    entries = state.attempts(member.step.id)
    return entries[-1] if entries and not entries[-1].settled else None


def _not_started(entry: Entry, at: int) -> Event:
    """A member with a passed gate that may not start, because another failed for good."""
    entry = replace(entry, error=_NOT_STARTED_TEXT, error_code=NOT_STARTED)
    return settle(entry, EntryStatus.FAILED, at)


# ── after the work ──────────────────────────────────────────────────────────────────────────


def judge(state: State, check: Check, reports: Mapping[str, Report], at: int) -> tuple[Event, ...]:
    """What a `Checked` after the work makes of each member (5 to 9)."""
    return tuple(
        _after(state.attempts(member.step.id)[-1], member.step, reports[member.step.id], at)
        for member in check.members
    )


def _after(entry: Entry, step: Step, report: Report, at: int) -> Event:
    again = gates.rechecked(entry)
    erred = entry.erred and not again
    failing = [probed for probed in report.conditions if not probed.held]
    findings = _raised(step, report)
    triggers = _fired(step, erred=erred, findings=findings, failing=failing)
    entry = replace(entry, evidence=_evidence(report))
    if not (triggers or erred or failing):
        return settle(entry, EntryStatus.DONE, at)
    names = _names(failing) + tuple(finding.trigger.value for finding in findings)
    own = entry.error if erred else ""
    entry = replace(entry, error="; ".join(filter(None, (own, _text(failing), _said(findings)))))
    if erred:
        names += (entry.error_code,)
    else:
        entry = replace(
            entry,
            error_code=POSTCONDITION if failing else TRIGGERED,
            error_guidance="",
            error_cause="",
            error_lasts=False,
        )
    if not triggers and (again or step.error_policy is ErrorPolicy.GATE):
        triggers = [Trigger.SUBAGENT_ERROR if erred else Trigger.POSTCONDITION_FAIL]
    if triggers:
        reason = GateReason(triggers[0].value)
        return gates.opened(entry, reason, Place.AFTER, at, failing=names)
    return settle(entry, EntryStatus.FAILED, at)


def _declared(step: Step) -> tuple[Trigger, ...]:
    implied = (Trigger.AGREEMENT_BREAKING,) if step.autonomy is Autonomy.GATE_ON_BREAKING else ()
    return (*step.escalation_triggers, *implied)


def _raised(step: Step, report: Report) -> list[Finding]:
    """The findings that this step asked to be told of, but for accepted breaking changes."""
    return [
        finding
        for finding in report.findings
        if finding.trigger in _declared(step)
        and (finding.trigger, finding.standing) != (Trigger.AGREEMENT_BREAKING, Standing.ACCEPTED)
    ]


def _fired(
    step: Step, *, erred: bool, findings: list[Finding], failing: list[Probed]
) -> list[Trigger]:
    """The step's declared triggers that fire, in the order of the vocabulary (kai FR27)."""
    fires = {finding.trigger for finding in findings}
    if erred:
        fires.add(Trigger.SUBAGENT_ERROR)
    if failing:
        fires.add(Trigger.POSTCONDITION_FAIL)
    declared = _declared(step)
    return [trigger for trigger in Trigger if trigger in fires and trigger in declared]


def _names(conditions: list[Probed]) -> tuple[str, ...]:
    return tuple(probed.name for probed in conditions)


def _text(conditions: list[Probed]) -> str:
    return "; ".join(f"{probed.name}: {probed.evidence}" for probed in conditions)


def _said(findings: list[Finding]) -> str:
    return "; ".join(f"{finding.trigger.value}: {finding.evidence}" for finding in findings)


def _evidence(report: Report) -> tuple[str, ...]:
    return tuple(f"{probed.name}: {probed.evidence}" for probed in report.conditions if probed.held)


def through(state: State) -> bool:
    """Whether every member of the due phase is done or skipped, and nothing was aborted."""
    return all(where in _THROUGH for where in positions(state).values()) and not any(
        entry.resolution is Resolution.ABORT for entry in state.entries
    )


def current_step(state: State) -> str:
    """The id of the first step that is not done or skipped; empty when all are."""
    return next((name for name, where in positions(state).items() if where not in _THROUGH), "")


def steps_done(state: State) -> int:
    """How many steps of the playbook are done or skipped: the `done` of the progress.

    The one at which a session was aborted is neither.
    """
    aborted = {entry.step_id for entry in state.entries if entry.resolution is Resolution.ABORT}
    here = positions(state).items()
    return state.past.steps + sum(where in _THROUGH and name not in aborted for name, where in here)
