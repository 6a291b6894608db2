"""What the world says, in the kernel's words: the answers to a `Check`, and what they rest on.

The records (what stood there at a launch, what a human waived or has answered for) live in the
runtime state; where they are lost the rules fall back to what the files alone can say.
"""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.kernel.directives import (
    Attempt,
    Check,
    Checked,
    Finding,
    Probed,
    Report,
    Standing,
)
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.recovery import finished
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Autonomy, Condition, Place, Resolution, Trigger
from playbook_supervisor.project import conditions
from playbook_supervisor.project.conditions import REPORT_TRIGGERS, Workspace
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.local_state import Launch, Runtime
from playbook_supervisor.system.files import digest


def asks_the_world(check: Check) -> bool:
    """Whether answering starts a program, which nobody may do while holding the lock."""
    return any(
        conditions.need_network(_conditions(member.step, check.place)) for member in check.members
    )


def asks_nothing(check: Check) -> bool:
    """Whether answering needs no look at anything: no condition, and no report to read."""
    return not any(
        _conditions(member.step, check.place) or _findings(member.step, check.place)
        for member in check.members
    )


def nothing(check: Check, at: int) -> Checked:
    """The observation that answers a check which asks nothing."""
    return Checked(at, check.id, {member.step.id: Report() for member in check.members})


class CheckInputs(Record):
    """What is needed to answer a check: where to look, and what is known from before.

    `began_at` is the session's beginning, `launched` the attempts' launches, all in ms: they
    stand in where the runtime state keeps no record.
    """

    world: Workspace
    runtime: Runtime
    began_at: int
    launched: Mapping[str, int]

    def launch(self, attempt_id: str) -> Launch:
        """The record of an attempt's launch, or at least its time."""
        known = self.runtime.launches.get(attempt_id)
        return known or Launch(self.launched.get(attempt_id, self.began_at), "", {})

    @property
    def begun(self) -> Launch:
        """The record of the session's beginning, or at least its time."""
        return self.runtime.begun or Launch(self.began_at, "", {})


def answer(check: Check, inquiry: CheckInputs, at: int) -> tuple[Checked, dict[str, str]]:
    """The observation that answers a check, and the digests of what fails in it, by name."""
    failing: dict[str, str] = {}
    reports = {
        member.step.id: _report(member, check.place, inquiry, failing) for member in check.members
    }
    return Checked(at, check.id, reports), failing


def launch(step: Step, world: Workspace, head: str, at: int) -> Launch:
    """The record of what stands there as an attempt is launched."""
    names = [
        *step.postconditions,
        *(trigger for trigger in REPORT_TRIGGERS if _wants(step, trigger)),
    ]
    return Launch(at, head, conditions.record(names, world))


def begun(playbook: Playbook, world: Workspace, head: str, at: int) -> Launch:
    """The record of what stands there as the session begins: for findings of an earlier one."""
    wanted = any(_wants(step, Trigger.AGREEMENT_BREAKING) for step in playbook.steps)
    names = [Trigger.AGREEMENT_BREAKING] if wanted else []
    return Launch(at, head, conditions.record(names, world))


def had_finished(step: Step, world: Workspace, known: Launch | None) -> bool:
    """Whether a lost attempt's postconditions say that it had done its work (kai FR32).

    They must hold as after any return, so last week's verdict is no evidence, and by the record
    of the launch the attempt must have changed something that they look at.
    """
    since, since_ms = (known.artifacts, known.at) if known else (None, None)
    return finished(
        (
            conditions.probe(condition, world, since=since, since_ms=since_ms),
            _changed(condition, known, world),
        )
        for condition in step.postconditions
    )


def answered(runtime: Runtime, entry: Entry, resolution: Resolution) -> None:
    """Remember what a human has said of what was failing, by the digest of its evidence."""
    failing = {name: runtime.failing[name] for name in entry.failing if name in runtime.failing}
    for name, evidence in failing.items():
        if name in REPORT_TRIGGERS:
            standing = Standing.ACCEPTED if resolution is Resolution.ACCEPT else Standing.ANSWERED
            if resolution is not Resolution.CONTINUE:
                runtime.findings[evidence] = standing.value
        elif resolution is Resolution.ACCEPT:
            runtime.waivers[name] = evidence


def _report(member: Attempt, place: Place, inquiry: CheckInputs, failing: dict[str, str]) -> Report:
    step = member.step
    known = inquiry.launch(member.id) if place is Place.AFTER else None
    probed = [_probe(condition, known, inquiry, failing) for condition in _conditions(step, place)]
    findings = []
    for trigger in _findings(step, place):
        since = known if trigger is Trigger.VERDICT_FAIL and known else inquiry.begun
        found = _finding(trigger, since, inquiry, failing)
        findings += [found] if found else []
    return Report(tuple(probed), tuple(findings))


def _probe(
    condition: Condition, known: Launch | None, inquiry: CheckInputs, failing: dict[str, str]
) -> Probed:
    world = inquiry.world
    if known is None:
        probed = conditions.probe(condition, world)
    else:
        probed = conditions.probe(condition, world, since=known.artifacts, since_ms=known.at)
    if probed.held:
        return probed
    evidence = _evidence_digest(probed, world)
    failing[condition] = evidence
    as_waived = inquiry.runtime.waivers.get(condition, evidence) == evidence
    return Probed(probed.name, probed.answer, probed.evidence, as_waived)


def _evidence_digest(probed: Probed, world: Workspace) -> str:
    """A digest that changes when anything that the condition rests on changes.

    That is what its files say, and not when they were written, which matters to one step alone;
    what rests on no file is what was answered.
    """
    stamps = conditions.record([probed.name], world)
    contents = [f"{path} {stamp.digest if stamp else ''}" for path, stamp in stamps.items()]
    return digest("\n".join(contents or [probed.evidence]).encode())


def _finding(
    trigger: Trigger, since: Launch, inquiry: CheckInputs, failing: dict[str, str]
) -> Finding | None:
    found = conditions.finding(trigger, inquiry.world, since=since.artifacts, since_ms=since.at)
    if found is None:
        return None
    evidence, report = found
    failing[trigger] = report
    said = inquiry.runtime.findings.get(report, Standing.NEW.value)
    return Finding(trigger, evidence, Standing(said))


def _changed(condition: Condition, known: Launch | None, world: Workspace) -> bool:
    """Whether the attempt touched what the condition looks at, as far as that can be known.

    What looks at no file was not asked at the launch and counts as changed; where nothing is
    known from before, existing artifacts decide, as kai asks.
    """
    now = conditions.record([condition], world)
    if known is None or not now:
        return True
    return any(known.artifacts.get(path) != stamp for path, stamp in now.items())


def _conditions(step: Step, place: Place) -> tuple[Condition, ...]:
    if step.autonomy is Autonomy.SKIP:
        return ()
    return step.preconditions if place is Place.BEFORE else step.postconditions


def _findings(step: Step, place: Place) -> tuple[Trigger, ...]:
    """The triggers whose reports are to be read: a verdict only once the step has run."""
    asked = REPORT_TRIGGERS if place is Place.AFTER else (Trigger.AGREEMENT_BREAKING,)
    if step.autonomy is Autonomy.SKIP:
        return ()
    return tuple(trigger for trigger in asked if _wants(step, trigger))


def _wants(step: Step, trigger: Trigger) -> bool:
    if trigger is Trigger.AGREEMENT_BREAKING and step.autonomy is Autonomy.GATE_ON_BREAKING:
        return True
    return trigger in step.escalation_triggers
