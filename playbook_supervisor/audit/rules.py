"""What cannot be true of a session: every rule with its code, its sentence and what to do.

docs/audit.md is generated from this page. Rules of `OURS` are about keys that only this program
writes; every other one is asked of any journal.
"""

from __future__ import annotations

from playbook_supervisor.errors import TextPosition
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.records import Record


class AuditRule(Record):
    """`says`: what is found. `guidance`: what a person can do about it."""

    says: str
    guidance: str


_CLOCK = "Do not rely on its times."
_FIGURES = "Do not rely on its figures: `playbook metrics` adds them up."
_HISTORY = "Compare with the history of the repository: what was really done, and when?"
_ASK = "Ask whoever ran it."
_PROBE = "`playbook probe` says what they say now."
_REPAIR = "`playbook repair` shows what was changed since it was written."
_PROJECTION = "Believe the journal; the next command of the session mends session.yaml."

READING = {
    "AUD-READ": AuditRule(
        "a file of the session is missing, or is no document that can be read",
        "`playbook repair SESSION --restore` puts back what was written; else take the file from "
        "git, or mend it at the place named.",
    ),
    "AUD-FORM": AuditRule(
        "a key is missing, or its value is none that a journal can have",
        "docs/format.md lists the keys and their words.",
    ),
}

TIMES = {
    "AUD-DURATION": AuditRule(
        "a duration is not the difference of its times (in foreign journals: by over a second)",
        _CLOCK,
    ),
    "AUD-NEGATIVE": AuditRule("a duration, a cost or a count is below zero", _FIGURES),
    "AUD-COMPLETION": AuditRule(
        "something is settled and has no end, or is not settled and has one", _CLOCK
    ),
    "AUD-BACKWARDS": AuditRule("something ended before it began", _CLOCK),
    "AUD-FUTURE": AuditRule("a time has not come yet", _CLOCK),
    "AUD-EARLY": AuditRule("an entry began before its session", _CLOCK),
    "AUD-COMMITTED": AuditRule(
        "a time is later than the commit in which it stands", f"{_CLOCK} {_HISTORY}"
    ),
    "AUD-AFTER-END": AuditRule("an entry goes on after its session ended", _CLOCK),
}

ORDER = {
    "AUD-STEP": AuditRule(
        "an entry is of a step that the session's playbook does not have", _HISTORY
    ),
    "AUD-PHASE": AuditRule("a step began, and one that has to be settled first was not", _HISTORY),
    "AUD-OVERLAP": AuditRule("a step began before one that has to be settled first ended", _CLOCK),
    "AUD-ORDER": AuditRule("the entries do not stand in the order in which they began", _REPAIR),
    "AUD-TWICE": AuditRule("two entries have one id", _REPAIR),
    "AUD-ATTEMPT": AuditRule("an attempt's number is not the next one", _REPAIR),
    "AUD-AGAIN": AuditRule("a step ran again that was done or skipped", _HISTORY),
    "AUD-RETRY": AuditRule(
        "a step was tried again more often than its error policy allows, and nobody said so", _ASK
    ),
    "AUD-REPLAY": AuditRule(
        "an entry cannot follow from those before it (where no finer rule says why)", _REPAIR
    ),
}

DECISIONS = {
    "AUD-ESCALATION": AuditRule("an entry is escalated, and no trigger is named", _ASK),
    "AUD-TRIGGER": AuditRule(
        "a trigger is named where nothing was escalated, or no gate opened for it", _ASK
    ),
    "AUD-UNDECLARED": AuditRule("a trigger fired that the step does not declare", _ASK),
    "AUD-DECISION": AuditRule(
        "the decision does not fit the entry's status, its gates or its playbook", _ASK
    ),
    "AUD-SKIP": AuditRule(
        "a step was skipped, and neither its playbook nor a person said so", _ASK
    ),
    "AUD-RESPONSE": AuditRule(
        "a person's answer stands where no gate was, is not the one that its gate was given, or "
        "was taken for what its words do not say",
        _ASK,
    ),
    "AUD-WAIVED": AuditRule("something was waived that nobody accepted", _ASK),
    "AUD-EVIDENCE": AuditRule(
        "a step is done, and nothing says that its postconditions held",
        _PROBE,
    ),
    "AUD-REFUTED": AuditRule(
        "a step is done, and its evidence says that a check failed (unless that was waived, or the "
        "error policy goes on)",
        _PROBE,
    ),
    "AUD-ERROR": AuditRule(
        "an entry failed and does not say why, or is done with an error that nobody looked at",
        _REPAIR,
    ),
}

GATES = {
    "AUD-GATE-MISSING": AuditRule(
        "a step ran without the gate that its playbook puts before it", _ASK
    ),
    "AUD-GATE-OPEN": AuditRule("a gate was passed, and no answer is recorded", _ASK),
    "AUD-PERSON": AuditRule(
        "a gate was answered by somebody whom the session's policies do not admit", _ASK
    ),
    "AUD-GATE-ID": AuditRule("a gate's id is not the next one of its entry", _REPAIR),
    "AUD-CHOICE": AuditRule(
        "an answer is none that its gate offers, or there is no such gate", _REPAIR
    ),
}

ENDING = {
    "AUD-SESSION": AuditRule(
        "the session's id is not the name of its folder", "Give both the same name again."
    ),
    "AUD-PLAYBOOK": AuditRule(
        "session.yaml names another playbook than the one that is kept beside it", _REPAIR
    ),
    "AUD-FEATURE": AuditRule(
        "session.yaml names another feature than its arguments, or than the files that its entries "
        "rest on",
        _HISTORY,
    ),
    "AUD-COMPLETED": AuditRule(
        "the session is completed, and a step failed or is missing (unless that was waived, or "
        "the error policy goes on)",
        _HISTORY,
    ),
    "AUD-ENDED": AuditRule("the session ended, and a step is still at work", _HISTORY),
    "AUD-STATUS": AuditRule("the session's status is not what its journal says", _PROJECTION),
    "AUD-CURRENT": AuditRule("the current step is another one by the journal", _PROJECTION),
    "AUD-WAITING": AuditRule("the gate that waits is another one by the journal", _PROJECTION),
    "AUD-MERGED": AuditRule(
        "the session never ended, and its branch was merged",
        "`playbook abort` ends it; `playbook resume` goes on.",
    ),
}

FAMILIES = {
    "Reading": READING,
    "Times and figures": TIMES,
    "Order": ORDER,
    "Decisions": DECISIONS,
    "Gates": GATES,
    "The session": ENDING,
}

RULES: dict[str, AuditRule] = {
    code: rule for family in FAMILIES.values() for code, rule in family.items()
}

OURS = frozenset(
    {
        "AUD-ATTEMPT",
        "AUD-ERROR",
        "AUD-EVIDENCE",
        "AUD-ORDER",
        "AUD-REPLAY",
        "AUD-TWICE",
        "AUD-WAITING",
        "AUD-WAIVED",
    }
)


def finding(code: str, message: str, file: str, position: TextPosition = (1, 1)) -> Problem:
    """A finding, with the guidance of its rule."""
    return Problem(file, position, "error", code, message, RULES[code].guidance)
