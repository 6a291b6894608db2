"""Small playbooks, and every observation that a session of them can get.

`legal` gives the answers to what is outstanding and what is allowed at any time; `illegal` gives
observations to refuse; `repeated` gives reports that the journal already has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from playbook_supervisor.kernel.directives import (
    Answer,
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
    Failure,
    Finding,
    Finish,
    Lost,
    Observation,
    Outcome,
    Probed,
    Report,
    Returned,
    Run,
    Standing,
    TakenUp,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.machine import decide, directive, evolve
from playbook_supervisor.kernel.model import (
    Loop,
    OnFail,
    Playbook,
    Step,
    base_of,
    item_id,
    item_number,
)
from playbook_supervisor.kernel.phases import attempt, positions, status
from playbook_supervisor.kernel.state import Entry, Event, Gate, Position, State
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.records import Record, replace

Journal = tuple[Entry, ...]

AGENT_FAILED = Failure("PB-AGENT-FAILED", "the agent gave up")
STEP_FAILED = Failure("PB-STEP-FAILED", "exit status 1")
RETRY_TWICE = ErrorPolicy.read("retry:2")
BY_CODE = ErrorPolicy.read(
    {
        "default": "stop",
        "PB-STEP-FAILED": "retry:2",
        "PB-AGENT-FAILED": "ignore",
        "PB-COND-POSTCONDITION": "continue",
    }
)
POLICIES = (
    ErrorPolicy.STOP,
    ErrorPolicy.RETRY_ONCE,
    ErrorPolicy.GATE,
    ErrorPolicy.CONTINUE,
    ErrorPolicy.IGNORE,
    RETRY_TWICE,
    BY_CODE,
)
CHILD_FAILED = Failure("PB-STEP-CHILD", "it failed at b", cause="PB-AGENT-FAILED")
SESSION = "20260219-c1d"
"""A child session."""
DIST = "output dist"
"""An output of the playbook, for which a step with `outputs` answers."""
CALL = {"who": "Claude", "tool": "Bash", "subject": "npm test", "rule": "Bash(npm test *)"}
QUESTION = {"who": "Claude", "subject": "Which?", "questions": [{"question": "Which?"}]}
PRE = (Condition.SPEC_EXISTS,)
POST = (Condition.PLAN_EXISTS,)


UNDONE = "2 files put back"


def step(
    name: str = "a",
    *,
    autonomy: Autonomy = Autonomy.AUTO,
    policy: ErrorPolicy = ErrorPolicy.STOP,
    pre: tuple[Condition, ...] = PRE,
    post: tuple[Condition, ...] = POST,
    triggers: tuple[Trigger, ...] = (),
    group: str = "",
    when: str = "",
    last: bool = False,
    command: str = "",
    approval: bool = False,
    checkpoint: bool = False,
    for_each: Loop | None = None,
    until: tuple[Condition, ...] = (),
    rounds: int = 0,
    tools: tuple[str, ...] = (),
    undo: bool = False,
    on_fail: OnFail | None = None,
) -> Step:
    """A plain step; the arguments say what differs."""
    return Step(
        id=name,
        command=command or f"/do.{name}",
        autonomy=autonomy,
        error_policy=policy,
        preconditions=pre,
        postconditions=post,
        escalation_triggers=triggers,
        parallel_group=group,
        when=when,
        outputs=("dist",) if last else (),
        approval=approval,
        checkpoint=checkpoint,
        for_each=for_each,
        until=until,
        rounds=rounds,
        tools=tools,
        undo=undo,
        on_fail=on_fail,
    )


def book(*steps: Step) -> Playbook:
    return Playbook("small", "A small playbook.", "1.0", (), steps or (step(),))


def held(*names: str) -> Report:
    return Report(tuple(Probed(name, Answer.HELD, f"{name}.md, 3 lines") for name in names))


def missing(*names: str, as_waived: bool = True) -> Report:
    return Report(
        tuple(Probed(name, Answer.NOT_HELD, f"{name}.md is missing", as_waived) for name in names)
    )


def not_yet(*names: str) -> Report:
    """A report on conditions until which the step is repeated."""
    failing = (
        Probed(name, Answer.NOT_HELD, f"{name} fails", code="PB-COND-UNTIL") for name in names
    )
    return Report(tuple(failing))


def no_items(evidence: str = "$list.json is no list") -> Report:
    return Report((Probed("for_each", Answer.ERROR, evidence, code="PB-STEP-ITEMS"),))


def passed(report: Report | None = None) -> Report:
    return replace(report or Report(), passed_over="when: $plan.approved is false")


def lacking(*names: str) -> Report:
    failing = (Probed(name, Answer.ERROR, "no such output", code="PB-STEP-DATA") for name in names)
    return Report(tuple(failing))


def changed_tests(*names: str) -> Report:
    """A report on conditions for which tests have changed, and a person is asked."""
    failing = (
        Probed(name, Answer.NOT_HELD, "2 tests differ", code="PB-COND-WITNESSES", asked="d1")
        for name in names
    )
    return Report(tuple(failing))


def without_output(report: Report | None = None) -> Report:
    report = report or Report()
    gone = Probed(DIST, Answer.NOT_HELD, "dist is missing", code="PB-COND-OUTPUT")
    return replace(report, conditions=(*report.conditions, gone))


def breaking(standing: Standing = Standing.NEW) -> Finding:
    return Finding(Trigger.AGREEMENT_BREAKING, "check.md:3: Breaking: yes", standing)


def verdict(standing: Standing = Standing.NEW) -> Finding:
    return Finding(Trigger.VERDICT_FAIL, "report.md:1: verdict: FAIL", standing)


# ── a session, step by step ───────────────────────────────────────────────────────────────


def taken_in(journal: Journal, events: Iterable[Event]) -> Journal:
    """The journal after one write: known attempts replaced, new ones at the end."""
    entries = {entry.id: entry for entry in journal}
    entries.update((event.entry.id, event.entry) for event in events)
    return tuple(entries.values())


@dataclass
class Scene:
    """One session of a playbook. Its clock advances by one second per observation."""

    playbook: Playbook
    now: int = 0
    journal: Journal = ()
    state: State = field(init=False)

    def __post_init__(self) -> None:
        self.state = State(self.playbook)

    # state

    @property
    def asked(self) -> Directive:
        return directive(self.state)

    @property
    def check(self) -> Check:
        assert isinstance(self.asked, Check), self.asked
        return self.asked

    @property
    def gate(self) -> Ask:
        assert isinstance(self.asked, Ask), self.asked
        return self.asked

    @property
    def running(self) -> tuple[str, ...]:
        assert isinstance(self.asked, Run), self.asked
        return tuple(member.id for member in self.asked.members)

    @property
    def status(self) -> SessionStatus:
        return status(self.state)

    @property
    def ended(self) -> SessionStatus:
        assert isinstance(self.asked, Finish), self.asked
        return self.asked.status

    @property
    def last(self) -> Entry:
        return self.journal[-1]

    def entry(self, attempt: str) -> Entry:
        return next(entry for entry in self.journal if entry.id == attempt)

    # observations

    def sees(self, observation: Observation) -> tuple[Event, ...]:
        events = decide(self.state, observation)
        for event in events:
            self.state = evolve(self.state, event)
        self.journal = taken_in(self.journal, events)
        return events

    def tick(self) -> int:
        self.now += 1000
        return self.now

    def checked(self, **reports: Report) -> tuple[Event, ...]:
        """Answer the check. The conditions of members that are not named hold."""
        check = self.check
        found = {
            member.step.id: reports.get(member.step.id, all_held(member, check))
            for member in check.members
        }
        return self.sees(Checked(self.tick(), check.id, found))

    def lists(self, items: int, **reports: Report) -> tuple[Event, ...]:
        """Answer the check of a loop: it has this number of items. `s1` reports on the first."""
        found = {
            item.id: reports.get(f"s{item_number(item.id)}", held(*item.preconditions))
            for item in self.state.expanded(items).phase or ()
        }
        return self.sees(Checked(self.tick(), self.check.id, found, items))

    def returned(self, *attempts: str, error: Failure | None = None) -> None:
        """These attempts return; all running ones if none is named."""
        for returned in attempts or self.running:
            self.sees(Returned(self.tick(), returned, Outcome(error)))

    def worked(self, error: Failure | None = None) -> None:
        self.checked()
        self.returned(error=error)

    def asks(self, attempt: str = "", request: Mapping[str, object] = CALL) -> None:
        """The agent of the only attempt that runs, or of this one, asks a person."""
        asked = GateReason.QUESTION if "questions" in request else GateReason.PERMISSION
        self.sees(Asked(self.tick(), attempt or self.running[0], asked, request))

    def lost(self, attempt: str, *, finished: bool = False) -> None:
        self.sees(Lost(self.tick(), attempt, finished))

    def says(self, resolution: Resolution | str, text: str = "", by: str = "Ann") -> None:
        """A human answers the gate that is being asked."""
        word = Resolution(resolution)
        self.sees(Answered(self.tick(), self.gate.id, word, text or word.value, by))

    def cancelled(self, how: Cancellation, text: str = "") -> tuple[Event, ...]:
        return self.sees(Cancelled(self.tick(), how, text, "Ann"))

    def taken_up(self) -> None:
        self.sees(TakenUp(self.tick()))


def all_held(member: Attempt, check: Check) -> Report:
    if check.undoes:
        return Report((Probed("undo", Answer.HELD, UNDONE),))
    before = check.place is Place.BEFORE
    return held(*(member.step.preconditions if before else member.step.judging))


# ── every possible observation ────────────────────────────────────────────────────────────


class Offer(Record):
    """Which results, standings and failures occur in the observations."""

    answers: tuple[Answer, ...]
    standings: tuple[Standing | None, ...]
    failures: tuple[Failure | None, ...]
    waivers: tuple[bool, ...]
    """Whether a failing precondition may differ from a waived one."""
    verdict_standings: bool = True
    asks: bool = False
    """Whether agents ask a person while they work."""
    tests_change: bool = False
    """Whether a condition may fail because tests have changed."""


EVERYTHING = Offer(
    tuple(Answer), (None, *Standing), (None, AGENT_FAILED, STEP_FAILED), (True, False)
)
WITHOUT_SYNONYMS = Offer(
    (Answer.HELD, Answer.NOT_HELD), (None, *Standing), (None, AGENT_FAILED), (True, False), False
)
"""Left out: a condition that could not be checked (it counts as not held), a second kind of worker
error, and human decisions about a verdict (they change nothing)."""
FEW = Offer((Answer.HELD, Answer.NOT_HELD), (None, Standing.NEW), (None, AGENT_FAILED), (True,))
FEWEST = replace(FEW, standings=(None,), failures=(None,))
CODES = ("", "PB-COND-WITNESSES")


def reports(step: Step, place: Place, offer: Offer) -> tuple[Report, ...]:
    before = place is Place.BEFORE
    if step.for_each:
        return (passed(), no_items())
    conditions = step.preconditions if before else step.postconditions
    probes = product(
        *(
            [
                Probed(name, answer, f"{name}: {answer}", as_waived, code, blames=blames)
                for answer in offer.answers
                for code in (CODES if offer.tests_change and answer != "held" else CODES[:1])
                for as_waived in (offer.waivers if before and answer != "held" else (True,))
                for blames in ((False, True) if step.on_fail and answer != "held" else (False,))
            ]
            for name in conditions
        )
    )
    verdicts = offer.standings if offer.verdict_standings else offer.standings[:2]
    verdicts = verdicts[:1] if before else verdicts
    findings = [
        (*([breaking(first)] if first else []), *([verdict(second)] if second else []))
        for first in offer.standings
        for second in verdicts
    ]
    found = [Report(conditions, found) for conditions, found in product(probes, findings)]
    if step.until and not before:
        found += [
            replace(each, conditions=(*each.conditions, *not_yet(*step.until).conditions))
            for each in found
        ]
    if step.when and before:
        found.append(passed())
    if step.has_child and before:
        found = [replace(each, session=SESSION) for each in found]
    if step.outputs:
        found += [without_output(each) for each in found if not before or each.passed_over]
    return tuple(found)


def legal(
    state: State,
    at: int,
    offer: Offer = EVERYTHING,
    known: dict[tuple[Step, Place], tuple[Report, ...]] | None = None,
) -> Iterator[Observation]:
    """Every observation that the kernel must accept in this state."""
    known = {} if known is None else known
    asked = directive(state)
    match asked:
        case Check(id=id_, members=(member,), undoes=True):
            for answer in (Answer.HELD, Answer.ERROR):
                undone = Report((Probed("undo", answer, UNDONE),))
                yield Checked(at, id_, {member.step.id: undone})
        case Check(id=id_, place=place, members=members):
            yield from _expanding(state, asked, at, offer)
            choices = []
            for member in members:
                key = member.step, place
                if key not in known:
                    known[key] = reports(*key, offer)
                choices.append(known[key])
            names = [member.step.id for member in members]
            for chosen in product(*choices):
                yield Checked(at, id_, dict(zip(names, chosen, strict=True)))
        case Run(members=members):
            for member in members:
                yield from _of_running(member, at, offer)
        case Ask(id=id_, choices=resolutions):
            for resolution in resolutions:
                yield Answered(at, id_, resolution, resolution.value, "Ann")
            for member in running(state):
                yield from _of_running(member, at, offer)
        case Finish(status=ended):
            if ended is SessionStatus.FAILED:
                yield TakenUp(at)
    if not isinstance(asked, Finish):
        yield Cancelled(at, Cancellation.ABORT, by="Ann")
    yield Cancelled(at, Cancellation.INTERRUPT)
    if state.pristine:
        yield Begun(at)
        for name in state.playbook.steps:
            yield Begun(at, name.id)


def _of_running(member: Attempt, at: int, offer: Offer) -> Iterator[Observation]:
    for failure in offer.failures:
        yield Returned(at, member.id, Outcome(failure))
    if offer.asks:
        yield Asked(at, member.id, GateReason.PERMISSION, CALL)
        yield Asked(at, member.id, GateReason.QUESTION, QUESTION)
    if member.step.has_child:
        yield Returned(at, member.id, Outcome(CHILD_FAILED))
        return
    yield Lost(at, member.id, finished=True)
    yield Lost(at, member.id, finished=False)


def running(state: State) -> tuple[Attempt, ...]:
    """The attempts that run and wait for nothing, also while a gate of another is asked."""
    where = positions(state)
    steps = [step for step in state.phase or () if where[step.id] is Position.RUNNING]
    return tuple(attempt(state, step) for step in steps)


def _expanding(state: State, check: Check, at: int, offer: Offer) -> Iterator[Observation]:
    """The answers to the check of a loop that has items."""
    loop = check.members[0].step.for_each
    for items in range(1, loop.most + 1) if loop else ():
        batch = state.expanded(items).phase or ()
        for chosen in product(*(reports(item, Place.BEFORE, offer) for item in batch)):
            found = dict(zip([item.id for item in batch], chosen, strict=True))
            yield Checked(at, check.id, found, items)


Pick = Callable[[int], int]
"""The number of options → the index of the chosen one."""


def any_legal(state: State, at: int, pick: Pick) -> Observation:
    """One observation that the kernel must accept; mostly an answer to the directive."""
    asked = directive(state)
    if state.pristine and pick(4) == 0:
        return Begun(at, ("", *(name.id for name in state.playbook.steps))[pick(3) - 1])
    if not isinstance(asked, Finish) and pick(40) == 0:
        return Cancelled(at, Cancellation.ABORT, by="Ann")
    if pick(20) == 0:
        return Cancelled(at, Cancellation.INTERRUPT)
    if (at_work := running(state)) and pick(6) == 0:
        permission = pick(2) == 0
        reason = GateReason.PERMISSION if permission else GateReason.QUESTION
        return Asked(at, at_work[pick(len(at_work))].id, reason, CALL if permission else QUESTION)
    if isinstance(asked, Check) and asked.members[0].step.for_each and pick(8):
        answers = list(_expanding(state, asked, at, FEW))
        return answers[pick(len(answers))]
    if isinstance(asked, Check):
        found = {}
        for member in asked.members:
            able = known_reports(member.step, asked.place)
            found[member.step.id] = able[pick(len(able))]
        return Checked(at, asked.id, found)
    if isinstance(asked, Ask) and pick(8):
        # sessions that are rarely aborted grow long enough to be interesting
        choices = [choice for choice in asked.choices if choice is not Resolution.ABORT]
        resolution = choices[pick(len(choices))]
        return Answered(at, asked.id, resolution, resolution.value, "Ann")
    answers = list(legal(state, at))
    return answers[pick(len(answers))]


@cache
def known_reports(step: Step, place: Place) -> tuple[Report, ...]:
    return reports(step, place, replace(EVERYTHING, tests_change=True))


def illegal(state: State, journal: Journal, at: int) -> Iterator[Observation]:
    """Observations that the kernel must refuse: stale, unknown, forged or late."""
    asked = directive(state)
    names = [name.id for name in state.playbook.steps]
    gates = [gate for entry in journal for gate in entry.gates]
    yield from _stale_checks(asked, names, at)
    yield from _foreign_returns(state, asked, journal, names, at)
    yield from _foreign_answers(asked, gates, names, at)
    if not state.pristine:
        yield Begun(at)
        yield Begun(at, names[-1])
    else:
        yield Begun(at, "nowhere")
    if not (isinstance(asked, Finish) and asked.status is SessionStatus.FAILED):
        yield TakenUp(at)
    if isinstance(asked, Finish):
        yield Cancelled(at, Cancellation.ABORT)


def _stale_checks(asked: Directive, names: list[str], at: int) -> Iterator[Observation]:
    full = dict.fromkeys(names, Report())
    outstanding = asked.id if isinstance(asked, Check) else ""
    for name, place in product(names, Place):
        for stale in (f"{place}:{name}#1.0", f"{place}:{name}#2.1"):
            if stale != outstanding:
                yield Checked(at, stale, full)
    yield Checked(at, "", full)
    if isinstance(asked, Check):
        first = asked.members[0].step
        many = first.for_each.most + 1 if first.for_each else 1
        items = {item_id(first.id, number): Report() for number in range(1, many + 1)}
        yield Checked(at, outstanding, {**full, **items}, many)
    if outstanding:
        yield Checked(at, outstanding, {})
        yield Checked(at, outstanding + "0", full)
        other = "after" if outstanding.startswith("before") else "before"
        yield Checked(at, f"{other}:{outstanding.partition(':')[2]}", full)


def _foreign_returns(
    state: State, asked: Directive, journal: Journal, names: list[str], at: int
) -> Iterator[Observation]:
    del asked
    at_work = running(state)
    for member in at_work:
        yield Asked(at, member.id, GateReason.CHECKPOINT, CALL)
        if member.step.has_child:
            yield Lost(at, member.id, finished=True)
            yield Lost(at, member.id, finished=False)
    past = {s.id for phase in state.playbook.phases[: state.past.phases] for s in phase}
    if state.loop:
        past |= {item_id(state.loop.id, number + 1) for number in range(state.past.looped)}
    over = {entry.id for entry in journal} - {entry.id for entry in state.entries}
    tried = [entry.id for entry in journal] + [f"{name}#1" for name in names]
    for id_ in dict.fromkeys((*tried, *(f"{name}#99" for name in names), "zz#1", "a", "#", "")):
        if id_ in {member.id for member in at_work}:
            continue
        yield Asked(at, id_, GateReason.PERMISSION, CALL)
        yield Lost(at, id_, finished=id_ in tried)
        entry = next((entry for entry in journal if entry.id == id_), None)
        name = id_.partition("#")[0]
        known = id_ in over or (entry and entry.has_returned)
        if not {name, base_of(name)} & past and not known:
            yield Returned(at, id_, Outcome())


def _foreign_answers(
    asked: Directive, gates: list[Gate], names: list[str], at: int
) -> Iterator[Observation]:
    open_gate = asked.id if isinstance(asked, Ask) else ""
    known = [gate.id for gate in gates]
    for id_ in dict.fromkeys((*known, *(f"{name}#1?1" for name in names), "a#1?99", "")):
        if id_ != open_gate:
            yield Answered(at, id_, Resolution.CONTINUE, "continue")
    if isinstance(asked, Ask):
        for resolution in Resolution:
            if resolution not in asked.choices:
                yield Answered(at, asked.id, resolution, resolution.value)


def repeated(journal: Journal, at: int) -> Iterator[Observation]:
    for entry in journal:
        if entry.has_returned:
            yield Returned(at, entry.id, Outcome())
            yield Returned(at, entry.id, Outcome(AGENT_FAILED))
