"""Gates: what each one offers, what it asks, and what an answer does to its entry.

Every decision of a human goes through `answer`, and `answer` is reached only by the id of the
gate that is being asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from playbook_supervisor.kernel.directives import Ask, Attempt
from playbook_supervisor.kernel.state import Change, Entry, Event, Gate, merged, settle
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    Trigger,
)
from playbook_supervisor.records import replace

R, G = Resolution, GateReason

_BEFORE = (R.CONTINUE, R.SKIP, R.ABORT)
_PRECONDITION = (R.CONTINUE, R.ACCEPT, R.SKIP, R.ABORT)
_AFTER = (R.CONTINUE, R.RETRY, R.ACCEPT, R.ABORT)

_LONGEST = 240  # characters of an error in a question; the journal has all of it

_TRIGGERS = {trigger.value: trigger for trigger in Trigger}

CHOICES: dict[tuple[GateReason, Place], tuple[Resolution, ...]] = {
    (G.GATE_ALWAYS, Place.BEFORE): _BEFORE,
    (G.PRECONDITION_FAIL, Place.BEFORE): _PRECONDITION,
    (G.AGREEMENT_BREAKING, Place.BEFORE): (R.ACCEPT, R.CONTINUE, R.SKIP, R.ABORT),
    (G.AGREEMENT_BREAKING, Place.AFTER): (R.ACCEPT, R.CONTINUE, R.RETRY, R.ABORT),
    (G.SUBAGENT_ERROR, Place.AFTER): _AFTER,
    (G.VERDICT_FAIL, Place.AFTER): _AFTER,
    (G.POSTCONDITION_FAIL, Place.AFTER): _AFTER,
}
"""What may be answered at each gate, in the order in which it is offered."""

_ASKED: dict[tuple[GateReason, Place], str] = {
    (G.GATE_ALWAYS, Place.BEFORE): "Run {command} (step {step}) now: continue, skip it, or abort?",
    (G.PRECONDITION_FAIL, Place.BEFORE): (
        "{step} cannot begin: {error}. Mend it and continue, accept it as it is, skip or abort?"
    ),
    (G.AGREEMENT_BREAKING, Place.BEFORE): (
        "A breaking change stands before {step}: {error}. "
        "Accept it and go on, continue to check again, skip or abort?"
    ),
    (G.AGREEMENT_BREAKING, Place.AFTER): (
        "{step} found a breaking change: {error}. "
        "Accept it and go on, continue to check again, retry or abort?"
    ),
    (G.SUBAGENT_ERROR, Place.AFTER): (
        "The agent failed at {step}: {error}. "
        "Mend it and continue, retry the step, accept it as it is, or abort?"
    ),
    (G.VERDICT_FAIL, Place.AFTER): (
        "{step} ended with a verdict that is not PASS: {error}. "
        "Mend it and continue, retry the step, accept it as it is, or abort?"
    ),
    (G.POSTCONDITION_FAIL, Place.AFTER): (
        "{step} ended, but {error}. "
        "Mend it and continue, retry the step, accept it as it is, or abort?"
    ),
}


def opened(
    entry: Entry,
    reason: GateReason,
    place: Place,
    at: int,
    *,
    failing: tuple[str, ...] = (),
) -> Event:
    """The entry with a further gate that waits. A trigger makes it `escalated`, which stays."""
    gate = Gate(id=f"{entry.id}?{len(entry.gates) + 1}", reason=reason, place=place, opened_at=at)
    trigger = _TRIGGERS.get(reason.value, entry.trigger)
    decision = Decision.ESCALATED if trigger else Decision.GATE
    changed = replace(
        entry, decision=decision, trigger=trigger, failing=failing, gates=(*entry.gates, gate)
    )
    return Event(Change.GATE_OPENED, changed)


def ask(attempt: Attempt, gate: Gate) -> Ask:
    """The directive that puts an open gate."""
    return Ask(
        id=gate.id,
        member=attempt,
        reason=gate.reason,
        place=gate.place,
        choices=CHOICES[gate.reason, gate.place],
    )


def answer(entry: Entry, resolution: Resolution, text: str, by: str, at: int) -> Event:
    """The entry after its open gate has been answered with one of its choices (kai FR26, FR38)."""
    gate = replace(entry.gates[-1], answered_at=at, by=by, text=text, resolution=resolution)
    if resolution is Resolution.ACCEPT:
        entry = replace(entry, waived=merged(entry.waived, entry.failing))
    entry = replace(
        entry,
        gates=(*entry.gates[:-1], gate),
        human_response=text,
        resolution=resolution,
        failing=(),
    )
    before = gate.place is Place.BEFORE
    match resolution:
        case Resolution.CONTINUE | Resolution.ACCEPT if before:
            return Event(Change.ANSWERED, replace(entry, error_code=""))
        case Resolution.CONTINUE:
            return Event(Change.ANSWERED, entry)
        case Resolution.ACCEPT:
            return settle(entry, EntryStatus.DONE, at)
        case Resolution.RETRY:
            return settle(entry, EntryStatus.FAILED, at)
        case _:
            return settle(entry, EntryStatus.SKIPPED if before else EntryStatus.FAILED, at)


def continued(entries: Iterable[Entry], reason: GateReason) -> bool:
    """Whether a human has said `continue` at a gate of that reason in one of these attempts."""
    return any(
        gate.reason is reason and gate.resolution is Resolution.CONTINUE
        for entry in entries
        for gate in entry.gates
    )


def rechecked(entry: Entry) -> bool:
    """Whether a human said that it is mended: then the old error counts no longer."""
    return any(
        gate.place is Place.AFTER and gate.resolution is Resolution.CONTINUE for gate in entry.gates
    )


def question(ask: Ask, entry: Entry, *, done: int, total: int) -> str:
    """The question of an open gate, one or two sentences: a pure function of its entry.

    It says what happened, what is asked, and how far the session is (kai S-U2: under 30 s).
    """
    error = " ".join(entry.error.split()).rstrip(".") or "something is missing"
    if len(error) > _LONGEST:
        error = f"{error[: _LONGEST - 1].rstrip()}…"
    asked = _ASKED[ask.reason, ask.place].format(
        step=ask.member.step.id, command=ask.member.step.command, error=error
    )
    again = [gate.reason for gate in entry.gates[:-1]][-1:] == [ask.reason]
    if again and Resolution.ACCEPT in ask.choices:
        asked = f"Still so (to go on as it is, say accept): {asked}"
    return f"{asked} {done}/{total} steps done."
