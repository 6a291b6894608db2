"""Every rule of an audit: its code, what it finds, and what to do about it.

docs/audit.md is generated from this module.
"""

from __future__ import annotations

from dataclasses import dataclass

from playbook_supervisor.errors import TextPosition
from playbook_supervisor.formats.problems import Problem


@dataclass(frozen=True, slots=True)
class AuditRule:
    """The finding of a rule, in a sentence, and what a person can do about it.

    `ours`: it is about keys that only this program writes; all others apply to any journal.
    """

    says: str
    guidance: str
    ours: bool = False


_CLOCK = "Do not rely on its times."
_FIGURES = "Do not rely on its figures; `playbook metrics` adds them up."
_HISTORY = "Compare it with the repository's history: what was really done, and when?"
_ASK = "Ask the person who ran it."
_PROBE = "`playbook probe` shows what the conditions say now."
_REPAIR = "`playbook repair` shows what was changed since it was written."
_PROJECTION = "Trust the journal; the session's next command corrects session.yaml."

READING = {
    "AUD-READ": AuditRule(
        "a file of the session is missing or cannot be read",
        "`playbook repair SESSION --restore` restores what was written; otherwise take the file "
        "from git, or fix it at the place named.",
    ),
    "AUD-UNPROVED": AuditRule(
        "the files are not what was written here, or nothing is left that would show it", _REPAIR
    ),
    "AUD-FORM": AuditRule(
        "a key is missing, or its value is not allowed in a journal",
        "`playbook schema journal` lists the keys and their values.",
    ),
}

TIMES = {
    "AUD-DURATION": AuditRule(
        "a duration differs from its times (in other tools' journals, by more than a second)",
        _CLOCK,
    ),
    "AUD-NEGATIVE": AuditRule(
        "a duration, a cost or a count is negative, or is no number", _FIGURES
    ),
    "AUD-COMPLETION": AuditRule(
        "something is settled without an end, or has an end without being settled", _CLOCK
    ),
    "AUD-BACKWARDS": AuditRule("something ended before it began", _CLOCK),
    "AUD-FUTURE": AuditRule("a time is in the future", _CLOCK),
    "AUD-EARLY": AuditRule("an entry began before its session", _CLOCK),
    "AUD-COMMITTED": AuditRule(
        "a time is later than the commit that contains it", f"{_CLOCK} {_HISTORY}"
    ),
    "AUD-AFTER-END": AuditRule("an entry states a time after its session ended", _CLOCK),
}

ORDER = {
    "AUD-STEP": AuditRule("an entry belongs to no step of the session's playbook", _HISTORY),
    "AUD-PHASE": AuditRule("a step began before an earlier one was settled", _HISTORY),
    "AUD-OVERLAP": AuditRule("a step began before an earlier one ended", _CLOCK),
    "AUD-ORDER": AuditRule(
        "the entries are not in the order in which they began", _REPAIR, ours=True
    ),
    "AUD-TWICE": AuditRule("two entries have the same id", _REPAIR, ours=True),
    "AUD-ATTEMPT": AuditRule("an attempt's number is not the next one", _REPAIR, ours=True),
    "AUD-AGAIN": AuditRule("a step ran again after it was done or skipped", _HISTORY),
    "AUD-BACK": AuditRule(
        "a step ran again although nothing that may send back to it did, or more often than it may",
        _HISTORY,
    ),
    "AUD-RETRY": AuditRule(
        "a step was retried more often than its error policy allows, without a person's answer",
        _ASK,
    ),
    "AUD-REPLAY": AuditRule(
        "an entry cannot follow from the earlier ones (if no other rule says why)",
        _REPAIR,
        ours=True,
    ),
}

LOOPS = {
    "AUD-ITEMS": AuditRule(
        "the items of a loop are out of order, one is missing, or their number changes", _HISTORY
    ),
    "AUD-ROUNDS": AuditRule("a step ran for more rounds than its `until` allows", _ASK),
}

DECISIONS = {
    "AUD-ESCALATION": AuditRule("an entry is escalated, but names no trigger", _ASK),
    "AUD-TRIGGER": AuditRule(
        "an entry names a trigger, but was not escalated, or no gate opened for it", _ASK
    ),
    "AUD-UNDECLARED": AuditRule("a trigger fired that the step does not declare", _ASK),
    "AUD-DECISION": AuditRule(
        "the decision does not fit the entry's status, its gates or its playbook", _ASK
    ),
    "AUD-SKIP": AuditRule("a step was skipped, but neither by its playbook nor by a person", _ASK),
    "AUD-RESPONSE": AuditRule(
        "a person's answer has no gate, differs from its gate's answer, or does not mean what it "
        "was taken for",
        _ASK,
    ),
    "AUD-WAIVED": AuditRule("a failure was waived, but no person accepted one", _ASK, ours=True),
    "AUD-EVIDENCE": AuditRule(
        "a step is done without evidence of its postconditions, or with evidence of a check that "
        "contradicts itself or its condition",
        _PROBE,
        ours=True,
    ),
    "AUD-REFUTED": AuditRule(
        "a step is done, but its evidence says that a check failed (unless that was waived, or "
        "the error policy lets the run continue)",
        _PROBE,
    ),
    "AUD-ERROR": AuditRule(
        "an entry failed without an error, or is done with an error that no person decided about",
        _REPAIR,
        ours=True,
    ),
}

GATES = {
    "AUD-GATE-MISSING": AuditRule("a step ran without the gate that its playbook requires", _ASK),
    "AUD-GATE-OPEN": AuditRule("a gate was passed without a recorded answer", _ASK),
    "AUD-PERSON": AuditRule(
        "a gate was answered by a person whom the session's policies do not allow to", _ASK
    ),
    "AUD-GATE-ID": AuditRule("a gate's id is not the next one of its entry", _REPAIR),
    "AUD-ASKED": AuditRule(
        "a gate is an agent's, but no agent was at work, or it does not say what was asked", _REPAIR
    ),
    "AUD-CHOICE": AuditRule(
        "an answer is not a choice of its gate, or there is no such gate", _REPAIR
    ),
}

ENDING = {
    "AUD-SESSION": AuditRule(
        "the session's id is not the name of its folder", "Give both the same name again."
    ),
    "AUD-PLAYBOOK": AuditRule(
        "session.yaml names another playbook than the session's own copy", _REPAIR
    ),
    "AUD-FEATURE": AuditRule(
        "session.yaml names another feature than its arguments, or than its entries' evidence",
        _HISTORY,
    ),
    "AUD-COMPLETED": AuditRule(
        "the session is completed, but a step failed or is missing (unless that was waived, or "
        "the error policy lets the run continue)",
        _HISTORY,
    ),
    "AUD-ENDED": AuditRule("the session ended, but a step is in progress", _HISTORY),
    "AUD-STATUS": AuditRule("the session's status disagrees with its journal", _PROJECTION),
    "AUD-CURRENT": AuditRule("the current step disagrees with the journal", _PROJECTION),
    "AUD-WAITING": AuditRule("the waiting gate disagrees with the journal", _PROJECTION, ours=True),
    "AUD-MERGED": AuditRule(
        "the session's branch was merged, but the session never ended",
        "`playbook abort` ends it; `playbook resume` continues it.",
    ),
}

CHILDREN = {
    "AUD-CHILD": AuditRule(
        "an attempt is done without its child session, or that names another parent", _HISTORY
    ),
    "AUD-CHILD-END": AuditRule(
        "an attempt is done, but its child session is not completed (unless that was waived, or "
        "the error policy lets the run continue)",
        _HISTORY,
    ),
    "AUD-CHILD-TIME": AuditRule(
        "a child session began before its attempt, or ended after it", _CLOCK
    ),
    "AUD-CHILD-TWICE": AuditRule("two attempts have the same child session", _REPAIR),
    "AUD-PARENT": AuditRule("a child session's parent is missing or does not name it", _HISTORY),
}

FAMILIES = {
    "Reading": READING,
    "Times and figures": TIMES,
    "Order": ORDER,
    "Loops": LOOPS,
    "Decisions": DECISIONS,
    "Gates": GATES,
    "Child sessions": CHILDREN,
    "The session": ENDING,
}

RULES: dict[str, AuditRule] = {
    code: rule for family in FAMILIES.values() for code, rule in family.items()
}


def finding(code: str, message: str, file: str, position: TextPosition = (1, 1)) -> Problem:
    """A finding, with the guidance of its rule."""
    return Problem(file, position, "error", code, message, RULES[code].guidance)
