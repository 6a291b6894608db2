"""Gates: each required one was opened, and answered with one of its choices."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseGate, LooseJournal
from playbook_supervisor.errors import PolicyError
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.gates import ASKED, PLANNED, offered
from playbook_supervisor.kernel.state import NEVER_RAN
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, GateReason, Resolution

_AT_A_GATE = (Decision.GATE, Decision.ESCALATED)


def check(context: AuditContext) -> Iterator[Problem]:
    """Gates that were left out or wrongly answered."""
    cleared: set[str] = set()
    for entry in context.journal.entries:
        for number, gate in enumerate(entry.gates, 1):
            yield from _choice(context, entry, gate, number)
            yield from _asked(context, entry, gate)
            yield from _allowed(context, entry, gate)
        yield from _unanswered(context, entry)
        if _passed(entry):
            cleared.add(entry.step)
        if context.gated(entry) and _ran(entry) and entry.step not in cleared:
            message = f"{entry.name} ran without the gate that its playbook requires"
            yield found("AUD-GATE-MISSING", message, entry, "decision")


def anonymous_answers(journal: LooseJournal) -> Iterator[str]:
    """A note on answers without a name: git may have had none, or it was removed later."""
    gates = [
        f"{entry.name}?{number}"
        for entry in journal.entries
        for number, gate in enumerate(entry.gates, 1)
        if gate.answered and not gate.by and "by" not in gate.unclear
    ]
    if journal.ours and gates:
        names = first_line(", ".join(gates), 100)
        yield f"the journal does not say who answered {names}"


def _choice(
    context: AuditContext, entry: LooseEntry, gate: LooseGate, number: int
) -> Iterator[Problem]:
    if gate.id not in ("", f"{entry.id}?{number}"):
        message = f"gate {number} of {entry.name} has another gate's id"
        yield found("AUD-GATE-ID", message, gate, "id")
    if gate.reason is None or gate.place is None:
        return
    earlier = (context.phase(entry) or 0) > 0 or context.outline is None
    choices = offered(gate.reason, gate.place, gate.request, back=("",) if earlier else ())
    if not choices:
        message = f"there is no gate for {gate.reason} {gate.place} a step"
        yield found("AUD-CHOICE", f"{entry.name}: {message}", gate, "place")
    elif gate.resolution is not None and gate.resolution not in choices:
        message = f"{gate.resolution} is not a choice of {gate.reason} {gate.place} a step"
        if gate.resolution is Resolution.ALWAYS and gate.reason is GateReason.PERMISSION:
            message += " without a rule"
        yield found("AUD-CHOICE", f"{entry.name}: {message}", gate, "resolution")
    elif context.journal.ours and _answered_in_words(gate):
        meant = read_answer(gate.text, choices).resolution
        if meant is not gate.resolution:
            what = f"{meant}" if meant else "none of the choices"
            message = f"the text of its gate's answer means {what}, not {gate.resolution}"
            yield found("AUD-RESPONSE", f"{entry.name}: {message}", gate, "resolution")


def _asked(context: AuditContext, entry: LooseEntry, gate: LooseGate) -> Iterator[Problem]:
    """Only an agent at work asks during its step, and it says what for."""
    if gate.reason is None:
        return
    name = f"{entry.name}: its gate {gate.reason}"
    if gate.reason not in ASKED:
        if gate.request:
            yield found("AUD-ASKED", f"{name} has a request of an agent", gate, "request")
    elif not _ran(entry) or entry.cached_from:
        yield found("AUD-ASKED", f"{name} opened, but no agent was at work", gate, "reason")
    elif entry.returned_at is not None and not gate.answered:
        message = f"{name} is open, but the agent has returned"
        yield found("AUD-ASKED", message, gate, "reason")
    elif context.journal.ours and not gate.request and "request" not in gate.unclear:
        yield found("AUD-ASKED", f"{name} does not say what was asked", gate, "reason")


def _answered_in_words(gate: LooseGate) -> bool:
    """True if the resolution must follow from the text. An abort may have any text."""
    return gate.resolution not in (None, Resolution.ABORT) and "text" not in gate.unclear


def _allowed(context: AuditContext, entry: LooseEntry, gate: LooseGate) -> Iterator[Problem]:
    if gate.resolution is None or "by" in gate.unclear:
        return
    by, role = first_line(gate.by), first_line(gate.role)
    try:
        context.policy.admit(entry.step, gate.reason, gate.resolution, by, role)
    except PolicyError as error:
        yield found("AUD-PERSON", error.message, gate, "by")


def _unanswered(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    """An abort answers one gate and closes the other open ones."""
    over = entry.settled and entry.resolution is not Resolution.ABORT
    for gate in entry.gates:
        waits = gate is entry.gates[-1] and not over
        known = gate.resolution is not None or "resolution" in gate.unclear
        if not known if gate.answered else not waits:
            message = f"a gate of {entry.name} was passed without a recorded answer"
            yield found("AUD-GATE-OPEN", message, gate, "id")
    answered = entry.human_response or entry.resolution is not None or entry.unclear
    has_gates = context.journal.ours or entry.gates
    if over and entry.decision in _AT_A_GATE and not has_gates and not answered:
        message = f"{entry.name} was decided at a gate without a recorded answer"
        yield found("AUD-GATE-OPEN", message, entry, "decision")


def _passed(entry: LooseEntry) -> bool:
    """True if a person let the step run; that holds for later attempts, too."""
    if entry.gates:
        return any(
            (gate.reason is None or gate.reason in PLANNED)
            and gate.resolution in (Resolution.CONTINUE, None)
            for gate in entry.gates
        )
    return entry.decision in _AT_A_GATE or bool(entry.human_response)


def _ran(entry: LooseEntry) -> bool:
    if entry.status is EntryStatus.FAILED:
        return entry.error_code not in NEVER_RAN
    return entry.status is EntryStatus.DONE or entry.launched_at is not None
