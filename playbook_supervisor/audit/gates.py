"""Gates: each is put, answered by one of its choices, and passed by nobody else."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseGate, LooseJournal
from playbook_supervisor.errors import PolicyError
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.gates import CHOICES
from playbook_supervisor.kernel.state import NEVER_RAN
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, GateReason, Resolution

_BY_A_GATE = (Decision.GATE, Decision.ESCALATED)


def judge(case: AuditContext) -> Iterator[Problem]:
    """All of them."""
    cleared: set[str] = set()
    for entry in case.journal.entries:
        for number, gate in enumerate(entry.gates, 1):
            yield from _one(case, entry, gate, number)
            yield from _admitted(case, entry, gate)
        yield from _unanswered(case, entry)
        if _passed(entry):
            cleared.add(entry.step_id)
        if case.gated(entry) and _ran(entry) and entry.step_id not in cleared:
            message = f"{entry.name} ran, and nobody was asked before, as its playbook wants"
            yield found("AUD-GATE-MISSING", message, entry, "decision")


def anonymous(journal: LooseJournal) -> Iterator[str]:
    """A note on answers of nobody: git may have known no name, or it was taken out since."""
    gates = [
        f"{entry.name}?{number}"
        for entry in journal.entries
        for number, gate in enumerate(entry.gates, 1)
        if gate.answered and not gate.by and "by" not in gate.unclear
    ]
    if journal.ours and gates:
        names = first_line(", ".join(gates), 100)
        yield f"it does not say who answered {names}"


def _one(case: AuditContext, entry: LooseEntry, gate: LooseGate, number: int) -> Iterator[Problem]:
    if gate.id not in ("", f"{entry.id}?{number}"):
        message = f"gate {number} of {entry.name} has the id of another one"
        yield found("AUD-GATE-ID", message, gate, "id")
    if gate.reason is None or gate.place is None:
        return
    offered = CHOICES.get((gate.reason, gate.place))
    if offered is None:
        message = f"no gate for {gate.reason} stands {gate.place} a step"
        yield found("AUD-CHOICE", f"{entry.name}: {message}", gate, "place")
    elif gate.resolution is not None and gate.resolution not in offered:
        message = f"{gate.resolution} is no answer to {gate.reason} {gate.place} a step"
        yield found("AUD-CHOICE", f"{entry.name}: {message}", gate, "resolution")
    elif case.journal.ours and _understood_by_words(gate):
        meant = read_answer(gate.text, offered).resolution
        if meant is not gate.resolution:
            what = f"words for {meant}" if meant else "words that are no answer"
            message = f"its gate was answered by {what}, taken for {gate.resolution}"
            yield found("AUD-RESPONSE", f"{entry.name}: {message}", gate, "resolution")


def _understood_by_words(gate: LooseGate) -> bool:
    """Whether an answer comes from what was said alone. An abort may give any reason."""
    return gate.resolution not in (None, Resolution.ABORT) and "text" not in gate.unclear


def _admitted(case: AuditContext, entry: LooseEntry, gate: LooseGate) -> Iterator[Problem]:
    """Who answers is the policies' business, where the session has any."""
    if gate.resolution is None or "by" in gate.unclear:
        return
    try:
        case.policy.admit(entry.step_id, gate.resolution, first_line(gate.by))
    except PolicyError as error:
        yield found("AUD-PERSON", error.message, gate, "by")


def _unanswered(case: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """An abort answers one gate and closes the others that are open."""
    over = entry.settled and entry.resolution is not Resolution.ABORT
    for gate in entry.gates:
        waits = gate is entry.gates[-1] and not over
        known = gate.resolution is not None or "resolution" in gate.unclear
        if not known if gate.answered else not waits:
            message = f"a gate of {entry.name} was passed, and no answer is recorded"
            yield found("AUD-GATE-OPEN", message, gate, "id")
    said = entry.human_response or entry.resolution is not None or entry.unclear
    keeps_gates = case.journal.ours or entry.gates
    if over and entry.decision in _BY_A_GATE and not keeps_gates and not said:
        message = f"{entry.name} was decided at a gate, and no answer is recorded"
        yield found("AUD-GATE-OPEN", message, entry, "decision")


def _passed(entry: LooseEntry) -> bool:
    """Whether somebody let the step run: for every later attempt, too."""
    if entry.gates:
        return any(
            gate.reason in (GateReason.GATE_ALWAYS, None)
            and gate.resolution in (Resolution.CONTINUE, None)
            for gate in entry.gates
        )
    return entry.decision in _BY_A_GATE or bool(entry.human_response)


def _ran(entry: LooseEntry) -> bool:
    """Whether the step's work was begun, as far as that is said."""
    if entry.status is EntryStatus.FAILED:
        return entry.error_code not in NEVER_RAN
    return entry.status is EntryStatus.DONE or entry.launched_at is not None
