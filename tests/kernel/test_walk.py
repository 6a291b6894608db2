"""A walk through all states of small playbooks, with every observation at each state.

One step: all playbooks. Two and three steps, and groups of two and three: one representative for
each kind of ending. States are compared without times, numbers and messages, so the walk ends,
although a human may answer `retry` for ever. In each state every law holds for every legal
observation, and illegal ones are refused. Larger playbooks are tested with random sessions.

The walks that take minutes are marked `long` or `thorough`. What remains meets every row of the
table.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, product

import pytest

from kernel.laws import (
    Known,
    Moment,
    Row,
    moment,
    nothing_else_counts,
    obeys,
    refusal_of,
    refuses,
    rows,
)
from kernel.world import (
    BY_CODE,
    EVERYTHING,
    FEW,
    FEWEST,
    POLICIES,
    POST,
    PRE,
    WITHOUT_SYNONYMS,
    Journal,
    Offer,
    any_legal,
    book,
    legal,
    step,
)
from playbook_supervisor.kernel import gates, tools
from playbook_supervisor.kernel.directives import Report
from playbook_supervisor.kernel.error_policy import ErrorPolicy, Reaction
from playbook_supervisor.kernel.machine import decide, directive
from playbook_supervisor.kernel.model import Loop, OnFail, Playbook, Step
from playbook_supervisor.kernel.phases import position, positions, status
from playbook_supervisor.kernel.state import OUTPUT, UNTIL, Entry, Position, State
from playbook_supervisor.kernel.table import TABLE, Move
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    GateReason,
    Place,
    Resolution,
    Trigger,
)
from playbook_supervisor.records import replace

UNTIL_DONE = (Condition.TASKS_DONE,)
POLICY_NAMES = ("stop", "retry", "gate", "continue", "ignore", "retry twice", "by code")
ASKING = replace(FEWEST, asks=True)
TESTS_CHANGE = replace(FEWEST, tests_change=True)
LOOPS = (None, None, Loop("$x", "y", 3), Loop("$x", "y", 4, at_once=2))
CONDITIONS = frozenset((*PRE, *POST))
JUDGED = (
    "PB-AGENT-FAILED",
    "PB-STEP-FAILED",
    "PB-STEP-CHILD",
    "PB-COND-POSTCONDITION",
    "PB-COND-TRIGGER",
)


@dataclass
class Figures:
    states: int = 0
    transitions: int = 0
    refused: int = 0
    rows: set[Row] = field(default_factory=set)
    examples: dict[tuple[Position, Move], Moment] = field(default_factory=dict)

    def __iadd__(self, other: Figures) -> Figures:
        self.states += other.states
        self.transitions += other.transitions
        self.refused += other.refused
        self.rows |= other.rows
        self.examples = other.examples | self.examples
        return self


def canonical(state: State) -> Hashable:
    """The part of a state that can matter later: no times, numbers, messages or evidence."""
    return (
        state.past.phases,
        state.past.looped,
        state.past.passed,
        state.items,
        tuple(sorted(entry.step_id for entry in state.past.sent_back)),
        any(map(gates.skips_loop, state.entries)),
        state.pristine,
        state.waived & CONDITIONS,
        tools.allowed(state),
        tools.always_allowed(state),
        tuple(_canonical(step, state.attempts(step.id)) for step in state.phase or ()),
    )


def _canonical(step: Step, attempts: tuple[Entry, ...]) -> Hashable:
    if not attempts:
        return ()
    entry = attempts[-1]
    gate = entry.gate
    return (
        position(step, attempts),
        entry.trigger is None,
        entry.resolution is Resolution.ABORT,
        entry.erred,
        gate and (gate.reason, CONDITIONS.intersection(entry.failing)),
        not entry.settled and gates.rechecked(entry),
        not entry.settled and gates.answered_during_run(entry),
        not entry.settled and gates.continued((entry,), GateReason.AGREEMENT_BREAKING),
        (required := gates.required_before(step)) and gates.continued(attempts, required),
        not entry.settled and gates.continued((entry,), GateReason.CHECKPOINT),
        CONDITIONS.intersection(name for one in attempts for name in one.waived),
        not entry.settled
        and any(
            one.reason in (GateReason.PRECONDITION_FAIL, GateReason.WITNESSES)
            for one in entry.gates
        ),
        step.error_policy.reacts(Reaction.RETRY)
        and sum(
            one.error_code in JUDGED and one.resolution is not Resolution.RETRY for one in attempts
        ),
        step.error_policy == BY_CODE and entry.error_codes,
        sum(one.error_code == UNTIL for one in attempts),
        entry.has_returned,
        bool(step.when) and any(one.ran and one.error_code != OUTPUT for one in attempts),
    )


def walk(playbook: Playbook, offer: Offer, *, ticking: bool = True, stride: int = 1) -> Figures:
    """Breadth first over canonical states, until no new one is found.

    Each state is offered one in `stride` of the illegal observations, a different one each time.
    """
    figures = Figures()
    known: dict[tuple[Step, Place], tuple[Report, ...]] = {}
    seen: set[Hashable] = {canonical(State(playbook))}
    level: list[tuple[State, Journal]] = [(State(playbook), ())]
    at = 0
    while level:
        at += ticking
        following = []
        for state, journal in level:
            here = Known.of(state, journal)
            assert directive(here.rebuilt) == directive(state) == here.asked
            figures.refused += refuses(state, journal, at, first=len(seen) % stride, stride=stride)
            for number, observation in enumerate(legal(state, at, offer, known)):
                now = moment(here, observation)
                obeys(now)
                if number % 5 == len(seen) % 5:
                    nothing_else_counts(now)
                figures.transitions += 1
                met = rows(now)
                figures.rows |= met
                for where, move, _ in met:
                    figures.examples.setdefault((where, move), now)
                key = canonical(now.after)
                if key not in seen:
                    seen.add(key)
                    following.append((now.after, now.written))
        level = following
    figures.states = len(seen)
    return figures


def subsets(triggers: Iterable[Trigger]) -> Iterable[tuple[Trigger, ...]]:
    triggers = tuple(triggers)
    return chain.from_iterable(combinations(triggers, n) for n in range(len(triggers) + 1))


ENDINGS = {
    "done": step(pre=(), post=()),
    "failed": step(post=()),
    "gate": step(pre=(), policy=ErrorPolicy.GATE),
    "asked": step(pre=(), post=(), autonomy=Autonomy.GATE_ALWAYS),
    "retry": step(pre=(), policy=ErrorPolicy.RETRY_ONCE),
    "skip": step(pre=(), post=(), autonomy=Autonomy.SKIP),
    "continue": step(post=(), policy=ErrorPolicy.CONTINUE),
    "ignore": step(pre=(), policy=ErrorPolicy.IGNORE),
    "passed": step(pre=(), post=(), when="$a.approved"),
}
"""One representative per kind of ending."""
PEOPLE = {
    "approved": step(pre=(), approval=True, policy=ErrorPolicy.RETRY_ONCE),
    "checkpoint": step(pre=(), command="checkpoint", policy=ErrorPolicy.GATE),
    "writes": step(pre=(), tools=("Read", "Write"), policy=ErrorPolicy.RETRY_ONCE),
    "looked at": step(pre=(), checkpoint=True, policy=ErrorPolicy.RETRY_ONCE),
}
"""The steps that ask a person because the playbook says so."""
CHILDREN = {
    "child": step(pre=(), command="playbook small"),
    "child by code": step(pre=(), command="playbook small", policy=BY_CODE),
}
"""The steps whose work is a child session."""
FIVE = ("done", "failed", "gate", "retry", "skip")


def composed(kinds: Iterable[str], groups: str) -> Playbook:
    """Steps of these kinds; steps with the same letter in `groups` run at once (`.`: alone)."""
    return book(
        *(
            replace((ENDINGS | PEOPLE | CHILDREN)[kind], id=name, parallel_group=group.strip("."))
            for kind, name, group in zip(kinds, "abc", groups, strict=False)
        )
    )


@pytest.fixture(autouse=True)
def one_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step sends back once, and not ten times."""
    monkeypatch.setattr(gates, "MOST_BACK", 1)


@pytest.fixture
def figures(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> Iterator[Figures]:
    """What the walks of a test have found. It is printed at the end."""
    figures = Figures()
    yield figures
    with capsys.disabled():
        print(
            f"\nkernel walk, {request.node.name}: {figures.states} states, "
            f"{figures.transitions} transitions, {figures.refused} refused"
        )
    assert figures.states > 0


@pytest.mark.long
@pytest.mark.unmeasured
@pytest.mark.parametrize("autonomy", Autonomy)
@pytest.mark.parametrize("policy", POLICIES, ids=POLICY_NAMES)
@pytest.mark.parametrize(
    "sets", ["all or none", pytest.param("others", marks=pytest.mark.thorough)]
)
def test_one_step_obeys_every_law(
    sets: str, policy: ErrorPolicy, autonomy: Autonomy, figures: Figures
) -> None:
    """Every condition and set of triggers; every observation, until no state is new.

    `gate_on_breaking` itself declares `agreement_breaking`, so sets without it are left out there.

    kai FR2, FR5, FR6, FR18, FR19, FR29, FR31; properties 1 to 10.
    """
    for pre, post, triggers in product(((), PRE), ((), POST), subsets(Trigger)):
        breaking = not triggers or Trigger.AGREEMENT_BREAKING in triggers
        if autonomy is Autonomy.GATE_ON_BREAKING and not breaking:
            continue
        if (len(triggers) in (0, len(Trigger))) is not (sets == "all or none"):
            continue
        only = step(autonomy=autonomy, policy=policy, pre=pre, post=post, triggers=triggers)
        if sets == "all or none":
            figures += walk(book(only), EVERYTHING)
        else:
            figures += walk(book(only), WITHOUT_SYNONYMS, stride=9)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "policies",
    [
        pytest.param((BY_CODE,), id="one"),
        pytest.param(POLICIES, marks=pytest.mark.thorough, id="all"),
    ],
)
def test_one_step_behaves_the_same_if_everything_happens_within_a_millisecond(
    policies: Iterable[ErrorPolicy],
) -> None:
    """Times that coincide are dropped from a settled entry; nothing may depend on them."""
    for autonomy, policy in product(Autonomy, policies):
        only = step(autonomy=autonomy, policy=policy, triggers=(Trigger.SUBAGENT_ERROR,))
        stopped = walk(book(only), FEW, ticking=False, stride=9)
        ticking = walk(book(only), FEW, stride=9)
        assert (stopped.states, stopped.rows) == (ticking.states, ticking.rows)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("groups", "endings"),
    [
        ("..", FIVE),
        pytest.param("gg", FIVE, marks=pytest.mark.long),
        *(pytest.param(groups, ENDINGS, marks=pytest.mark.thorough) for groups in ("..", "gg")),
    ],
)
def test_two_steps_obey_every_law_in_sequence_and_in_parallel(
    groups: str, endings: Iterable[str], figures: Figures
) -> None:
    """One representative per kind of ending, every pair of them (kai FR7)."""
    for kinds in product(endings, repeat=2):
        figures += walk(composed(kinds, groups), FEW, stride=3)


@pytest.mark.parametrize("groups", ["..", pytest.param("gg", marks=pytest.mark.long)])
def test_steps_that_ask_a_person_obey_every_law(groups: str, figures: Figures) -> None:
    for kinds in combinations_with_replacement(("gate", *PEOPLE), 2):
        figures += walk(composed(kinds, groups), FEWEST, stride=9)


@pytest.mark.unmeasured
@pytest.mark.parametrize("groups", ["..", pytest.param("gg", marks=pytest.mark.long)])
def test_steps_whose_agents_ask_obey_every_law(groups: str, figures: Figures) -> None:
    for kinds in combinations_with_replacement(("gate", "asked", "retry"), 2):
        figures += walk(composed(kinds, groups), ASKING, stride=9)


@pytest.mark.parametrize("groups", ["..", "gg"])
def test_steps_with_a_child_session_obey_every_law(groups: str, figures: Figures) -> None:
    """The child is interrupted or lost, and not the step; an error policy can name its error."""
    for kinds in product(CHILDREN, ("gate", *CHILDREN)):
        figures += walk(composed(kinds, groups), FEWEST, stride=9)


@pytest.mark.unmeasured
@pytest.mark.sampled("failed-1", "gate-2", "asked-1", "approved-2", "skip-1")
@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("kind", ["failed", "gate", "asked", "approved", "skip"])
def test_loops_obey_every_law(kind: str, at_once: int, figures: Figures) -> None:
    """Up to three items, before another step."""
    ending = replace((ENDINGS | PEOPLE)[kind], id="a", for_each=Loop("$x", "y", 3, at_once))
    done = replace(ENDINGS["done"], id="z")
    figures += walk(book(ending, done), FEWEST, stride=9)


@pytest.mark.unmeasured
@pytest.mark.sampled("stop", "gate", "retry")
@pytest.mark.parametrize("policy", POLICIES, ids=POLICY_NAMES)
def test_rounds_obey_every_law(policy: ErrorPolicy, figures: Figures) -> None:
    for triggers in ((), (Trigger.POSTCONDITION_FAIL,)):
        repeated = step(policy=policy, pre=(), triggers=triggers, until=UNTIL_DONE, rounds=3)
        figures += walk(book(repeated), FEW, stride=9)


@pytest.mark.unmeasured
@pytest.mark.sampled("gate", "by code")
@pytest.mark.parametrize("policy", POLICIES, ids=POLICY_NAMES)
def test_changed_tests_obey_every_law(policy: ErrorPolicy, figures: Figures) -> None:
    """Before a step, after one, in rounds, and beside every other failure."""
    for triggers in ((), tuple(Trigger)):
        judged = step(policy=policy, triggers=triggers, until=UNTIL_DONE, rounds=2)
        figures += walk(book(judged), replace(FEW, tests_change=True), stride=9)


@pytest.mark.unmeasured
@pytest.mark.sampled("one-*")
@pytest.mark.parametrize("groups", ["..", "gg"])
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("gate", "ignore"), id="one"),
        pytest.param(("failed", "gate", "continue", "ignore"), id="all"),
    ],
)
def test_changed_tests_obey_every_law_beside_another_step(
    kinds: tuple[str, ...], groups: str, figures: Figures
) -> None:
    for both in combinations(kinds, 2):
        figures += walk(composed(both, groups), TESTS_CHANGE, stride=9)


@pytest.mark.thorough
@pytest.mark.unmeasured
@pytest.mark.parametrize("groups", ["...", "gg."])
def test_three_steps_obey_every_law_in_sequence_and_after_a_group(
    groups: str, figures: Figures
) -> None:
    for kinds in product(FIVE, FIVE, FIVE if groups == "..." else ("done", "gate")):
        figures += walk(composed(kinds, groups), FEWEST, stride=5)


@pytest.mark.thorough
@pytest.mark.unmeasured
def test_a_group_of_three_obeys_every_law(figures: Figures) -> None:
    """kai FR22: all run at once, and the phase waits for every one.

    The ending `done` is left out: every step that can fail can also end as done.
    """
    for kinds in combinations_with_replacement(FIVE[1:], 3):
        figures += walk(composed(kinds, "ggg"), FEWEST, stride=11)


RETURN = OnFail("a")


def judged(
    on_fail: OnFail | None, *, group: str, policy: ErrorPolicy = ErrorPolicy.GATE
) -> Playbook:
    """A step, and one or two that judge it and can send back to it."""
    work = step("a", pre=(), policy=policy)
    judge = step("b", pre=(), policy=policy, group=group, on_fail=on_fail)
    beside = replace(judge, id="c", on_fail=None)
    return book(work, judge, *([beside] if group else []))


@pytest.mark.unmeasured
@pytest.mark.parametrize("group", ["", pytest.param("g", marks=pytest.mark.long)])
@pytest.mark.parametrize("on_fail", [None, RETURN], ids=["by a person", "by itself"])
def test_steps_that_send_back_obey_every_law(
    on_fail: OnFail | None, group: str, figures: Figures
) -> None:
    for policy in (ErrorPolicy.GATE, ErrorPolicy.RETRY_ONCE, ErrorPolicy.CONTINUE):
        figures += walk(judged(on_fail, group=group, policy=policy), FEWEST, stride=9)


@pytest.mark.unmeasured
def test_loops_that_send_back_obey_every_law(figures: Figures) -> None:
    """The items of the loop that sends back, and of the one that it sends back to, run again."""
    many = step("a", pre=(), for_each=Loop("$x", "y", 2))
    judge = step("b", pre=(), for_each=Loop("$x", "y", 2), on_fail=RETURN, policy=ErrorPolicy.GATE)
    figures += walk(book(many, judge), FEWEST, stride=9)


@pytest.mark.unmeasured
@pytest.mark.sampled("retry", "continue", "by code")
@pytest.mark.parametrize("policy", POLICIES, ids=POLICY_NAMES)
def test_steps_that_are_undone_obey_every_law(policy: ErrorPolicy, figures: Figures) -> None:
    figures += walk(book(step(policy=policy, undo=True), step("z", pre=(), post=())), FEW, stride=9)


@cache
def every_row() -> Figures:
    """A short walk that meets every row of the table."""
    figures = Figures()
    for kinds in (("gate", "gate"), ("gate", "asked"), ("asked", "asked"), ("gate", "skip")):
        figures += walk(composed(kinds, "gg"), FEWEST, stride=9)
    for policy in (ErrorPolicy.STOP, ErrorPolicy.CONTINUE):
        for autonomy in (Autonomy.GATE_ALWAYS, Autonomy.GATE_ON_BREAKING):
            figures += walk(book(step(autonomy=autonomy, policy=policy)), FEW, stride=9)
    blocked = replace(ENDINGS["gate"], id="a", parallel_group="g", preconditions=PRE)
    beside = replace(ENDINGS["asked"], id="b", parallel_group="g")
    figures += walk(book(blocked, beside), FEWEST, stride=9)
    for kind in PEOPLE:
        figures += walk(composed((kind,), "."), FEW, stride=9)
    figures += walk(composed(("failed", "failed"), "gg"), ASKING, stride=9)
    figures += walk(composed(("gate",), "."), TESTS_CHANGE, stride=9)
    asked = replace(ENDINGS["asked"], id="c")
    figures += walk(book(*judged(RETURN, group="").steps, asked), FEWEST, stride=9)
    figures += walk(book(step(policy=ErrorPolicy.CONTINUE, undo=True)), FEW, stride=9)
    return figures


@pytest.mark.unmeasured
def test_the_table_is_complete_and_every_row_of_it_is_met() -> None:
    assert every_row().rows == {(*key, then) for key, row in TABLE.items() for then in row.then}


@pytest.mark.unmeasured
@pytest.mark.parametrize("key", TABLE, ids=" ".join)
def test_nothing_happens_without_a_row(
    key: tuple[Position, Move], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel does what the table says: with a row gone, its move is refused or does nothing."""
    now = every_row().examples[key]
    assert decide(now.before, now.observation) == now.events
    monkeypatch.delitem(TABLE, key)
    refusal = refusal_of(now.before, now.observation)
    if refusal is None:
        changed = {event.entry.step_id for event in decide(now.before, now.observation)}
        assert all(positions(now.before)[step_id] is not key[0] for step_id in changed)
    else:
        assert refusal.code == "PB-STATE-REFUSED"


@pytest.mark.parametrize("key", TABLE, ids=" ".join)
def test_a_rule_that_leaves_its_row_is_a_bug(
    key: tuple[Position, Move], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = every_row().examples[key]
    monkeypatch.setitem(TABLE, key, replace(TABLE[key], then=()))
    with pytest.raises(RuntimeError, match=TABLE[key].rule.__name__):
        decide(now.before, now.observation)


def random_book(dice: random.Random) -> Playbook:
    """Up to six steps; neighbours often share a group of up to four."""
    steps: list[Step] = []
    while len(steps) < dice.randint(1, 6):
        group = f"g{len(steps)}" if dice.random() < 0.4 else ""
        for _ in range(dice.randint(1, 4) if group else 1):
            steps.append(
                step(
                    f"s{len(steps)}",
                    autonomy=dice.choice(list(Autonomy)),
                    policy=dice.choice(POLICIES),
                    pre=dice.choice(((), PRE, (*PRE, *POST))),
                    post=dice.choice(((), POST)),
                    triggers=tuple(one for one in Trigger if dice.random() < 0.3),
                    group=group,
                    for_each=None if group else dice.choice(LOOPS),
                    until=UNTIL_DONE,
                    rounds=dice.choice((1, 3)),
                )
            )
    return book(*steps)


@pytest.mark.unmeasured
@pytest.mark.parametrize("sessions", [60, pytest.param(2000, marks=pytest.mark.thorough)])
def test_random_sessions_of_larger_playbooks_obey_every_law(
    sessions: int, figures: Figures
) -> None:
    """Beyond any walk: long histories, groups of four, clocks that step back."""
    dice = random.Random(20260219)  # noqa: S311 - every run has the same sessions
    ends = Counter[str]()
    for number in range(sessions):
        state, at = State(random_book(dice)), 0
        journal: Journal = ()
        for turn in range(dice.randint(5, 25)):
            at += dice.randint(-2, 9)
            now = moment(Known.of(state, journal), any_legal(state, at, dice.randrange))
            obeys(now)
            figures.rows |= rows(now)
            state, journal = now.after, now.written
            figures.transitions += 1
            if turn % 7 == number % 7:
                nothing_else_counts(now)
                figures.refused += refuses(state, journal, at, first=number % 9, stride=9)
        ends[status(state).value] += 1
    figures.states = sessions
    assert set(ends) >= {"completed", "failed", "aborted", "in_progress"}
