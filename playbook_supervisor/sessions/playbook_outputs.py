"""The outputs of a playbook: files that must exist at its end (cat FR-8.1).

The step that settles last answers for them, whether it has run or is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from playbook_supervisor.kernel.directives import Attempt, Check, Probed, Report
from playbook_supervisor.kernel.error_policy import Reaction
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.state import OUTPUT
from playbook_supervisor.kernel.vocabulary import Autonomy, Place
from playbook_supervisor.project.bound_conditions import must_exist
from playbook_supervisor.records import replace


def are_due(check: Check, playbook: Playbook) -> bool:
    """Whether the outputs may have to exist now: the check is about the last phase."""
    last = playbook.phase_of[check.members[-1].step.id] == len(playbook.phases) - 1
    return last and bool(playbook.outputs)


def answered_for(
    check: Check,
    reports: Mapping[str, Report],
    playbook: Playbook,
    probe: Callable[[str], Probed],
) -> dict[str, Report]:
    """The report of the step that settles last, with the outputs that are missing.

    In a parallel group that is the last member, unless another one is still to settle.
    """
    if not are_due(check, playbook):
        return {}
    *others, last = check.members
    if check.place is Place.BEFORE:
        others.append(last)  # if it runs, it answers after that
    if not all(_settles(member, check.place, reports[member.step.id]) for member in others):
        return {}
    probed = map(probe, must_exist(playbook.outputs))
    missing = tuple(replace(each, code=OUTPUT) for each in probed if not each.held)
    report = reports[last.step.id]
    return {last.step.id: replace(report, conditions=(*report.conditions, *missing))}


def _settles(member: Attempt, place: Place, report: Report) -> bool:
    if place is Place.BEFORE:
        return bool(report.passed_over) or member.step.autonomy is Autonomy.SKIP
    return not _may_go_on(member.step) or all(probed.held for probed in report.conditions)


def _may_go_on(step: Step) -> bool:
    """Whether a failure may be followed by a retry or a gate, after which others may answer."""
    asks = step.escalation_triggers or step.autonomy is Autonomy.GATE_ON_BREAKING
    policy = step.error_policy
    return bool(asks) or policy.reacts(Reaction.RETRY) or policy.reacts(Reaction.GATE)
