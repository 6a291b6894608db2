"""The fixed vocabulary of the seeds: playbooks compose these words and cannot invent others.

Every word is spelled as in kai's data model. Nothing here knows how a word is carried out.
"""

from __future__ import annotations

from enum import StrEnum


class Autonomy(StrEnum):
    """Who decides that a step may run (kai FR2)."""

    AUTO = "auto"
    GATE_ON_BREAKING = "gate_on_breaking"
    GATE_ALWAYS = "gate_always"
    SKIP = "skip"


class ErrorPolicy(StrEnum):
    """What follows when a step fails and no trigger fires (kai FR5)."""

    STOP = "stop"
    RETRY_ONCE = "retry_once"
    GATE = "gate"


class Trigger(StrEnum):
    """What promotes a step to a gate (kai FR6). The order is the order in which they are named."""

    SUBAGENT_ERROR = "subagent_error"
    AGREEMENT_BREAKING = "agreement_breaking"
    VERDICT_FAIL = "verdict_fail"
    POSTCONDITION_FAIL = "postcondition_fail"


class Condition(StrEnum):
    """The artifact checks of kai FR3 and FR4."""

    SPEC_EXISTS = "spec_exists"
    PLAN_EXISTS = "plan_exists"
    TASKS_EXISTS = "tasks_exists"
    AGREEMENT_EXISTS = "agreement_exists"
    AGREEMENT_PASS = "agreement_pass"  # noqa: S105 - a condition, not a password
    QA_PLAN_EXISTS = "qa_plan_exists"
    QA_VERDICT_PASS = "qa_verdict_pass"  # noqa: S105
    PR_CREATED = "pr_created"


class SessionStatus(StrEnum):
    """The states of a session (kai data model, Session)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


class EntryStatus(StrEnum):
    """The states of a journal entry (kai data model, Journal Entry)."""

    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class Decision(StrEnum):
    """Who decided: nobody had to, a human at a gate, a human after a trigger, or the playbook."""

    AUTO = "auto"
    GATE = "gate"
    ESCALATED = "escalated"
    SKIPPED = "skipped"


class Resolution(StrEnum):
    """What a human may say at a gate; each gate offers some of these."""

    CONTINUE = "continue"
    RETRY = "retry"
    ACCEPT = "accept"
    SKIP = "skip"
    ABORT = "abort"


class GateReason(StrEnum):
    """Why a gate opened. The four triggers are reasons, too."""

    GATE_ALWAYS = "gate_always"
    PRECONDITION_FAIL = "precondition_fail"
    SUBAGENT_ERROR = "subagent_error"
    AGREEMENT_BREAKING = "agreement_breaking"
    VERDICT_FAIL = "verdict_fail"
    POSTCONDITION_FAIL = "postcondition_fail"


class Place(StrEnum):
    """On which side of the work a gate or a check stands."""

    BEFORE = "before"
    AFTER = "after"


class Mode(StrEnum):
    """Whether gates that guard nothing broken wait for a human (Catalyst FR-6.3)."""

    MANUAL = "manual"
    AUTONOMOUS = "autonomous"
