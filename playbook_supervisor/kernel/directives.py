"""What the kernel asks for, and what the world answers.

Plain frozen data on both sides. Times are milliseconds since the epoch and come in with the
observation: the kernel has no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.vocabulary import (
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.records import Record, field

# ── directives ──────────────────────────────────────────────────────────────────────────────


class Attempt(Record):
    """One attempt at one step. `id` is `plan#1`: the directive's id, and its agent's prompt."""

    step: Step
    number: int

    @property
    def id(self) -> str:
        return f"{self.step.id}#{self.number}"


class Check(Record):
    """Evaluate these members' conditions (`before`: pre-, `after`: postconditions) and findings.

    `id` is `before:plan#1.0`: the members and the number of gates so far, so that a stale answer
    of a slow process is refused.
    """

    id: str
    place: Place
    members: tuple[Attempt, ...]


class Run(Record):
    """These attempts are launched (their entries say so) and have not returned."""

    members: tuple[Attempt, ...]


class Ask(Record):
    """Put this gate to a human. `id` is `pr#1?1`: the first gate of the attempt `pr#1`."""

    id: str
    member: Attempt
    reason: GateReason
    place: Place
    choices: tuple[Resolution, ...]


class Finish(Record):
    """The session has ended."""

    status: SessionStatus


Directive = Check | Run | Ask | Finish


# ── what a check brings ─────────────────────────────────────────────────────────────────────


class Answer(StrEnum):
    """What a probe says of a condition."""

    HELD = "held"
    NOT_HELD = "not_held"
    ERROR = "error"
    """It could not be checked, which counts as failed."""


class Probed(Record):
    """One condition as it is now, with one line of evidence.

    `as_waived` is meaningful for a failing one: true unless its evidence is known to differ from
    what a human waived earlier in this session.
    """

    name: str
    answer: Answer
    evidence: str
    as_waived: bool = True

    @property
    def held(self) -> bool:
        return self.answer is Answer.HELD


class Standing(StrEnum):
    """What humans have said of a finding so far (the same digest of the same report)."""

    NEW = "new"
    ANSWERED = "answered"
    ACCEPTED = "accepted"


class Finding(Record):
    """A report says something that a trigger looks for: `agreement_breaking` or `verdict_fail`."""

    trigger: Trigger
    evidence: str
    standing: Standing = Standing.NEW


class Report(Record):
    """What a check found for one member."""

    conditions: tuple[Probed, ...] = ()
    findings: tuple[Finding, ...] = ()


# ── observations ────────────────────────────────────────────────────────────────────────────


class Failure(Record):
    """A structured error as the journal keeps it (Catalyst FR-4.11).

    `lasts` when the same attempt would fail the same way until somebody mends something: what is
    not permitted, not there or used up. Such a step is not tried again by itself.
    """

    code: str
    message: str
    guidance: str = ""
    cause: str = ""
    lasts: bool = False


class Outcome(Record):
    """What an agent or executor brings back (Catalyst TaskResult).

    `output` is the whole output, capped: before it reaches the kernel, the session cuts it to its
    first line, which the journal keeps. `agent` is the journal's usage record (`name`, `id`,
    `model`, `cost_usd`, …). `error` is None exactly when the worker succeeded; its code begins
    with `PB-AGENT-` or `PB-STEP-`.
    """

    error: Failure | None = None
    output: str = ""
    agent: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.error is None


class Begun(Record):
    """The session is to begin, at `start` if a person said `--from`."""

    at: int
    start: str = ""


class Checked(Record):
    """The answer to a `Check`: a report for each member, by step id."""

    at: int
    id: str
    reports: Mapping[str, Report]


class Returned(Record):
    """A launched attempt came back."""

    at: int
    id: str
    outcome: Outcome


class Lost(Record):
    """A launched attempt whose worker is gone; `finished` if the evidence says it had ended."""

    at: int
    id: str
    finished: bool


class Answered(Record):
    """A human's decision at the gate `id`. `by` names who (a git identity, `autonomous`)."""

    at: int
    id: str
    resolution: Resolution
    text: str
    by: str = ""


class TakenUp(Record):
    """A failed session is resumed (`resume --retry`)."""

    at: int


class Cancellation(StrEnum):
    ABORT = "abort"
    INTERRUPT = "interrupt"


class Cancelled(Record):
    """A human ends the session (`abort`) or only what runs (`interrupt`)."""

    at: int
    how: Cancellation
    text: str = ""
    by: str = ""


Observation = Begun | Checked | Returned | Lost | Answered | TakenUp | Cancelled
