"""The next thing that must happen: a pure function of the playbook, the journal and an observation.

`directive` says what is outstanding. `decide` returns the events that follow from an observation:
it finds the steps concerned and applies their rows of the transition table.
`evolve` applies one event to a state, and `replay` rebuilds a state from a journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.kernel import answers, gates, phases
from playbook_supervisor.kernel.directives import (
    Answered,
    Ask,
    Asked,
    Attempt,
    Begun,
    Cancellation,
    Cancelled,
    Check,
    Checked,
    Directive,
    Finish,
    Lost,
    Observation,
    Outcome,
    Returned,
    Run,
    TakenUp,
    describe,
    in_words,
)
from playbook_supervisor.kernel.model import Playbook, Step, cached_query, item_number
from playbook_supervisor.kernel.phases import attempt, positions, status
from playbook_supervisor.kernel.recovery import untried
from playbook_supervisor.kernel.state import Entry, Event, Position, State
from playbook_supervisor.kernel.table import ANSWERED, TABLE, Move, Transition
from playbook_supervisor.kernel.vocabulary import ENDED, Place, Resolution, SessionStatus
from playbook_supervisor.records import replace

Moves: TypeAlias = list[tuple[Step, Move]]

_AT_A_GATE = frozenset({Position.GATED, Position.ASKING, Position.HELD})
_BEFORE_RUN = frozenset({Position.DUE, Position.CLEARED})


# ── what is outstanding ───────────────────────────────────────────────────────────────────


@cached_query
def directive(state: State) -> Directive:
    """The outstanding directive: an open gate first, then running attempts, then a due check."""
    ended = status(state)
    if ended in ENDED:
        return Finish(ended)
    phase, where = state.phase or (), positions(state)
    running = _run(state, [step for step in phase if where[step.id] is Position.RUNNING])
    for step in phase:
        if where[step.id] in _AT_A_GATE:
            return gates.ask(state, attempt(state, step), state.last(step.id).gates[-1], running)
    if running is not None:
        return running
    if returned := [step for step in phase if where[step.id] is Position.RETURNED]:
        return _check(state, Place.AFTER, returned)
    if undoing := [step for step in phase if where[step.id] is Position.UNDOING]:
        failed = state.last(undoing[0].id)
        undone = Attempt(undoing[0], failed.attempt)
        return Check(f"undo:{failed.id}", Place.AFTER, (undone,), undoes=True)
    return _check(state, Place.BEFORE, [step for step in phase if where[step.id] in _BEFORE_RUN])


def _run(state: State, steps: Sequence[Step]) -> Run | None:
    members = tuple(attempt(state, step) for step in steps)
    continues = (each.id for each in members if gates.answered_during_run(state.last(each.step.id)))
    return Run(members, tuple(continues)) if members else None


def _check(state: State, place: Place, steps: Sequence[Step]) -> Check:
    members = tuple(attempt(state, step) for step in steps)
    names = "+".join(member.id for member in members)
    gates_so_far = sum(len(entry.gates) for entry in state.entries)
    check = Check(f"{place}:{names}.{gates_so_far}", place, members)
    if place is Place.AFTER:
        return check
    fresh = tuple(step.id for step in steps if untried(state.attempts(step.id)))
    return replace(check, not_before=phases.not_before(state, steps), untried=fresh)


# ── what follows from an observation ──────────────────────────────────────────────────────


def decide(state: State, observation: Observation) -> tuple[Event, ...]:
    """The events that follow. A repeated report has none and changes nothing.

    Raises StateError `PB-STATE-REFUSED`, naming what is outstanding, if the observation does not
    answer it. An earlier time is raised to the latest one in the journal.
    """
    observation = _as_answer(state, observation)
    moves = _moves(state, observation)
    if moves is None:
        raise _refused(state, observation)
    if isinstance(observation, Checked) and observation.items:
        state = state.expanded(observation.items)
    rows: list[tuple[Step, Transition]] = []
    for step, move in moves:
        # `--from` also concerns later phases, whose steps are all due
        row = TABLE.get((positions(state).get(step.id, Position.DUE), move))
        if row is None:
            raise _refused(state, observation)
        rows.append((step, row))
    at = max(observation.at, state.latest)
    events = tuple(row.rule(state, step, observation, at) for step, row in rows)
    if any(move is Move.CHECKED_BEFORE for _, move in moves):
        events = phases.start_together(state, events, at)
    _require_rows(state, rows, events)
    return events


def _as_answer(state: State, observation: Observation) -> Observation:
    """Turn an abort at an open gate into an answer to it; the default text is `abort`."""
    if not isinstance(observation, Cancelled) or observation.how is not Cancellation.ABORT:
        return observation
    asked, text = directive(state), observation.text or Resolution.ABORT.value
    if isinstance(asked, Ask):
        return Answered(observation.at, asked.id, Resolution.ABORT, text, observation.by)
    return replace(observation, text=text)


def _require_rows(
    state: State, rows: Sequence[tuple[Step, Transition]], events: Sequence[Event]
) -> None:
    changed = {event.entry.step_id: event.entry for event in events}
    for step, row in rows:
        attempts = state.attempts(step.id)
        entry = changed.get(step.id)
        if entry is not None:
            again = attempts and attempts[-1].attempt == entry.attempt
            attempts = (*(attempts[:-1] if again else attempts), entry)
        then = phases.position(step, attempts)
        if then not in row.then:
            raise RuntimeError(
                f"{row.rule.__name__} moved {step.id} to {then}, which the table does not allow"
            )


# ── which steps an observation concerns ───────────────────────────────────────────────────


def _moves(state: State, observation: Observation) -> Moves | None:
    """Empty if the observation changes nothing, None if it does not answer what is outstanding."""
    asked = directive(state)
    match observation:
        case Begun(start=start):
            return _begun_later(state, start)
        case Checked():
            return _checked(state, asked, observation)
        case Asked(id=id_, reason=reason):
            return _of_attempt(state, id_, Move.ASKED) if reason in gates.ASKED else None
        case Returned(id=id_):
            return [] if has_returned(state, id_) else _of_attempt(state, id_, Move.RETURNED)
        case Lost(id=id_, finished=finished):
            moves = _of_attempt(state, id_, Move.FINISHED if finished else Move.BROKEN_OFF) or []
            # a child session is not lost: it is resumed
            return [(step, move) for step, move in moves if not step.has_child] or None
        case Answered():
            return _answered(state, asked, observation)
        case TakenUp():
            failed = status(state) is SessionStatus.FAILED
            return _with_row(state, Move.TAKEN_UP) if failed else None
        case Cancelled(how=Cancellation.INTERRUPT):
            moves = _with_row(state, Move.INTERRUPTED)
            return [(step, move) for step, move in moves if not step.has_child]
        case _:
            return None if isinstance(asked, Finish) else _aborted(state)


def _begun_later(state: State, start: str) -> Moves | None:
    steps = state.playbook.steps
    names = [step.id for step in steps]
    if not state.pristine or (start and start not in names):
        return None
    return [(step, Move.BEGUN_LATER) for step in steps[: names.index(start) if start else 0]]


def _checked(state: State, asked: Directive, checked: Checked) -> Moves | None:
    if not isinstance(asked, Check) or asked.id != checked.id:
        return None
    steps = [member.step for member in asked.members]
    if checked.items:
        loop = steps[0].for_each
        if loop is None or not 0 < checked.items <= loop.most:
            return None
        steps = [*(state.expanded(checked.items).phase or ())]
    if any(step.id not in checked.reports for step in steps):
        return None
    move = Move.CHECKED_BEFORE if asked.place is Place.BEFORE else Move.CHECKED_AFTER
    return [(step, Move.UNDONE if asked.undoes else move) for step in steps]


def require_known(state: State, attempt_id: str) -> None:
    """StateError `PB-STATE-REFUSED` for an attempt that never began."""
    if not phases.in_the_past(state, attempt_id) and all(
        each.id != attempt_id for each in state.entries
    ):
        raise _refused(state, Returned(state.latest, attempt_id, Outcome()))


def has_returned(state: State, attempt_id: str) -> bool:
    """True if the journal has the return of this attempt, also of a settled phase."""
    returned = (entry.id for entry in state.entries if entry.has_returned)
    return phases.in_the_past(state, attempt_id) or attempt_id in returned


def _of_attempt(state: State, attempt_id: str, move: Move) -> Moves | None:
    step_id, _, _ = attempt_id.rpartition("#")
    attempts = state.attempts(step_id)
    if not attempts or attempts[-1].id != attempt_id:
        return None
    return [(state.playbook.step(step_id), move)]


def _answered(state: State, asked: Directive, answered: Answered) -> Moves | None:
    """An `abort` concerns the other open entries as well."""
    if not isinstance(asked, Ask) or asked.id != answered.id:
        return None
    if answered.resolution not in asked.choices:
        return None
    if answered.resolution is Resolution.BACK:
        _require_earlier(asked, answers.target_of(answered.text))
    step = asked.member.step
    moves = [(step, ANSWERED[answered.resolution])]
    if answered.resolution is Resolution.ABORT:
        moves += [(other, move) for other, move in _open(state) if other.id != step.id]
    return moves


def _require_earlier(asked: Ask, target: str) -> None:
    if target and target not in asked.back:
        said = f"{target!r} is no step before {asked.member.step.id}"
        words = " or ".join(f"`back to {step}`" for step in asked.back)
        raise ArgumentError("PB-ARG-ANSWER", said, guidance=f"Answer {words}.")


def _aborted(state: State) -> Moves:
    """An abort concerns all open entries or, if there is none, the first step that is due."""
    where = positions(state)
    due = (step for step in state.phase or () if where[step.id] in (Position.DUE, Position.UNDOING))
    return _open(state) or [(next(due), Move.ABORTED)]


def _open(state: State) -> Moves:
    step = state.playbook.step
    return [(step(entry.step_id), Move.ABORTED) for entry in state.entries if not entry.settled]


def _with_row(state: State, move: Move) -> Moves:
    where = positions(state)
    return [(step, move) for step in state.phase or () if (where[step.id], move) in TABLE]


def _refused(state: State, observation: Observation) -> StateError:
    outstanding = describe(directive(state))
    said = f"{in_words(observation)} is not expected; outstanding is {outstanding}"
    return StateError("PB-STATE-REFUSED", said)


# ── from event to state ───────────────────────────────────────────────────────────────────


def evolve(state: State, event: Event) -> State:
    """The state after an event. A phase that is complete or sends back becomes part of the past."""
    return _sent_back(_with_entry(state, event.entry))


def _with_entry(state: State, entry: Entry) -> State:
    state = state.with_entry(entry)
    return State(state.playbook, phases.passed(state)) if phases.complete(state) else state


def _sent_back(state: State) -> State:
    return State(state.playbook, phases.sent_back(state)) if phases.sends_back(state) else state


def replay(playbook: Playbook, entries: Iterable[Entry]) -> State:
    """The state that a journal records.

    StateError `PB-STATE-DIVERGED` if this playbook could not have produced the journal.
    """
    state = State(playbook)
    for entry in entries:
        if all(step.id != entry.step_id for step in state.phase or ()):
            state = _sent_back(state)  # else it is another attempt of the group that sends back
        known = _with_items_of(state, entry)
        due = {step.id for step in known.phase or ()}
        if entry.step_id not in due:
            raise _diverged(entry, " or ".join(sorted(due)) or "nothing more")
        step = playbook.step(entry.step_id)
        expected = attempt(known, step)
        where = positions(known)[step.id]
        if where is not Position.DUE or entry.attempt != expected.number:
            raise _diverged(entry, f"{expected.id}, which is {where}")
        state = _with_entry(state, entry)
    return _sent_back(state)


def _with_items_of(state: State, entry: Entry) -> State:
    """The state, which may learn from an entry how many items its loop has. Errors as `replay`."""
    if entry.items == state.items or not (entry.items or item_number(entry.step_id)):
        return state
    loop = state.loop.for_each if state.loop is not None else None
    if state.items or loop is None or not 0 < entry.items <= loop.most:
        raise _diverged(entry, f"{gates.counted(state.items)}, not {entry.items}")
    return state.expanded(entry.items)


def _diverged(entry: Entry, expected: str) -> StateError:
    return StateError(
        "PB-STATE-DIVERGED", f"the journal records {entry.id} where the playbook expects {expected}"
    )
