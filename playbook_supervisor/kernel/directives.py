"""Directives, which the kernel gives, and observations, which answer them.

All of them are immutable data. The kernel has no clock: every observation brings its time, in
milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.vocabulary import (
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.records import Record, field, replace

# ── directives ────────────────────────────────────────────────────────────────────────────


class Attempt(Record):
    """One attempt at one step. Its `id` is `plan#1`.

    For drivers, an attempt of a child session is `within` the attempt that the child works for:
    its id is then `release#1/plan#1`. The kernel itself knows one session only.
    """

    step: Step
    number: int
    within: str = ""

    @property
    def own_id(self) -> str:
        return f"{self.step.id}#{self.number}"

    @property
    def id(self) -> str:
        return f"{self.within}/{self.own_id}" if self.within else self.own_id


class Check(Record):
    """Evaluate the preconditions (`before`) or postconditions (`after`) of these attempts.

    `id` is `before:plan#1.0`: the members and the number of gates so far, so that the late answer
    of a slow process is refused. It is not to be answered before `not_before`, in ms since the
    epoch: retries wait until then. `untried` are the steps that have not run and wait
    at no gate: they may still be passed over. With `undoes`, what a failed attempt has changed is
    to be undone first, which the condition `undo` of the report is about.
    """

    id: str
    place: Place
    members: tuple[Attempt, ...]
    not_before: int | None = None
    untried: tuple[str, ...] = ()
    undoes: bool = False


class Run(Record):
    """Run these attempts. Their entries are marked as launched, and none has returned.

    `continues` are the ids of those that go on with the answer of a person whom they asked.
    """

    members: tuple[Attempt, ...]
    continues: tuple[str, ...] = ()


class Ask(Record):
    """Ask a human about this gate. `id` is `pr#1?1` for the first gate of the attempt `pr#1`.

    `request` is what the agent asks for in the middle of its work; empty for any other gate.
    `meanwhile` is what runs while the gate is open. `back` are the earlier steps to which an answer
    can send back, the one that the choice names first.
    """

    id: str
    member: Attempt
    reason: GateReason
    place: Place
    choices: tuple[Resolution, ...]
    request: Mapping[str, object] = field(default_factory=dict)
    meanwhile: Run | None = None
    back: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return as_typed(self.choices, self.back)


def as_typed(choices: Sequence[Resolution], back: Sequence[str]) -> tuple[str, ...]:
    """The choices as a person types them: `continue`, `back to change`."""
    return tuple(
        f"{choice} to {back[0]}" if choice is Resolution.BACK and back else choice.value
        for choice in choices
    )


class Finish(Record):
    status: SessionStatus


Directive = Check | Run | Ask | Finish


# ── the result of a check ─────────────────────────────────────────────────────────────────


class Answer(StrEnum):
    HELD = "held"
    NOT_HELD = "not_held"
    ERROR = "error"  # the condition could not be checked, which counts as not held


BY_A_PERSON = "accepted by a person"
"""The end of the evidence of a condition that holds because a change of tests was accepted."""


class Probed(Record):
    """The result for one condition, with one line of evidence.

    `as_waived` matters only if the condition does not hold. It is false if the evidence is known to
    differ from what a human waived earlier in this session. `code` is the error code if it does not
    hold and there is a more telling one: `PB-STEP-DATA` for data that a step lacks, before it runs,
    `PB-STEP-ITEMS` for a loop that has no list of items, `PB-COND-UNTIL` for a condition until
    which the step is repeated, `PB-COND-OUTPUT` for an output of the playbook, which the step that
    settles last answers for, and `PB-COND-WITNESSES` where tests have changed, or what they rest
    on: a person decides about that. `asked` comes with this last code: the digest of what the
    person is asked about. `blames`: it does not hold because of work that was judged, such as a
    verdict that is not PASS, and not because the step has left its own undone.
    """

    name: str
    answer: Answer
    evidence: str
    as_waived: bool = True
    code: str = ""
    asked: str = ""
    blames: bool = False

    @property
    def held(self) -> bool:
        return self.answer is Answer.HELD

    def accepted(self) -> Probed:
        """The same where it holds because a person has accepted what was asked."""
        evidence = f"{self.evidence}, {BY_A_PERSON}"
        return replace(self, answer=Answer.HELD, evidence=evidence, code="", asked="")

    @property
    def line(self) -> str:
        """`plan_exists: specs/013-x/plan.md, 12 lines`, as the journal keeps it."""
        word, _, value = self.name.partition("=")
        repeated = value and self.evidence.startswith(value)  # `file_exists: dist/x is missing`
        return f"{word if repeated else self.name}: {self.evidence}"


class Standing(StrEnum):
    """The decision of humans about a finding so far, as long as its report is unchanged."""

    NEW = "new"
    ANSWERED = "answered"
    ACCEPTED = "accepted"


class Finding(Record):
    """Something in a report that can fire `agreement_breaking` or `verdict_fail`."""

    trigger: Trigger
    evidence: str
    standing: Standing = Standing.NEW


class Report(Record):
    """The result of a check for one member.

    `passed_over` is evidence, not empty, that the step is not to run: its `when` is false, or all
    its `skip_if` hold. It counts for the `untried` only. `session` is the child session that is to
    do the step's work, where it is one. `item` is what the journal says of the item of a loop.
    `isolation` is what isolates the step's programs.
    """

    conditions: tuple[Probed, ...] = ()
    findings: tuple[Finding, ...] = ()
    passed_over: str = ""
    session: str = ""
    item: str = ""
    isolation: str = ""


# ── observations ──────────────────────────────────────────────────────────────────────────


class Failure(Record):
    """A structured error, as the journal records it.

    `lasts`: another attempt would fail in the same way until a person fixes the cause, such as a
    missing permission or a used-up limit, so there is no automatic retry.
    """

    code: str
    message: str
    guidance: str = ""
    cause: str = ""
    lasts: bool = False


FIGURES = ("cost_usd", "input_tokens", "output_tokens", "weighed_tokens", "turns", "retries")
"""The keys of a usage record that are numbers."""


def impossible_figures(usage: Mapping[str, object]) -> tuple[str, ...]:
    """The keys whose values cannot be: negative, infinite, or not a number where one is due."""
    return tuple(key for key, value in usage.items() if not _possible(key, value))


def possible_usage(usage: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    """The record without figures that cannot be."""
    return {key: value for key, value in usage.items() if _possible(key, value)}


def _possible(key: str, value: object) -> bool:
    if not isinstance(value, int | float):
        return key not in FIGURES
    return abs(value) < float("inf") and (value >= 0 or key not in FIGURES)


class Outcome(Record):
    """The result of an agent or executor.

    `error` is None if the worker succeeded; else its code begins with `PB-AGENT-` or `PB-STEP-`.
    `output` is the whole output, capped: before it reaches the kernel, the session cuts it to its
    last words, which the journal keeps. `agent` is the journal's usage record (`name`, `id`,
    `model`, `cost_usd`, …). `data` is the output of a step that promises JSON, and `files` are the
    paths that it made; the kernel looks at neither. `cached_from` names the attempt whose recorded
    result this is, `20260219-a7k/build#1`, if nothing has run. `silent`: an agent said nothing and
    called no tool; None if it does not know.
    """

    error: Failure | None = None
    output: str = ""
    agent: Mapping[str, str | int | float] = field(default_factory=dict)
    data: Any = None
    files: tuple[str, ...] = ()
    cached_from: str = ""
    silent: bool | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


class Begun(Record):
    """The session begins, at the step `start` if a person used `--from`."""

    at: int
    start: str = ""


class Checked(Record):
    """The answer to a `Check`: step id → report, for every member.

    A loop whose number of items is not known yet is the only member of its check. It is answered
    with this number, `items`, and reports on the items that are to run first. Without items the
    report on the loop itself says why: it is passed over, or something does not hold.
    """

    at: int
    id: str
    reports: Mapping[str, Report]
    items: int = 0


class Returned(Record):
    at: int
    id: str
    outcome: Outcome


class Asked(Record):
    """The agent of a running attempt asks a person, and waits: a permission or a question.

    `request` is plain data of JSON; the kernel reads only its texts and the `rule` for `always`.
    """

    at: int
    id: str
    reason: GateReason
    request: Mapping[str, object]


class Lost(Record):
    """The worker of a launched attempt is gone; `finished` if the evidence shows it had ended."""

    at: int
    id: str
    finished: bool


class Answered(Record):
    """An answer to the gate `id`. `by` is a git identity, or `autonomous`.

    `via` is where it was given, `inbox` or `fleet`; empty for a terminal. `role` is the role of a
    fleet's database that gave it, as the database says; empty outside of a fleet. The words may
    name the step that is sent back to.
    """

    at: int
    id: str
    resolution: Resolution
    text: str
    by: str = ""
    via: str = ""
    role: str = ""


class TakenUp(Record):
    """A failed session is resumed (`resume --retry`)."""

    at: int


class Cancellation(StrEnum):
    ABORT = "abort"
    INTERRUPT = "interrupt"


class Cancelled(Record):
    """A human ends the session (`abort`), or only the running attempts (`interrupt`)."""

    at: int
    how: Cancellation
    text: str = ""
    by: str = ""


Observation = Begun | Checked | Asked | Returned | Lost | Answered | TakenUp | Cancelled


# ── in a few words, for messages ────────────────────────────────────────────────────────────


def describe(asked: Directive) -> str:
    """The outstanding directive: `the gate pr#1?1`."""
    match asked:
        case Check(id=id_):
            return f"the check {id_}"
        case Run(members=members):
            return "the work of " + ", ".join(member.id for member in members)
        case Ask(id=id_):
            return f"the gate {id_}"
        case _:
            return f"nothing: the session is {asked.status}"


def in_words(observation: Observation) -> str:
    """The report: `the result of before:plan#1.0`."""
    match observation:
        case Begun():
            return "a beginning"
        case TakenUp():
            return "a retry of the session"
        case Cancelled(how=how):
            return f"an {how}"
        case Checked(id=id_):
            return f"the result of {id_[:60]}"
        case _:
            return observation.id[:60]
