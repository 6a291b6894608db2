"""The plan of a run as one JSON object (`schema plan`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from playbook_supervisor.cli.render.json_shapes import condition, tightening
from playbook_supervisor.cli.render.plan import shown_file
from playbook_supervisor.commands.dry_run import PlannedStep, RunPlan
from playbook_supervisor.kernel.model import Limits, Step
from playbook_supervisor.kernel.vocabulary import OutputFormat
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.journal import valued
from playbook_supervisor.sessions.serialize import PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def as_json(plan: RunPlan) -> dict[str, Any]:
    """`run --dry-run --json`."""
    shape: dict[str, Any] = {
        "protocol": PROTOCOL,
        "playbook": plan.playbook.name,
        "file": plan.file,
        "feature": plan.feature,
        "branch": plan.branch,
        "args": dict(plan.args),
        "mode": plan.mode,
        "agent": plan.agent,
        "phases": [_phase(phase, plan.root) for phase in plan.phases],
        "missing": list(plan.missing),
        "warnings": list(plan.warnings),
        "refusals": [error.as_mapping() for error in plan.refusals],
        "exit_code": plan.exit_code,
    }
    outputs = list(plan.playbook.outputs)
    return shape | valued(limits=_given(plan.playbook.limits), outputs=outputs, adopts=plan.adopts)


def _phase(phase: Sequence[PlannedStep], root: Path) -> dict[str, Any]:
    group = phase[0].step.parallel_group
    steps = [_step_shape(planned, root) for planned in phase]
    return {**({"group": group} if group else {}), "steps": steps}


def _step_shape(planned: PlannedStep, root: Path) -> dict[str, Any]:
    step, found = planned.step, planned.found
    shape: dict[str, Any] = {
        "step": step.id,
        "runs": planned.runs,
        "command": found.name if found else planned.command,
        **({"file": shown_file(found.file, root)} if found and found.file else {}),
        **({"builtin": True} if found and found.builtin else {}),
        **({"closed": True} if found and found.closed else {}),
        **({"hidden": True} if found and found.hidden else {}),
        "args": planned.args,
        "autonomy": step.autonomy,
        "error_policy": step.error_policy.written,
        "preconditions": [
            condition(need.probed) | ({"from": need.provider} if need.provider else {})
            for need in planned.preconditions
        ],
        "postconditions": [condition(probed) for probed in planned.postconditions],
    }
    return shape | valued(
        skip_if=[condition(probed) for probed in planned.skip_if],
        **{key: value(step) or None for key, value in _STATED.items()},
        escalation_triggers=list(step.escalation_triggers),
        children=[
            {"id": each.id, "command": each.step.command, "autonomy": each.step.autonomy}
            | ({"again": True} if each.again else {})
            for each in planned.below
        ],
        policies=[tightening(effect) for effect in planned.effects],
    )


_STATED: Mapping[str, Callable[[Step], object]] = {
    "title": lambda step: step.title,
    "model": lambda step: step.model,
    "when": lambda step: step.when,
    "stdin": lambda step: step.stdin,
    "output": lambda step: step.output if step.output is OutputFormat.JSON else "",
    "cwd": lambda step: step.cwd,
    "tools": lambda step: list(step.tools),
    "limits": lambda step: _given(step.limits),
    "for_each": lambda step: (
        (loop := step.for_each)
        and {"in": loop.source, "as": loop.name, "max": loop.most, "at_once": loop.at_once}
    ),
    "until": lambda step: step.until and {"conditions": list(step.until), "max": step.rounds},
}
"""What the plan says of a step only where the playbook states it."""


def _given(limits: Limits) -> dict[str, Any]:
    return {key: value for key, value in as_mapping(limits).items() if value is not None}
