"""What must happen next: a pure function of the playbook, the journal and an observation.

No file, no clock, no random number, no process (in the manner of h11). `directive` is a query;
`decide` says which facts follow from an observation, or refuses it and changes nothing; `evolve`
takes one fact in; `replay` is `evolve` over a journal.
"""

from __future__ import annotations

from collections.abc import Iterable

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel import gates, phases, recovery
from playbook_supervisor.kernel.directives import (
    Answered,
    Ask,
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
    TakenUp,
)
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.phases import outstanding, status, steps_done
from playbook_supervisor.kernel.state import Change, Entry, Event, Position, State
from playbook_supervisor.kernel.table import TABLE, move
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    Place,
    Resolution,
    SessionStatus,
)
from playbook_supervisor.records import replace

__all__ = ["decide", "describe", "directive", "evolve", "replay", "status", "steps_done"]


def directive(state: State) -> Directive:
    """The one thing that is outstanding. A query: asked twice it answers the same, same ids."""
    return outstanding(state)


def decide(state: State, observation: Observation) -> tuple[Event, ...]:
    """The facts that follow. Empty for a repeated report, which changes nothing.

    Raises StateError `PB-STATE-REFUSED`, naming what is outstanding, if the observation answers
    nothing. Times that step back are held at the latest time of the journal.
    """
    at = max(observation.at, state.latest)
    match observation:
        case Begun(start=start):
            return _begun(state, observation, start, at)
        case Checked():
            return _checked(state, observation, at)
        case Returned() | Lost():
            return _came_back(state, observation, at)
        case Answered(id=id_, resolution=resolution):
            asked = outstanding(state)
            if not isinstance(asked, Ask) or asked.id != id_ or resolution not in asked.choices:
                raise _refused(state, observation)
            return _answered(state, asked, resolution, observation.text, observation.by, at)
        case TakenUp():
            if status(state) is not SessionStatus.FAILED:
                raise _refused(state, observation)
            return tuple(recovery.taken_up(entry) for entry in _concerned(state, observation))
        case Cancelled(how=Cancellation.INTERRUPT):
            return tuple(recovery.broken_off(entry, at) for entry in _concerned(state, observation))
        case _:
            return _aborted(state, observation, at)


def evolve(state: State, event: Event) -> State:
    """The state with one fact taken in. A phase that is through becomes part of the past."""
    return _taken_in(state, event.entry)


def _taken_in(state: State, entry: Entry) -> State:
    state = state.with_entry(entry)
    if not phases.through(state):
        return state
    past = replace(
        state.past,
        phases=state.past.phases + 1,
        steps=state.past.steps + len(state.phase or ()),
        entries=state.past.entries + len(state.entries),
        waived=state.waived,
        latest=state.latest,
    )
    return State(state.playbook, past)


def replay(playbook: Playbook, entries: Iterable[Entry]) -> State:
    """The state that a journal records.

    Raises StateError `PB-STATE-DIVERGED`, naming what is recorded and what was to be expected,
    when the journal cannot be a history of this playbook.
    """
    state = State(playbook)
    for entry in entries:
        due = {step.id for step in state.phase or ()}
        if entry.step_id not in due:
            raise _diverged(entry, " or ".join(sorted(due)) or "nothing more")
        step = playbook.step(entry.step_id)
        expected = phases.attempt(state, step)
        where = phases.position(step, state.attempts(step.id))
        if where is not Position.DUE or entry.attempt != expected.number:
            raise _diverged(entry, f"{expected.id}, which is {where}")
        state = _taken_in(state, entry)
    return state


def describe(asked: Directive) -> str:
    """A directive in a few words, for messages."""
    match asked:
        case Check(id=id_):
            return f"the check {id_}"
        case Run(members=members):
            return "the work of " + ", ".join(member.id for member in members)
        case Ask(id=id_):
            return f"the gate {id_}"
        case _:
            return f"nothing: the session is {asked.status}"


def _begun(state: State, observation: Begun, start: str, at: int) -> tuple[Event, ...]:
    if not state.pristine or (start and start not in state.playbook):
        raise _refused(state, observation)
    if not start:
        return ()
    names = [step.id for step in state.playbook.steps]
    entry = Entry(
        step_id="",
        status=EntryStatus.SKIPPED,
        decision=Decision.SKIPPED,
        started_at=at,
        completed_at=at,
        human_response=f"--from {start}",
    )
    earlier = names[: names.index(start)]
    return tuple(Event(Change.SKIPPED, replace(entry, step_id=name)) for name in earlier)


def _checked(state: State, observation: Checked, at: int) -> tuple[Event, ...]:
    asked = outstanding(state)
    if not isinstance(asked, Check) or asked.id != observation.id:
        raise _refused(state, observation)
    if any(member.step.id not in observation.reports for member in asked.members):
        raise _refused(state, observation)
    judge = phases.begin if asked.place is Place.BEFORE else phases.judge
    return judge(state, asked, observation.reports, at)


def _came_back(state: State, observation: Returned | Lost, at: int) -> tuple[Event, ...]:
    name, _, _ = observation.id.rpartition("#")
    returned = isinstance(observation, Returned)
    if returned and state.playbook.phase_of.get(name, state.past.phases) < state.past.phases:
        return ()
    entry = next((entry for entry in state.entries if entry.id == observation.id), None)
    if entry is None or entry not in _concerned(state, observation):
        if returned and entry is not None and entry.came_back:
            return ()
        raise _refused(state, observation)
    if isinstance(observation, Returned):
        return (_returned(entry, observation, at),)
    if observation.finished:
        return (recovery.recovered(entry, at),)
    return (recovery.broken_off(entry, at),)


def _returned(entry: Entry, observation: Returned, at: int) -> Event:
    outcome = observation.outcome
    entry = replace(entry, returned_at=at, output=outcome.output, agent=outcome.agent)
    if outcome.error:
        entry = replace(
            entry,
            error=outcome.error.message,
            error_code=outcome.error.code,
            error_guidance=outcome.error.guidance,
            error_cause=outcome.error.cause,
            error_lasts=outcome.error.lasts,
        )
    return Event(Change.RETURNED, entry)


def _answered(
    state: State, asked: Ask, resolution: Resolution, text: str, by: str, at: int
) -> tuple[Event, ...]:
    entry = state.attempts(asked.member.step.id)[-1]
    first = gates.answer(entry, resolution, text, by, at)
    if resolution is not Resolution.ABORT:
        return (first,)
    others = [other for other in state.entries if not other.settled and other is not entry]
    return (first, *(recovery.aborted(other, text, at) for other in others))


def _aborted(state: State, observation: Cancelled, at: int) -> tuple[Event, ...]:
    asked = outstanding(state)
    text = observation.text or Resolution.ABORT.value
    if isinstance(asked, Finish):
        raise _refused(state, observation)
    if isinstance(asked, Ask):
        return _answered(state, asked, Resolution.ABORT, text, observation.by, at)
    open_entries = [entry for entry in state.entries if not entry.settled]
    if open_entries:
        return tuple(recovery.aborted(entry, text, at) for entry in open_entries)
    due = next(step for step in state.phase or () if phases.is_due(state, step))
    return (recovery.aborted_before(phases.attempt(state, due), text, at),)


def _concerned(state: State, observation: Observation) -> list[Entry]:
    """The last entries of the steps for which the table has a row for this observation."""
    return [
        state.attempts(name)[-1]
        for name, where in phases.positions(state).items()
        if (where, move(observation)) in TABLE and state.attempts(name)
    ]


def _refused(state: State, observation: Observation) -> StateError:
    asked = outstanding(state)
    given = getattr(observation, "id", "") or type(observation).__name__.lower()
    return StateError(
        "PB-STATE-REFUSED", f"{given} answers nothing; outstanding is {describe(asked)}"
    )


def _diverged(entry: Entry, expected: str) -> StateError:
    return StateError(
        "PB-STATE-DIVERGED",
        f"the journal records {entry.id} where the playbook expects {expected}",
    )
