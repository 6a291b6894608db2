"""The plan of a run, as lines and as one JSON object (`schema plan`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from playbook_supervisor.cli.render.json_shapes import condition, tightening
from playbook_supervisor.commands.driving.dry_run import Need, PlannedStep, RunPlan
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.formats.timestamps import duration
from playbook_supervisor.formats.versions import PROTOCOL
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.error_policy import ErrorPolicy, Handling, Reaction
from playbook_supervisor.kernel.gates import PASSED_ALONE, required_before
from playbook_supervisor.kernel.model import SLASH, Limits, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, GateReason, Mode, OutputFormat
from playbook_supervisor.kernel.when import ARG, parse
from playbook_supervisor.project.expressions.references import output_reference
from playbook_supervisor.project.playbooks.child_playbooks import OutlinedStep
from playbook_supervisor.records import as_mapping, replace, valued
from playbook_supervisor.sessions.files.preview import message_of

_BOLD, _DIM, _RED, _GREEN, _YELLOW = "1", "2", "31", "32", "33"
_LINE = 400
_INDENT, _NARROWEST, _EVIDENCE = 13, 40, 20  # columns
_MARKS = {
    Answer.HELD: ("✓", _GREEN),
    Answer.NOT_HELD: ("·", _DIM),
    Answer.ERROR: ("?", _YELLOW),
}


def lines(plan: RunPlan, *, colour: bool = False, width: int = 0) -> Iterator[str]:
    """A few lines for each step. `width` is that of the terminal, 0 if there is none.

    A step's lines are cut to the width; problems and notes are not.
    """
    paint = _Paint(colour, max(width - _INDENT, _NARROWEST) if width else _LINE)
    steps = [planned for phase in plan.phases for planned in phase]
    agent = f"agent {first_line(plan.agent)}" if plan.agent else "no agent"
    if not plan.agent and any(planned.agent for phase in plan.phases for planned in phase):
        agent = "the agents of its steps"
    feature = f" on {first_line(plan.feature)}" if plan.feature else ""
    mode = ", autonomous" if plan.mode is Mode.AUTONOMOUS else ""
    title = f"{plan.playbook.name}{feature} · {counted(len(steps), 'step')} · {agent}{mode}"
    yield paint(title, _BOLD)
    yield paint(f"  {first_line(plan.file)}", _DIM)
    given = [f"{name}={value}" for name, value in plan.args.items() if value and name != "feature"]
    if given:
        yield f"  with {first_line(', '.join(given), _LINE)}"
    limits = plan.playbook.limits
    together = Limits(max_cost_usd=limits.max_cost_usd, max_tokens=limits.max_tokens)
    each = replace(limits, max_cost_usd=None, max_tokens=None)
    for label, shown in (("at most", _limits(together)), ("each step at most", _limits(each))):
        if shown:
            yield f"  {label} {shown}"
    if plan.playbook.outputs:
        yield f"  must leave {first_line(', '.join(plan.playbook.outputs), _LINE)}"
    for number, phase in enumerate(plan.phases, 1):
        if number == 1 or any(planned.runs for planned in phase):
            yield ""
        for planned in phase:
            beside = [each.step.id for each in phase if each is not planned]
            yield from _step(planned, number, beside, plan, paint)
    yield ""
    for sentence in plan.missing:
        yield f"{paint('missing:', _RED)} {first_line(sentence, _LINE)}"
    for sentence in plan.warnings:
        yield f"{paint('note:', _YELLOW)} {first_line(sentence, _LINE)}"
    for error in plan.refusals:
        yield f"{paint('refused:', _RED)} {first_line(error.message, _LINE)} [{error.code}]"
        yield f"  do: {first_line(error.guidance, _LINE)}"


def verdict(plan: RunPlan) -> str:
    """A sentence on whether the run can begin."""
    if plan.refusals:
        return "The run would be refused. Nothing was created."
    if plan.adopts:
        return f"The run would continue session {plan.adopts}. Nothing was created."
    return "The run can begin. Nothing was created."


class _Paint:
    def __init__(self, colour: bool, room: int) -> None:
        self._colour, self.room = colour, room

    def __call__(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour else text


def _step(
    planned: PlannedStep, number: int, beside: list[str], plan: RunPlan, paint: _Paint
) -> Iterator[str]:
    step = planned.step
    together = f", in parallel with {', '.join(beside)}" if beside else ""
    if not planned.runs:
        why = "by the playbook" if step.autonomy is Autonomy.SKIP else "by --from"
        yield paint(f"{number:>2}  {step.id}  skipped {why}{together}", _DIM)
        return
    words = [paint(step.id, _BOLD), first_line(f"{planned.command} {planned.args}", _LINE)]
    words += [f"({step.model})"] if step.model else []
    words += [f"by {planned.agent}"] if planned.agent else []
    yield f"{number:>2}  {'  '.join(words)}{together}"
    if step.title:
        yield f"      {paint(first_line(step.title, paint.room), _DIM)}"
    if gate := _gate(planned, plan.mode):
        yield f"      gate   {paint(gate, _YELLOW)}"
    for effect in planned.effects:
        yield f"      policy {first_line(f'{effect.policy}: {effect.summary}', paint.room)}"
    for label, text in _facts(planned, plan):
        yield f"      {label:6} {first_line(text, paint.room) or paint('not installed here', _RED)}"
    for each in planned.below:
        yield f"      {'  ' * each.depth}{paint(_outlined(each, paint.room), _DIM)}"
    named = [need.probed.name for need in planned.preconditions]
    named += [probed.name for probed in (*planned.postconditions, *planned.skip_if)]
    longest = max(map(len, named), default=0)
    for number, probed in enumerate(planned.skip_if):
        yield f"      {'and' if number else 'unless':6} {_probed(probed, longest, paint)}"
    for need in planned.preconditions:
        yield f"      needs  {_need(need, longest, paint)}"
    for probed in planned.postconditions:
        yield f"      makes  {_probed(probed, longest, paint)}"
    if failing := _failing(planned):
        yield f"      fails  {failing}"


def _outlined(each: OutlinedStep, room: int) -> str:
    step = each.step
    words = [each.id, step.command, step.args]
    words += ["as above"] if each.again else []
    words += [str(step.autonomy)] if step.autonomy is not Autonomy.AUTO else []
    words += ["approval"] if step.approval else []
    return first_line("  ".join(filter(None, words)), room)


def _facts(planned: PlannedStep, plan: RunPlan) -> Iterator[tuple[str, str]]:
    """The facts about a step before its conditions; `runs` is empty if that is not installed."""
    step = planned.step
    if step.when:
        named = parse(step.when)
        known = "the arg decides" if named.fact == ARG else f"known once {named.step} is over"
        yield "when", f"{step.when}: {known}"
    if (loop := step.for_each) is not None:
        together = f", {loop.at_once} at once" if loop.at_once > 1 else ""
        yield "each", f"{loop.name} of {loop.source}, at most {loop.most:,}{together}"
    if step.is_checkpoint:
        yield "asks", message_of(step, plan.args)
    else:
        where = f", in {step.cwd}" if step.cwd not in ("", ".") else ""
        runs = _runs(planned, plan.root)
        yield "runs", runs and f"{runs}{where}"
    if step.stdin:
        yield "reads", f"{step.stdin}: known once {output_reference(step.stdin)[0]} is over"
    if step.until:
        yield "until", f"{', '.join(step.until)}: at most {counted(step.rounds, 'round')}"
    if step.output is OutputFormat.JSON:
        yield "prints", f"JSON{' that matches its schema' if step.output_schema else ''}"
    if (limits := _limits(step.limits)) and not step.is_checkpoint:
        yield "limits", limits


def _limits(limits: Limits) -> str:
    """`1 h, 1 min of silence, 20,000 bytes of output, 2.50 USD`; empty without limits."""
    shown: Mapping[str, Callable[[Any], str]] = {
        "timeout_seconds": lambda value: duration(round(value * 1000)),
        "idle_timeout_seconds": lambda value: f"{duration(round(value * 1000))} of silence",
        "max_output_bytes": lambda value: f"{value:,} bytes of output",
        "max_cost_usd": lambda value: f"{value:.2f} USD",
        "max_tokens": lambda value: f"{value:,} tokens",
        "max_turns": lambda value: f"{value:,} turns",
        "max_tool_calls": lambda value: f"{value:,} tool calls",
    }
    given = as_mapping(limits)
    return ", ".join(show(given[key]) for key, show in shown.items() if given[key] is not None)


def _failing(planned: PlannedStep) -> str:
    who, step = _who(planned), planned.step
    policy = step.error_policy
    named = [f"on {code} {_reaction(handling, who)}" for code, handling in policy.by_code]
    then = "; ".join([*named, ("else " if named else "") + _reaction(policy.default, who)])
    if step.escalation_triggers and policy != ErrorPolicy.GATE:
        then = f"asks {who} on {', '.join(step.escalation_triggers)}; else {then}"
    if back := step.on_fail:
        times = "once" if back.times == 1 else f"up to {back.times} times"
        return f"goes back to {back.back_to} {times}, then {then}"
    return "" if then == "stops" else then


def _reaction(handling: Handling, who: str) -> str:
    match handling.reaction:
        case Reaction.STOP:
            return "stops"
        case Reaction.RETRY:
            times = "once" if handling.retries == 1 else f"up to {handling.retries} times"
            return f"retries {times}, then stops"
        case Reaction.GATE:
            return f"asks {who}"
        case Reaction.CONTINUE:
            return "goes on without it"
        case Reaction.IGNORE:
            return "counts as done"


def _who(planned: PlannedStep) -> str:
    return " and ".join(planned.people) or "you"


def _gate(planned: PlannedStep, mode: Mode) -> str:
    who, step = _who(planned), planned.step
    required = required_before(step, planned.asks_for)
    alone = mode is Mode.AUTONOMOUS and not planned.people
    gates = []
    if required is not None:
        passed = alone and required in PASSED_ALONE
        what = "before it runs"
        if required is GateReason.TOOLS:
            what = f"to allow {', '.join(planned.asks_for)}"
        asks = "approved automatically" if passed else f"asks {who} {what}"
        gates.append(f"{required}: {asks}")
    elif step.autonomy is Autonomy.GATE_ON_BREAKING:
        gates.append(f"{step.autonomy}: asks {who} if a report says breaking")
    if step.checkpoint:
        asks = "approved automatically" if alone else f"asks {who} after it has run"
        gates.append(f"{GateReason.CHECKPOINT}: {asks}")
    return "; ".join(gates)


def _runs(planned: PlannedStep, root: Path) -> str:
    found, step = planned.found, planned.step
    if step.is_checkpoint:
        return ""
    if step.child:
        return f"the playbook {step.child}, in a session of its own"
    if not step.needs_agent:
        return f"{step.namespace}, without an agent"
    if step.namespace != SLASH:
        may = f"use {', '.join(step.tools)}" if step.tools else "only read"
        return f"a prompt, by an agent that may {may}"
    if found is None:
        return ""
    if found.file is None:
        return f"{found.name}, built into Claude Code"
    ways = (found.closed and ", not inside Claude Code") or (found.hidden and ", not headless")
    return f"{_shown_file(found.file, root)}{ways or ''}"


def _shown_file(file: Path, root: Path) -> str:
    return str(file.relative_to(root) if file.is_relative_to(root) else file)


def _need(need: Need, longest: int, paint: _Paint) -> str:
    if need.provider:
        return f"{paint('·', _DIM)} {need.probed.name:{longest}}  from {need.provider}"
    if need.lacking and need.probed.answer is Answer.NOT_HELD:
        return f"{paint('✗', _RED)} {_evidence(need.probed, longest, paint)}"
    return _probed(need.probed, longest, paint)


def _probed(probed: Probed, longest: int, paint: _Paint) -> str:
    return f"{paint(*_MARKS[probed.answer])} {_evidence(probed, longest, paint)}"


def _evidence(probed: Probed, longest: int, paint: _Paint) -> str:
    room = max(paint.room - longest - 4, _EVIDENCE)
    return f"{probed.name:{longest}}  {first_line(probed.evidence, room)}"


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────


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
        "phases": [
            valued(group=phase[0].step.parallel_group)
            | {"steps": [_step_shape(planned, plan.root) for planned in phase]}
            for phase in plan.phases
        ],
        "missing": list(plan.missing),
        "warnings": list(plan.warnings),
        "refusals": [error.as_mapping() for error in plan.refusals],
        "exit_code": plan.exit_code,
    }
    outputs = list(plan.playbook.outputs)
    return shape | valued(limits=_given(plan.playbook.limits), outputs=outputs, adopts=plan.adopts)


def _step_shape(planned: PlannedStep, root: Path) -> dict[str, Any]:
    step, found = planned.step, planned.found
    shape: dict[str, Any] = {
        "step": step.id,
        "runs": planned.runs,
        "command": found.name if found else planned.command,
        **valued(
            file=_shown_file(found.file, root) if found and found.file else "",
            builtin=(found and found.builtin) or None,
            closed=(found and found.closed) or None,
            hidden=(found and found.hidden) or None,
        ),
        "args": planned.args,
        **valued(agent=planned.agent),
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
"""Facts about a step that the plan shows only where the playbook states them."""


def _given(limits: Limits) -> dict[str, Any]:
    return {key: value for key, value in as_mapping(limits).items() if value is not None}
