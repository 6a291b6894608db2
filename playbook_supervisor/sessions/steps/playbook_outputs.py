"""The outputs of a playbook: files that must exist at its end (cat FR-8.1).

The step that settles last answers for them, whether it has run or is passed over.
"""

from __future__ import annotations

from collections.abc import Callable

from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import Check, Checked, Probed
from playbook_supervisor.kernel.model import Playbook, base_of
from playbook_supervisor.kernel.phases import positions
from playbook_supervisor.kernel.state import OUTPUT, Position, State
from playbook_supervisor.project.expressions.bound_conditions import must_exist
from playbook_supervisor.records import replace

_SETTLING = frozenset({Position.DONE, Position.TOLERATED, Position.SKIPPED, Position.HELD})


def are_due(check: Check, playbook: Playbook) -> bool:
    """Whether the outputs may have to exist now: the check is about the last phase."""
    last = playbook.phase_of[base_of(check.members[-1].step.id)] == len(playbook.phases) - 1
    return last and bool(playbook.outputs)


def answered_for(
    check: Check, checked: Checked, state: State, probe: Callable[[str], Probed]
) -> Checked:
    """The answer; where it is the last one of the session, with the outputs that are missing."""
    if not are_due(check, state.playbook) or not (last := _settles_last(check, checked, state)):
        return checked
    probed = map(probe, must_exist(state.playbook.outputs))
    missing = tuple(replace(each, code=OUTPUT) for each in probed if not each.held)
    report = checked.reports[last]
    answering = replace(report, conditions=(*report.conditions, *missing))
    return replace(checked, reports={**checked.reports, last: answering})


def _settles_last(check: Check, checked: Checked, state: State) -> str:
    """The step after which nothing is left to check; empty while another one may run again.

    A step at a gate settles after all others: a person may accept what has failed of it, and then
    accepts that outputs are missing, too.
    """
    for event in machine.decide(state, checked):
        state = machine.evolve(state, event)
    members = [member.step.id for member in check.members]
    if state.phase is None:
        return members[-1]
    where = positions(state)
    if any(position not in _SETTLING for position in where.values()):
        return ""
    return next((name for name in reversed(members) if where[name] is Position.HELD), "")
