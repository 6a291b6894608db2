"""The properties of a session, as assertions about single moments of a history.

A moment is one accepted observation with the states before and after it. Each law looks at the
journal alone, as a reviewer would, and does not use the kernel's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import pytest

from kernel.world import Journal, illegal, repeated, taken_in
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import (
    Answered,
    Ask,
    Asked,
    Begun,
    Cancellation,
    Cancelled,
    Check,
    Checked,
    Directive,
    Finish,
    Lost,
    Observation,
    Returned,
    Run,
    Standing,
    TakenUp,
    describe,
)
from playbook_supervisor.kernel.gates import CHOICES
from playbook_supervisor.kernel.machine import decide, directive, evolve, replay
from playbook_supervisor.kernel.model import Step, base_of, item_number
from playbook_supervisor.kernel.phases import failures, position, positions, status
from playbook_supervisor.kernel.state import (
    INTERRUPTED,
    ITEMS,
    NOT_STARTED,
    OUTPUT,
    UNDO,
    UNTIL,
    WITNESSES,
    Change,
    Entry,
    Event,
    Position,
    State,
    last_entries,
)
from playbook_supervisor.kernel.table import TABLE, Move
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)

ENDED = (SessionStatus.COMPLETED, SessionStatus.FAILED, SessionStatus.ABORTED)
TRIGGERS = frozenset(trigger.value for trigger in Trigger)
SETTLED = (EntryStatus.DONE, EntryStatus.SKIPPED)


@dataclass(frozen=True, slots=True)
class Moment:
    """One accepted observation. `journal` and `written` are the entries before and after it.

    `rebuilt` is the state before it, replayed from the journal; `asked` was outstanding then.
    """

    before: State
    rebuilt: State
    asked: Directive
    journal: Journal
    observation: Observation
    events: tuple[Event, ...]
    after: State
    written: Journal


@dataclass(frozen=True, slots=True)
class Known:
    """A state, its journal, the state replayed from it, and what is outstanding."""

    state: State
    journal: Journal
    rebuilt: State
    asked: Directive

    @classmethod
    def of(cls, state: State, journal: Journal) -> Known:
        return cls(state, journal, replay(state.playbook, journal), directive(state))


def moment(known: Known, observation: Observation) -> Moment:
    events = decide(known.state, observation)
    after = known.state
    for event in events:
        after = evolve(after, event)
    written = taken_in(known.journal, events)
    return Moment(
        known.state, known.rebuilt, known.asked, known.journal, observation, events, after, written
    )


def changes(now: Moment) -> Iterator[tuple[Entry | None, Event]]:
    """Each event with the previous version of its entry."""
    former = {entry.id: entry for entry in now.journal}
    for event in now.events:
        yield former.get(event.entry.id), event


# ── the ten properties ────────────────────────────────────────────────────────────────────


def never_stuck(now: Moment) -> None:
    """1: some directive is always outstanding, or the session has ended."""
    ended = status(now.after)
    match directive(now.after):
        case Finish(status=said):
            assert said is ended
            assert ended in ENDED
        case Check(members=members) | Run(members=members):
            assert members
            assert ended not in ENDED
        case Ask(reason=reason, place=place, choices=choices, back=back):
            usual = CHOICES[reason, place]
            goes_back = (*usual[:-1], Resolution.BACK, usual[-1])
            assert choices == (goes_back if back and place is not Place.DURING else usual)
            assert ended is SessionStatus.IN_PROGRESS


def replayable(now: Moment) -> None:
    """2: `replay(journal)` is the state, after every single write."""
    assert replay(now.after.playbook, now.written) == now.after


def a_query(now: Moment) -> None:
    """3: asked twice, `directive` answers the same, also after a replay."""
    assert directive(now.before) == now.asked
    assert directive(now.rebuilt) == now.asked


def refuses(state: State, journal: Journal, at: int, *, first: int = 0, stride: int = 1) -> int:
    """4: an unexpected observation is refused, naming what is outstanding, and changes nothing.

    A repeated report is accepted and changes nothing. Only one in `stride` observations is tried,
    starting with number `first`. Returns how many were refused.
    """
    refused = 0
    asked = directive(state)
    words = describe(asked)
    entries, past = state.entries, state.past
    for observation in islice(illegal(state, journal, at), first, None, stride):
        refusal = refusal_of(state, observation)
        if refusal is None:
            pytest.fail(f"{observation} was accepted while {words} is outstanding")
        assert refusal.code == "PB-STATE-REFUSED"
        assert words in refusal.message
        refused += 1
    for observation in repeated(journal, at):
        assert decide(state, observation) == (), observation
    assert (state.entries, state.past) == (entries, past)
    assert directive(state) == asked
    return refused


def refusal_of(state: State, observation: Observation) -> StateError | None:
    try:
        decide(state, observation)
    except StateError as refusal:
        return refusal
    return None


def in_order(now: Moment) -> None:
    """5: nothing starts before all earlier phases are settled or is skipped without a reason."""
    last = last_entries(now.journal)
    phase_of = now.before.playbook.phase_of
    for former, event in changes(now):
        name = event.entry.step_id
        step = now.before.playbook.step(name)
        if event.change is Change.LAUNCHED:
            for other, phase in phase_of.items():
                if phase < phase_of[base_of(name)]:
                    for before in (each for id_, each in last.items() if base_of(id_) == other):
                        goes_on = tolerated(now.before.playbook.step(other), before)
                        assert before.status in SETTLED or goes_on or raised(before)
                        assert before.resolution is not Resolution.ABORT
        if event.entry.status is EntryStatus.SKIPPED:
            match now.observation:
                case Checked(reports=reports):
                    passed = reports[name].passed_over
                    assert step.autonomy is Autonomy.SKIP or passed
                    assert event.entry.evidence == ((passed,) if passed else ())
                    assert not any(
                        entry.gates or (entry.has_returned and entry.error_code != OUTPUT)
                        for entry in attempts_before(now, name)
                    )
                case Begun(start=start):
                    assert event.entry.human_response == f"--from {start}"
                case Answered(resolution=said):
                    assert said in (Resolution.SKIP, Resolution.BACK, Resolution.ABORT)
                    assert event.entry.resolution is said
                case Cancelled(how=how):
                    assert how is Cancellation.ABORT
                    assert event.entry.resolution is Resolution.ABORT
                case _:
                    pytest.fail(f"{now.observation} skipped {event.entry.id}")
        undone = former is not None and (former.undone != event.entry.undone)
        aborted = event.entry.resolution is Resolution.ABORT
        again = event.change is Change.TAKEN_UP or undone or aborted
        assert former is None or not former.settled or again


def standing(state: State, journal: Journal) -> Journal:
    """The entries that count: without those of steps that are to run again, or have."""
    kept: list[Entry] = []
    phase_of, target, senders = state.playbook.phase_of, len(state.playbook.steps), 0
    for entry in journal:
        if senders and phase_of[base_of(entry.step_id)] <= target:
            kept = [each for each in kept if phase_of[base_of(each.step_id)] < target]
            target, senders = len(state.playbook.steps), 0
        kept.append(entry)
        if entry.back_to:
            target, senders = min(target, phase_of[entry.back_to]), senders + 1
    if (
        senders
        and state.past.sent_back[-senders:] == tuple(e for e in kept if e.back_to)[-senders:]
    ):
        kept = [each for each in kept if phase_of[base_of(each.step_id)] < target]
    return tuple(kept)


def goes_back(now: Moment) -> None:
    """An earlier step runs again only after an answer or an `on_fail` that names it."""
    for former, event in changes(now):
        entry, playbook = event.entry, now.before.playbook
        if entry.back_to and not (former and former.back_to):
            phase_of = playbook.phase_of
            assert phase_of[entry.back_to] < phase_of[base_of(entry.step_id)]
            named = playbook.step(base_of(entry.step_id)).on_fail
            by_a_person = isinstance(now.observation, Answered)
            assert by_a_person or (named is not None and named.back_to == entry.back_to)
            if not by_a_person and named is not None:
                before = [e for e in now.journal if e.back_to and e.step_id == entry.step_id]
                assert len(before) < named.times
                assert not erred(entry)
        former_attempts = attempts_before(now, entry.step_id)[: None if former is None else -1]
        assert all(each.status not in SETTLED for each in former_attempts)


def attempts_before(now: Moment, step_id: str) -> list[Entry]:
    """The attempts at a step before the observation that count."""
    return [each for each in standing(now.before, now.journal) if each.step_id == step_id]


def passed_by_a_human(now: Moment) -> None:
    """6: a gate is passed only by an `Answered` that names it (or the abort of its session)."""
    asked = now.asked
    for former, event in changes(now):
        old = former.gates if former else ()
        for was, gate in zip(old, event.entry.gates, strict=False):
            if was == gate:
                continue
            assert was.open
            assert isinstance(asked, Ask)
            assert asked.id == gate.id
            if isinstance(now.observation, Answered):
                assert now.observation.id == gate.id
                assert now.observation.text == gate.text == event.entry.human_response
            else:
                assert isinstance(now.observation, Cancelled)
                assert gate.resolution is Resolution.ABORT
        if former and former.gate and event.entry.gate is None:
            assert isinstance(now.observation, Answered | Cancelled)
        step = now.before.playbook.step(event.entry.step_id)
        if event.change is Change.LAUNCHED:
            assert not event.entry.gates or not event.entry.gates[-1].open
            if step.approval or step.autonomy is Autonomy.GATE_ALWAYS:
                reasons = ("approval",) if step.approval else ("gate_always", "tools")
                assert any(
                    gate.reason in reasons and gate.resolution is Resolution.CONTINUE
                    for entry in now.written
                    if base_of(entry.step_id) == base_of(step.id)
                    for gate in entry.gates
                )
            if "Write" in step.tools:
                assert step.approval or any(
                    gate.reason == "tools" and gate.resolution is Resolution.CONTINUE
                    for entry in now.written
                    if "Write" in now.before.playbook.step(entry.step_id).tools
                    for gate in entry.gates
                )


def escalated(now: Moment) -> None:
    """7: a trigger that fires opens a gate; an entry is `escalated` if and only if it names one."""
    for entry in now.written:
        assert (entry.decision is Decision.ESCALATED) == (entry.trigger is not None)
        named = [gate.reason.value for gate in entry.gates if gate.reason.value in TRIGGERS]
        assert (entry.trigger.value if entry.trigger else None) == (named[-1] if named else None)
    if not isinstance(now.observation, Checked):
        return
    for former, event in changes(now):
        if former is None or former.returned_at is None:
            continue
        step = now.before.playbook.step(former.step_id)
        known = attempts_before(now, step.id)
        rounds = 1 + sum(entry.error_code == UNTIL for entry in known)
        fired = fires(step, former, now.observation, rounds)
        if fired and not event.entry.back_to:
            assert event.change is Change.GATE_OPENED
            assert event.entry.gates[-1].reason.value == fired[0].value


def fires(step: Step, entry: Entry, checked: Checked, rounds: int) -> list[Trigger]:
    """The declared triggers that a check after the run of this round must fire."""
    report = checked.reports[step.id]
    declared = set(step.escalation_triggers)
    if step.autonomy is Autonomy.GATE_ON_BREAKING:
        declared.add(Trigger.AGREEMENT_BREAKING)
    found = {finding.trigger: finding.standing for finding in report.findings}
    fire = set()
    if erred(entry):
        fire.add(Trigger.SUBAGENT_ERROR)
    if found.get(Trigger.AGREEMENT_BREAKING, Standing.ACCEPTED) is not Standing.ACCEPTED:
        fire.add(Trigger.AGREEMENT_BREAKING)
    if Trigger.VERDICT_FAIL in found:
        fire.add(Trigger.VERDICT_FAIL)
    if not all(probed.held for probed in report.conditions):
        fire.add(Trigger.POSTCONDITION_FAIL)
    until = {probed.name for probed in report.conditions if probed.code == UNTIL}
    failing = {probed.name for probed in report.conditions if not probed.held}
    others = fire & (declared | {Trigger.SUBAGENT_ERROR}) - {Trigger.POSTCONDITION_FAIL}
    changed = {probed.name for probed in report.conditions if probed.code == WITNESSES}
    another = bool(until) and failing - changed == until and rounds < step.rounds
    if not others and (another or failing == changed):  # the next round begins, or a person looks
        fire -= {Trigger.POSTCONDITION_FAIL}
    return [trigger for trigger in Trigger if trigger in fire & declared]


def erred(entry: Entry) -> bool:
    """Whether the worker failed, and no person has let it be checked again since."""
    checked_again = any(
        gate.place is Place.AFTER
        and (
            gate.resolution is Resolution.CONTINUE
            or (gate.reason, gate.resolution) == ("witnesses", Resolution.ACCEPT)
        )
        for gate in entry.gates
    )
    return entry.error_code.startswith(("PB-AGENT-", "PB-STEP-")) and not checked_again


def asks_about_tests(now: Moment) -> None:
    """Changed tests open a gate if nothing else fails. Its `accept` waives and settles nothing."""
    said = now.observation
    about_tests = isinstance(now.asked, Ask) and now.asked.reason == "witnesses"
    if about_tests and isinstance(said, Answered) and said.resolution is Resolution.ACCEPT:
        ((former, event),) = changes(now)
        assert former is not None
        assert event.change is Change.ANSWERED
        assert event.entry.waived == former.waived
    if not isinstance(said, Checked):
        return
    for former, event in changes(now):
        entry = event.entry
        step = now.before.playbook.step(entry.step_id)
        attempts = attempts_before(now, step.id)
        waived = {name for each in attempts for name in each.waived}
        returned = former is not None and former.returned_at is not None
        failing = [each for each in said.reports[step.id].conditions if not each.held]
        if not returned:
            failing = [each for each in failing if not (each.as_waived and each.name in waived)]
        alone = bool(failing) and all(each.code == WITNESSES for each in failing)
        opened = event.change is Change.GATE_OPENED and entry.gates[-1].reason == "witnesses"
        assert alone or not opened
        if former is not None and returned:
            rounds = 1 + sum(each.error_code == UNTIL for each in attempts)
            others = erred(former) or entry.back_to or fires(step, former, said, rounds)
            assert opened == (alone and not others)
        elif alone:
            assert event.change is not Change.LAUNCHED
            assert event.change is not Change.FAILED or entry.error_code == NOT_STARTED


def retried_as_allowed(now: Moment) -> None:
    """8: at most 1 + 1 automatic attempts under `retry_once`, 1 + N under `retry:N`, else one."""
    for name in last_entries(now.written):
        step = now.before.playbook.step(name)
        all_of_it = [entry.attempt for entry in now.written if entry.step_id == name]
        assert all_of_it == list(range(1, len(all_of_it) + 1))
        counting = standing(now.after, now.written)
        attempts = [entry for entry in counting if entry.step_id == name]
        assert sum(entry.error_code == UNTIL for entry in attempts) < max(1, step.rounds)
        for number, former in enumerate(filter(by_itself, attempts[:-1]), 1):
            assert number <= step.error_policy.handling(*former.error_codes).retries


def by_itself(entry: Entry) -> bool:
    """Whether the attempt failed, and neither a human nor a crash is why another follows."""
    repeated = entry.error_code in (INTERRUPTED, UNTIL)
    return entry.resolution is not Resolution.RETRY and not repeated


def waits(now: Moment) -> None:
    """A retry waits 1 s, 2 s, 4 s after the failure, as the journal alone says."""
    asked = directive(now.after)
    if not isinstance(asked, Check):
        return
    due = []
    for member in asked.members if asked.place is Place.BEFORE else ():
        counting = standing(now.after, now.written)
        attempts = [entry for entry in counting if entry.step_id == member.step.id]
        retried = [entry for entry in attempts if by_itself(entry) and entry.status == "failed"]
        if attempts and attempts[-1] in retried:
            handling = member.step.error_policy.handling(*attempts[-1].error_codes)
            assert handling.word in ("retry_once", "retry:2"), handling
            if handling.backoff:
                due.append((attempts[-1].completed_at or 0) + 500 * 2 ** len(retried))
    assert asked.not_before == (max(due) if due else None)


def forgiven(now: Moment) -> None:
    """A failure is waived by itself under `ignore` only, and counted under `continue`."""
    counted = 0
    for name, entry in last_entries(standing(now.after, now.written)).items():
        step = now.before.playbook.step(name)
        word = step.error_policy.handling(*entry.error_codes).word
        counted += tolerated(step, entry)
        if entry.status is EntryStatus.DONE and entry.error_code and not entry.gates:
            assert word == "ignore"
            assert entry.waived[-1:] == (entry.error_code,)
    assert failures(now.after) == counted


def tolerated(step: Step, entry: Entry) -> bool:
    """Whether the run goes on after this last attempt, which failed."""
    word = step.error_policy.handling(*entry.error_codes).word
    return (
        entry.status is EntryStatus.FAILED
        and word in ("continue", "ignore")
        and entry.resolution not in (Resolution.ABORT, Resolution.RETRY)
        and entry.error_code not in (INTERRUPTED, NOT_STARTED, OUTPUT, UNDO, UNTIL)
        and not (step.undo and entry.ran and not entry.undone)
    )


def keeps_its_child(now: Moment) -> None:
    """A step with a playbook names its child session from its launch on, and is not interrupted."""
    for former, event in changes(now):
        entry = event.entry
        if event.change is Change.LAUNCHED and isinstance(now.observation, Checked):
            assert entry.session == now.observation.reports[entry.step_id].session
        else:
            assert entry.session == (former.session if former else "")
        assert not (entry.session and entry.error_code == INTERRUPTED)


def raised(entry: Entry) -> bool:
    """Whether a loop that had no list of items was taken up, and then had one."""
    return entry.error_code == ITEMS and entry.resolution is Resolution.RETRY


def looped(now: Moment) -> None:
    """The items of a loop begin in order, so many at a time, and none runs again once it is done.

    All their entries say how many there are.
    """
    for loop in (step for step in now.before.playbook.steps if step.for_each):
        assert loop.for_each is not None
        counting = standing(now.after, now.written)
        entries = [each for each in counting if item_number(each.step_id)]
        entries = [each for each in entries if base_of(each.step_id) == loop.id]
        assert len({each.items for each in entries}) <= 1
        assert all(0 < item_number(each.step_id) <= each.items for each in entries)
        finished: set[int] = set()
        for entry in entries:
            number = item_number(entry.step_id)
            assert number not in finished
            batch = (number - 1) // loop.for_each.at_once
            assert finished >= set(range(1, batch * loop.for_each.at_once + 1))
            goes_on = tolerated(now.before.playbook.step(entry.step_id), entry)
            if entry.status in SETTLED or goes_on:
                finished.add(number)


def in_time(now: Moment) -> None:
    """9: entries are in the order in which they began, and times never go back."""
    started = [entry.started_at for entry in now.written]
    assert started == sorted(started)
    assert [entry.id for entry in now.written][: len(now.journal)] == [e.id for e in now.journal]
    for former, event in changes(now):
        entry = event.entry
        assert entry.settled == (entry.completed_at is not None)
        assert entry.completed_at is None or entry.completed_at >= entry.started_at
        if former:
            assert (former.started_at, former.id) == (entry.started_at, entry.id)
        elif event.change in (Change.FAILED, Change.SKIPPED):
            assert entry.started_at == entry.completed_at
        if event.change is not Change.TAKEN_UP and not (former and former.settled):
            assert entry.latest == max(now.observation.at, now.before.latest)


def nothing_else_counts(now: Moment) -> None:
    """10: the same playbook, journal and observation have the same consequences."""
    assert decide(now.rebuilt, now.observation) == now.events


# ── further rules for the journal ─────────────────────────────────────────────────────────


def well_formed(now: Moment) -> None:
    """Keys that depend on each other agree, in every entry of the journal."""
    for entry in now.written:
        gate = entry.gate
        assert [one.id for one in entry.gates] == [
            f"{entry.id}?{number}" for number in range(1, len(entry.gates) + 1)
        ]
        assert all(one.resolution is not None for one in entry.gates[:-1])
        assert (gate is not None) or not entry.failing
        if entry.status is EntryStatus.DONE and entry.decision is Decision.AUTO:
            assert not entry.gates
            assert entry.resolution is None
        if entry.status is EntryStatus.FAILED:
            assert entry.error
            assert entry.error_code
        if gate:
            assert (entry.launched_at is None) == (gate.place is Place.BEFORE)
        if entry.gates and entry.resolution in (Resolution.SKIP, Resolution.ACCEPT):
            answered = [one for one in entry.gates if one.resolution]
            assert entry.resolution is answered[-1].resolution
            assert entry.human_response == answered[-1].text


def asked_at_work(now: Moment) -> None:
    """A gate during a step opens only for a running attempt, which then returns only answered."""
    for former, event in changes(now):
        opened = event.entry.gates[len(former.gates if former else ()) :]
        if isinstance(now.observation, Asked):
            assert former is not None
            assert former.launched_at is not None
            assert former.returned_at is None
            assert former.gate is None
            assert [gate.place for gate in opened] == [Place.DURING]
            assert opened[0].request == now.observation.request
        else:
            assert all(gate.place is not Place.DURING for gate in opened)
        if event.change in (Change.RETURNED, Change.DONE):
            answers = [gate for gate in event.entry.gates if gate.place is Place.DURING]
            assert all(gate.resolution is not None for gate in answers)
    match directive(now.after):
        case Run(members=members, continues=continues):
            for member in members:
                gates = now.after.last(member.step.id).gates
                assert (member.id in continues) == bool(gates and gates[-1].place is Place.DURING)


Row = tuple[Position, Move, Position]


def rows(now: Moment) -> set[Row]:
    """(position, move, next position) for every step that the observation concerns.

    Each of them is a row of the table, and no other step of the phase changes its position.
    """
    before = dict(positions(now.before))
    if isinstance(now.observation, Checked) and now.observation.items:
        before = dict.fromkeys(now.observation.reports, Position.DUE)
    # the steps of a phase that is complete are where their entries say
    last = last_entries(now.written)
    after = {
        name: here if (here := positions(now.after).get(name)) else settled(now, last.get(name))
        for name in before
    }
    if now.after.past.sent_back != now.before.past.sent_back:  # others of its group end as they are
        after |= before
        for entry in (event.entry for event in now.events):
            former = [e for e in now.before.attempts(entry.step_id) if e.id != entry.id]
            step = now.before.playbook.step(entry.step_id)
            after[entry.step_id] = position(step, (*former, entry))
    if isinstance(now.observation, Begun):
        met = {(Position.DUE, Move.BEGUN_LATER, Position(e.entry.status)) for e in now.events}
    else:
        moved = dict(moves(now, before))
        met = {(before[name], move, after[name]) for name, move in moved.items()}
        skipped = isinstance(now.observation, Answered) and now.before.loop is not None
        for name in (name for name in before if name not in moved):
            assert before[name] is after[name] or (skipped and after[name] is Position.SKIPPED)
    for where, move, then in met:
        assert then in TABLE[where, move].then, (where, move, then)
    return met


def settled(now: Moment, entry: Entry | None) -> Position:
    """The position of a step whose phase is complete; without an entry, its loop was skipped."""
    if entry is None:
        return Position.SKIPPED
    goes_on = tolerated(now.before.playbook.step(entry.step_id), entry)
    return Position.TOLERATED if goes_on else Position(entry.status)


def moves(now: Moment, before: Mapping[str, Position]) -> Iterator[tuple[str, Move]]:
    """The steps that the observation concerns, as a reader of the journal sees them."""
    opened = [entry.step_id for entry in now.journal if not entry.settled]
    match now.observation:
        case Checked():
            assert isinstance(now.asked, Check)
            names = [member.step.id for member in now.asked.members]
            for name in [*now.observation.reports] if now.observation.items else names:
                yield name, Move("undone" if now.asked.undoes else f"checked {now.asked.place}")
        case Asked(id=id_):
            yield step_of(id_), Move.ASKED
        case Returned(id=id_) if now.events:
            yield step_of(id_), Move.RETURNED
        case Lost(id=id_, finished=finished):
            yield step_of(id_), Move.FINISHED if finished else Move.BROKEN_OFF
        case Answered(resolution=said) | Cancelled(how=Cancellation.ABORT as said):
            answered = ""
            if isinstance(now.asked, Ask):
                answered = now.asked.member.step.id
                yield answered, Move[said.name]
            if said == "abort":
                waiting = (Position.DUE, Position.UNDOING)
                due = [name for name, where in before.items() if where in waiting]
                for name in opened or due[:1]:
                    if name != answered:
                        yield name, Move.ABORTED
        case Cancelled():
            for name, where in before.items():
                if where is Position.RUNNING and not now.before.playbook.step(name).has_child:
                    yield name, Move.INTERRUPTED
        case TakenUp():
            for name, where in before.items():
                if where is Position.FAILED:
                    yield name, Move.TAKEN_UP


def step_of(attempt_id: str) -> str:
    return attempt_id.rpartition("#")[0]


Law = Callable[[Moment], None]

LAWS: tuple[Law, ...] = (
    never_stuck,
    replayable,
    in_order,
    goes_back,
    passed_by_a_human,
    asked_at_work,
    escalated,
    asks_about_tests,
    retried_as_allowed,
    waits,
    forgiven,
    keeps_its_child,
    looped,
    in_time,
    well_formed,
)
"""All laws but 3 and 4, which are about a state alone, and 10, which follows from 2 for a kernel
without a state of its own and is tested on samples."""


def obeys(now: Moment) -> None:
    for law in LAWS:
        law(now)
