"""The fixed vocabulary: playbooks combine these words and cannot add others.

Every word is spelled as in kai's data model. What a word does is decided elsewhere.
"""

from __future__ import annotations

from enum import StrEnum


class Autonomy(StrEnum):
    AUTO = "auto"
    GATE_ON_BREAKING = "gate_on_breaking"
    GATE_ALWAYS = "gate_always"
    SKIP = "skip"


class Trigger(StrEnum):
    """The reasons that turn a result into a gate. If several fire, the first of them is named."""

    SUBAGENT_ERROR = "subagent_error"
    AGREEMENT_BREAKING = "agreement_breaking"
    VERDICT_FAIL = "verdict_fail"
    POSTCONDITION_FAIL = "postcondition_fail"


class Condition(StrEnum):
    """The checks before and after a step; version 1.1 adds those from TASKS_DONE, 1.2 PROVED."""

    SPEC_EXISTS = "spec_exists"
    PLAN_EXISTS = "plan_exists"
    TASKS_EXISTS = "tasks_exists"
    AGREEMENT_EXISTS = "agreement_exists"
    AGREEMENT_PASS = "agreement_pass"  # noqa: S105 - a condition, not a password
    QA_PLAN_EXISTS = "qa_plan_exists"
    QA_VERDICT_PASS = "qa_verdict_pass"  # noqa: S105
    PR_CREATED = "pr_created"
    TASKS_DONE = "tasks_done"
    FILE_EXISTS = "file_exists"
    FILE_CONTAINS = "file_contains"
    GIT_CLEAN = "git_clean"
    BRANCH_EXISTS = "branch_exists"
    TAG_EXISTS = "tag_exists"
    VERDICT_PASS = "verdict_pass"  # noqa: S105
    COMMAND_SUCCEEDS = "command_succeeds"
    COMMAND_FAILS = "command_fails"
    CHANGES_MADE = "changes_made"
    CHANGES_WITHIN = "changes_within"
    COMMITS_MADE = "commits_made"
    PROVED = "proved"


class ArgType(StrEnum):
    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ENUM = "enum"


class Transform(StrEnum):
    """The way in which the value of an arg is rewritten before it is used."""

    KEBAB_CASE = "kebab-case"
    SNAKE_CASE = "snake-case"
    CAMEL_CASE = "camel-case"


class OutputFormat(StrEnum):
    """The form in which a later step may read a step's output."""

    TEXT = "text"
    JSON = "json"


class SessionStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


ENDED = frozenset({SessionStatus.COMPLETED, SessionStatus.FAILED, SessionStatus.ABORTED})


class EntryStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class Decision(StrEnum):
    """The decision about an entry: automatic, by a human at a gate, by a human after a trigger, or
    none because the step was skipped."""

    AUTO = "auto"
    GATE = "gate"
    ESCALATED = "escalated"
    SKIPPED = "skipped"


class Resolution(StrEnum):
    """The answers to gates; each gate offers some of them."""

    CONTINUE = "continue"
    RETRY = "retry"
    ACCEPT = "accept"
    SKIP = "skip"
    BACK = "back"
    ABORT = "abort"
    ALLOW = "allow"
    ALWAYS = "always"
    DENY = "deny"
    ANSWER = "answer"


class GateReason(StrEnum):
    """The reason of a gate. The four triggers are among the reasons; `permission` and `question`
    are asked by the agent while it works. `witnesses` asks about tests that have changed."""

    GATE_ALWAYS = "gate_always"
    APPROVAL = "approval"
    TOOLS = "tools"
    CHECKPOINT = "checkpoint"
    PERMISSION = "permission"
    QUESTION = "question"
    PRECONDITION_FAIL = "precondition_fail"
    SUBAGENT_ERROR = "subagent_error"
    AGREEMENT_BREAKING = "agreement_breaking"
    VERDICT_FAIL = "verdict_fail"
    POSTCONDITION_FAIL = "postcondition_fail"
    WITNESSES = "witnesses"


class Place(StrEnum):
    """The place of a gate: before, during or after the run of a step. No check is during it."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


class Mode(StrEnum):
    """Whether a gate that no trigger raised waits for a person, or is passed (`autonomous`)."""

    MANUAL = "manual"
    AUTONOMOUS = "autonomous"
