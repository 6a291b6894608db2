"""Gates: the choices that each offers, the question it asks, and what an answer does.

Every human decision goes through `answer`, and only an answer that names the gate being asked
reaches it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from playbook_supervisor.kernel import answers, requests
from playbook_supervisor.kernel.directives import Answered, Ask, Asked, Attempt, Run
from playbook_supervisor.kernel.model import Playbook, Step, base_of
from playbook_supervisor.kernel.state import (
    ABORTED,
    SENT_BACK,
    Change,
    Entry,
    Event,
    Gate,
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
    Resolution,
    Trigger,
)
from playbook_supervisor.records import replace

R, G = Resolution, GateReason

_BEFORE = (R.CONTINUE, R.SKIP, R.ABORT)
_AFTER = (R.CONTINUE, R.RETRY, R.ACCEPT, R.ABORT)

LONGEST_ERROR = 240  # characters of an error in a question; the journal has all of it

_LONGEST_ITEM = 40  # characters of an item in a question
_SENT = (SENT_BACK, "sent back")
_REFUSED = {R.RETRY: _SENT, R.BACK: _SENT, R.ABORT: (ABORTED, "aborted")}
_TRIGGERS = {trigger.value: trigger for trigger in Trigger}

CHOICES: dict[tuple[GateReason, Place], tuple[Resolution, ...]] = {
    (G.GATE_ALWAYS, Place.BEFORE): _BEFORE,
    (G.APPROVAL, Place.BEFORE): _BEFORE,
    (G.TOOLS, Place.BEFORE): _BEFORE,
    (G.CHECKPOINT, Place.BEFORE): _BEFORE,
    (G.CHECKPOINT, Place.AFTER): (R.CONTINUE, R.RETRY, R.ABORT),
    (G.PRECONDITION_FAIL, Place.BEFORE): (R.CONTINUE, R.ACCEPT, R.SKIP, R.ABORT),
    (G.AGREEMENT_BREAKING, Place.BEFORE): (R.ACCEPT, R.CONTINUE, R.SKIP, R.ABORT),
    (G.AGREEMENT_BREAKING, Place.AFTER): (R.ACCEPT, R.CONTINUE, R.RETRY, R.ABORT),
    (G.SUBAGENT_ERROR, Place.AFTER): _AFTER,
    (G.VERDICT_FAIL, Place.AFTER): _AFTER,
    (G.POSTCONDITION_FAIL, Place.AFTER): _AFTER,
    (G.WITNESSES, Place.BEFORE): (R.ACCEPT, R.CONTINUE, R.SKIP, R.ABORT),
    (G.WITNESSES, Place.AFTER): (R.ACCEPT, R.CONTINUE, R.RETRY, R.ABORT),
    (G.PERMISSION, Place.DURING): (R.ALLOW, R.ALWAYS, R.DENY, R.ABORT),
    (G.QUESTION, Place.DURING): (R.ANSWER, R.ABORT),
}
"""The choices of each gate, in the order in which they are offered. Where an earlier step can run
again, `back` is one more, before the last."""
MOST_BACK = 10  # times that one step sends back in a session

PLANNED = frozenset({G.GATE_ALWAYS, G.APPROVAL, G.TOOLS, G.CHECKPOINT})
"""The reasons of gates where nothing has failed: the playbook asks for it."""
ASKED = frozenset({G.PERMISSION, G.QUESTION})
"""The reasons of gates during a step: its agent asks for it."""
PASSED_ALONE = PLANNED - {G.APPROVAL}
"""The gates that autonomous mode passes by itself; an approval needs a person."""

_JUDGES = frozenset({G.VERDICT_FAIL, G.POSTCONDITION_FAIL, G.PRECONDITION_FAIL})
"""The reasons of gates that may be about the work of an earlier step."""
_OF_LOOP = frozenset({G.GATE_ALWAYS, G.APPROVAL, G.TOOLS})
"""The gates that are asked once for all items of a loop."""

_FIX_OR_RETRY = "Fix it and continue, retry the step, accept it as it is, or abort?"

_QUESTIONS: dict[tuple[GateReason, Place], str] = {
    (G.GATE_ALWAYS, Place.BEFORE): "{what} (step {step}) now: continue, skip it, or abort?",
    (G.APPROVAL, Place.BEFORE): (
        "{step} needs your approval: {what}, as shown below. Continue, skip it, or abort?"
    ),
    (G.TOOLS, Place.BEFORE): (
        "{step} is going to use {tools} ({what}): continue to allow this for the whole session, "
        "skip the step, or abort?"
    ),
    (G.CHECKPOINT, Place.BEFORE): "{what} Continue, skip this checkpoint, or abort?",
    (G.CHECKPOINT, Place.AFTER): "{step} is done. Continue, retry the step, or abort?",
    (G.PRECONDITION_FAIL, Place.BEFORE): (
        "{step} cannot start: {error}. Fix it and continue, accept it as it is, skip the step, "
        "or abort?"
    ),
    (G.AGREEMENT_BREAKING, Place.BEFORE): (
        "A breaking change was found before {step}: {error}. "
        "Accept it and go on, continue to check again, skip the step, or abort?"
    ),
    (G.AGREEMENT_BREAKING, Place.AFTER): (
        "{step} found a breaking change: {error}. "
        "Accept it and go on, continue to check again, retry the step, or abort?"
    ),
    (G.SUBAGENT_ERROR, Place.AFTER): f"{{worker}}: {{error}}. {_FIX_OR_RETRY}",
    (G.VERDICT_FAIL, Place.AFTER): (
        f"The verdict of {{step}} is not PASS: {{error}}. {_FIX_OR_RETRY}"
    ),
    (G.POSTCONDITION_FAIL, Place.AFTER): f"{{step}} has ended, but {{error}}. {_FIX_OR_RETRY}",
    (G.WITNESSES, Place.BEFORE): (
        "Before {step} tests have changed, or what they rest on: {error}. "
        "Accept this change, continue to check again, skip the step, or abort?"
    ),
    (G.WITNESSES, Place.AFTER): (
        "{step} has changed tests, or what they rest on: {error}. "
        "Accept this change, continue to check again, retry the step, or abort?"
    ),
}


def open_gate(
    entry: Entry, reason: GateReason, place: Place, at: int, *, failing: tuple[str, ...] = ()
) -> Event:
    """Add an open gate to the entry. A trigger makes the decision `escalated`, which stays."""
    gate = Gate(id=f"{entry.id}?{len(entry.gates) + 1}", reason=reason, place=place, opened_at=at)
    trigger = _TRIGGERS.get(reason.value, entry.trigger)
    decision = Decision.ESCALATED if trigger else Decision.GATE
    changed = replace(
        entry, decision=decision, trigger=trigger, failing=failing, gates=(*entry.gates, gate)
    )
    return Event(Change.GATE_OPENED, changed)


def open_during(state: State, step: Step, asked: Asked, at: int) -> Event:
    """Open the gate at which a running attempt waits: a rule of the table."""
    opened = open_gate(state.last(step.id), asked.reason, Place.DURING, at).entry
    gate = replace(opened.gates[-1], request=asked.request)
    return Event(Change.GATE_OPENED, replace(opened, gates=(*opened.gates[:-1], gate)))


def ask(state: State, attempt: Attempt, gate: Gate, meanwhile: Run | None = None) -> Ask:
    """The directive for an open gate; `meanwhile` other attempts run."""
    back = back_from(state.playbook, attempt.step.id, gate.reason)
    if times_sent_back(state, attempt.step) >= MOST_BACK:
        back = ()
    choices = offered(gate.reason, gate.place, gate.request, back=back)
    return Ask(gate.id, attempt, gate.reason, gate.place, choices, gate.request, meanwhile, back)


def offered(
    reason: GateReason, place: Place, request: requests.Request, *, back: Sequence[str] = ()
) -> tuple[Resolution, ...]:
    """The choices of a gate, if it exists; only what has a rule is allowed for the session. `back`
    are the earlier steps that can run again."""
    choices = CHOICES.get((reason, place), ())
    if reason is G.PERMISSION and not requests.rule_of(request):
        return tuple(choice for choice in choices if choice is not R.ALWAYS)
    if back and place is not Place.DURING:
        return (*choices[:-1], R.BACK, *choices[-1:])
    return choices


def back_from(playbook: Playbook, step_id: str, reason: GateReason) -> tuple[str, ...]:
    """The earlier steps to which this gate can send back, the one that it offers first."""
    return playbook.back_from(step_id, judged=reason in _JUDGES)


def times_sent_back(state: State, step: Step) -> int:
    """How often the step, or an item of its loop, has sent back to an earlier one."""
    return sum(base_of(entry.step_id) == base_of(step.id) for entry in state.past.sent_back)


def answer(state: State, step: Step, answered: Answered, at: int) -> Event:
    """Close the open gate with one of its choices: a rule of the table."""
    resolution, text = answered.resolution, answered.text
    entry = state.last(step.id)
    gate = replace(entry.gates[-1], answered_at=at, text=text, resolution=resolution)
    gate = replace(gate, by=answered.by, via=answered.via, role=answered.role)
    again = checks_again(gate)
    if resolution is Resolution.BACK:
        back = back_from(state.playbook, step.id, gate.reason)
        entry = replace(entry, back_to=answers.target_of(text) or back[0])
    if resolution is Resolution.ACCEPT and not again:
        entry = replace(entry, waived=merged(entry.waived, entry.failing))
    gates = (*entry.gates[:-1], gate)
    entry = replace(entry, gates=gates, human_response=text, resolution=resolution, failing=())
    before = gate.place is Place.BEFORE
    match resolution:
        case Resolution.ABORT if gate.place is Place.DURING:
            error = "aborted while it waited for an answer"
            return settle(replace(entry, error=error, error_code=ABORTED), EntryStatus.FAILED, at)
        case _ if gate.place is Place.DURING:
            return Event(Change.ANSWERED, entry)
        case Resolution.CONTINUE | Resolution.ACCEPT if before:
            return Event(Change.ANSWERED, replace(entry, error_code=""))
        case _ if again:
            return Event(Change.ANSWERED, entry)
        case Resolution.ACCEPT:
            return settle(entry, EntryStatus.DONE, at)
        case _ if before:
            return settle(entry, EntryStatus.SKIPPED, at)
        case _:
            if gate.reason is GateReason.CHECKPOINT:  # nothing else has failed
                code, what = _REFUSED[resolution]
                entry = replace(entry, error=f"{what} at its checkpoint", error_code=code)
            return settle(entry, EntryStatus.FAILED, at)


def checks_again(gate: Gate) -> bool:
    """True if the answer leads to another check, and settles and waives nothing by itself.

    A change of tests that was accepted is on record: the check holds if it finds the same change.
    """
    if gate.reason is G.WITNESSES and gate.resolution is Resolution.ACCEPT:
        return True
    return gate.resolution is Resolution.CONTINUE


def required_before(step: Step, lacking: Sequence[str] = ()) -> GateReason | None:
    """The gate that a step has before it where nothing has failed; `lacking` are tools to allow.

    One question is enough: an approval covers the step's tools, and both cover `gate_always`.
    """
    if step.is_checkpoint:
        return G.CHECKPOINT
    if step.approval:
        return G.APPROVAL
    if lacking:
        return G.TOOLS
    return G.GATE_ALWAYS if step.autonomy is Autonomy.GATE_ALWAYS else None


def continued(entries: Iterable[Entry], reason: GateReason) -> bool:
    """True if a human continued at a gate with this reason; `tools` counts for `gate_always`."""
    reasons = (reason, G.TOOLS) if reason is G.GATE_ALWAYS else (reason,)
    return any(
        gate.reason in reasons and gate.resolution is Resolution.CONTINUE
        for entry in entries
        for gate in entry.gates
    )


def passed(state: State, step: Step, reason: GateReason) -> bool:
    """True if the gate that the step has before it in any case was passed, for it or its loop."""
    loop = state.loop is not None
    entries = state.entries if loop else state.attempts(step.id)
    return continued(entries, reason) or (loop and _passed(reason, step.id) in state.past.passed)


def passed_for_loop(entries: Iterable[Entry]) -> frozenset[str]:
    """The gates of loops that were passed at these entries, as `Past.passed` has them."""
    return frozenset(
        _passed(gate.reason, entry.step_id)
        for entry in entries
        if entry.items
        for gate in entry.gates
        if gate.reason in _OF_LOOP and gate.resolution is Resolution.CONTINUE
    )


def _passed(reason: GateReason, step_id: str) -> str:
    """The key of a gate; one about tools counts for `gate_always`, as in `continued`."""
    return f"{G.GATE_ALWAYS if reason is G.TOOLS else reason}:{base_of(step_id)}"


def without(passed: frozenset[str], steps: Collection[str]) -> frozenset[str]:
    """What was passed, but for the gates before loops among these steps: they are asked again."""
    again = {f"{reason}:{name}" for reason in (G.GATE_ALWAYS, G.APPROVAL) for name in steps}
    return passed - again


def is_of_loop(entry: Entry) -> bool:
    """True if the last gate of the entry is asked once for all items of its loop."""
    return bool(entry.items and entry.gates) and entry.gates[-1].reason in _OF_LOOP


def skips_loop(entry: Entry) -> bool:
    """True if a person skipped the loop at its gate."""
    return is_of_loop(entry) and entry.resolution is Resolution.SKIP


def answered_during_run(entry: Entry) -> bool:
    """True if the last gate was during the run and is answered: the agent goes on with it."""
    return bool(entry.gates) and entry.gates[-1].place is Place.DURING and not entry.gates[-1].open


def rechecked(entry: Entry) -> bool:
    """True if an answer after the run led to another check: the worker's error no longer counts."""
    return any(gate.place is Place.AFTER and checks_again(gate) for gate in entry.gates)


def question(
    ask: Ask, entry: Entry, what: str, *, done: int, total: int, tools: Sequence[str] = ()
) -> str:
    """The question of an open gate, one or two sentences: a pure function of its entry.

    `what` says what the step does, or is a checkpoint's message; `tools` are to be allowed.
    """
    if ask.place is Place.DURING:
        asked = requests.question(ask.request, ask.reason, ask.member.own_id)
        return f"{asked} {progress(done, total)} done."
    error, rest = parts_of_error(entry.error)
    error = f"{error} …" if rest else error.rstrip(".") or "something is missing"
    step, item = ask.member.step.id, entry.item
    if is_of_loop(entry):
        step, what = base_of(step), f"{what}, for each of {counted(entry.items)}"
    elif item:
        cut = item if len(item) <= _LONGEST_ITEM else f"{item[: _LONGEST_ITEM - 1]}…"
        step = f"{step} ({cut})"
    worker = f"The agent failed at {step}" if ask.member.step.needs_agent else f"{step} failed"
    named = " and ".join(filter(None, (", ".join(tools[:-1]), *tools[-1:])))
    text = _QUESTIONS[ask.reason, ask.place].format(
        step=step, what=what, error=error, worker=worker, tools=named
    )
    text = f"{_repeated(ask, entry)}{text}"
    return f"{text.replace('….', '…')} {progress(done, total)} done."


def _repeated(ask: Ask, entry: Entry) -> str:
    former = entry.gates[-2] if len(entry.gates) > 1 else None
    if former is None or former.reason is not ask.reason or Resolution.ACCEPT not in ask.choices:
        return ""
    if ask.reason is not G.WITNESSES:
        return "Still the case (answer accept to go on anyway): "
    accepted = former.resolution is Resolution.ACCEPT
    return "The tests have changed again: " if accepted else "Still to be decided: "


def parts_of_error(error: str) -> tuple[str, str]:
    """An error as a question shows it, cut between problems or else words, and the rest."""
    error = " ".join(error.split())
    if len(error) <= LONGEST_ERROR:
        return error, ""
    for end in ("; ", " "):
        if (at := error.rfind(end, 1, LONGEST_ERROR)) > 0:
            break
    else:
        at, end = LONGEST_ERROR, ""
    return error[:at], error[at + len(end) :]


def counted(items: int) -> str:
    """`12 items`."""
    return f"{items} {'item' if items == 1 else 'items'}"


def progress(done: int, total: int) -> str:
    """`7/8 steps`."""
    return f"{done}/{total} {'step' if total == 1 else 'steps'}"
