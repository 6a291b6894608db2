"""What the kernel asks for, and what the world answers.

Plain frozen data on both sides. Times are milliseconds since the epoch and come in with the
observation: the kernel has no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from playbook_supervisor.model import Step
from playbook_supervisor.vocabulary import GateReason, Place, Resolution, SessionStatus, Trigger

# ── directives ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at one step. `id` is `plan#1`: the directive's id, and its agent's prompt."""

    step: Step
    number: int

    @property
    def id(self) -> str:
        return f"{self.step.id}#{self.number}"


@dataclass(frozen=True, slots=True)
class Check:
    """Evaluate these members' conditions (`before`: pre-, `after`: postconditions) and findings.

    `id` is `before:plan#1.0`: the members and the number of gates so far, so that a stale answer
    of a slow process is refused.
    """

    id: str
    place: Place
    members: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """These attempts are launched (their entries say so) and have not returned."""

    members: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Put this gate to a human. `id` is `pr#1?1`: the first gate of the attempt `pr#1`."""

    id: str
    member: Attempt
    reason: GateReason
    place: Place
    choices: tuple[Resolution, ...]


@dataclass(frozen=True, slots=True)
class Finish:
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


@dataclass(frozen=True, slots=True)
class Probed:
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


@dataclass(frozen=True, slots=True)
class Finding:
    """A report says something that a trigger looks for: `agreement_breaking` or `verdict_fail`."""

    trigger: Trigger
    evidence: str
    standing: Standing = Standing.NEW


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found for one member."""

    conditions: tuple[Probed, ...] = ()
    findings: tuple[Finding, ...] = ()


# ── observations ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Failure:
    """A structured error as the journal keeps it (Catalyst FR-4.11)."""

    code: str
    message: str
    guidance: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an agent or executor brings back (Catalyst TaskResult).

    `output` is a capped first line; `agent` the usage record of the journal (`name`, `id`,
    `model`, `cost_usd`, …). `error` is None exactly when the worker ended well; its code begins
    with `PB-AGENT-` or `PB-STEP-`.
    """

    error: Failure | None = None
    output: str = ""
    agent: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class Begun:
    """The session is to begin, at `start` if a person said `--from`."""

    at: int
    start: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to a `Check`: a report for each member, by step id."""

    at: int
    id: str
    reports: Mapping[str, Report]


@dataclass(frozen=True, slots=True)
class Returned:
    """A launched attempt came back."""

    at: int
    id: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Lost:
    """A launched attempt whose worker is gone; `finished` if the evidence says it had ended."""

    at: int
    id: str
    finished: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A human's decision at the gate `id`. `by` names who (a git identity, `autonomous`)."""

    at: int
    id: str
    resolution: Resolution
    text: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A failed session is resumed (`resume --retry`)."""

    at: int


class Cancellation(StrEnum):
    ABORT = "abort"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A human ends the session (`abort`) or only what runs (`interrupt`)."""

    at: int
    how: Cancellation
    text: str = ""
    by: str = ""


Observation = Begun | Checked | Returned | Lost | Answered | TakenUp | Cancelled
