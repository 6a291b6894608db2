"""spec-kit's workflow files, which `specify workflow run` reads.

    schema_version: "1.0"
    workflow: {id: sdd, name: Full cycle}
    inputs: {spec: {type: string, required: true}}
    steps: [{id: plan, command: speckit.plan, input: {args: "{{ inputs.spec }}"}}]

Branches become the `when` of their steps, and loops `until` and `for_each`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from playbook_supervisor.formats.located import Document, Path, Plain
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.project.dialects import speckit_steps
from playbook_supervisor.project.dialects.speckit_expressions import (
    Comparison,
    Expression,
    ExpressionError,
    Literal,
    Reference,
    condition,
)
from playbook_supervisor.project.dialects.speckit_steps import Workflow
from playbook_supervisor.project.dialects.speckit_values import (
    FAN_OUT,
    ITEM,
    UntranslatableError,
    read_list,
    when,
)
from playbook_supervisor.project.dialects.translation import (
    MISSING,
    NOT_ASKED,
    VERSION,
    Draft,
    Translation,
    meant,
    plain,
)

KIND = "a spec-kit workflow"

_SCHEMA = "1.0"
_TOP = ("schema_version", "workflow", "requires", "inputs", "steps")
_WORKFLOW = ("id", "name", "version", "author", "description", "integration", "model")
_INPUT = ("type", "required", "default", "prompt", "description", "enum")
_REQUIRES = ("speckit_version", "integrations")
_IMPLICIT = "10"  # rounds of a loop that states no limit, in spec-kit


def recognises(document: Document) -> bool:
    """A mapping under `workflow`, or the version of the format."""
    found = meant(document.data, ("workflow", "schema_version", "version"))
    return isinstance(found.get("workflow"), dict) or "schema_version" in found


def translate(document: Document) -> Translation:
    """What the workflow means in version 1.1."""
    draft = Draft(document)
    draft.refuse_unknown((), _TOP, KIND)
    if draft.text(("schema_version",)) not in ("", _SCHEMA):
        said = f"`schema_version` is not {_SCHEMA}"
        draft.refuse(("schema_version",), said, "Other versions are not known here.", key=False)
    _head(draft)
    _inputs(draft)
    workflow = Workflow(draft)
    _steps(workflow, ("steps",), "")
    if not workflow.count and not draft.refused:
        guidance = "Add a command, a prompt, a program or a gate."
        draft.refuse(("steps",), "no step does anything", guidance)
    _promises(workflow)
    for key, value in NOT_ASKED.items():
        draft.put(("defaults", key), value, ("steps",))
    stated = ", ".join(f"`{key}: {value}`" for key, value in NOT_ASKED.items())
    draft.note(("steps",), f"every step has {stated}, which the format does not state")
    return draft.done(KIND)


def _head(draft: Draft) -> None:
    at: Path = ("workflow",)
    draft.refuse_unknown(at, _WORKFLOW, "`workflow`")
    draft.copy(("name",), (*at, "id"))
    title, said = draft.text((*at, "name")), draft.text((*at, "description"))
    described = ": ".join(part for part in (title, said) if part)
    draft.put(("description",), described or draft.text((*at, "id")) or KIND, at)
    draft.put(("version",), VERSION, at)
    draft.copy(("owner",), (*at, "author"))
    if draft.text((*at, "version")):
        draft.note((*at, "version"), "the workflow's own `version` is left out")
    if draft.value((*at, "integration")) is not MISSING:
        draft.note((*at, "integration"), speckit_steps.INTEGRATION)
    if draft.value(("requires",)) is not MISSING:
        draft.refuse_unknown(("requires",), _REQUIRES, "`requires`")
        draft.note(
            ("requires",), "`requires` is not tested; before a run the commands must be installed"
        )


def _inputs(draft: Draft) -> None:
    draft.put(("args",), [], ("inputs",))
    for index, name in enumerate(draft.keys(("inputs",))):
        at, to = ("inputs", name), ("args", index)
        draft.refuse_unknown(at, _INPUT, "an input")
        draft.put((*to, "name"), name, at)
        said = draft.text((*at, "prompt")) or draft.text((*at, "description")) or name
        draft.put((*to, "description"), said, at)
        has_default = draft.value((*at, "default")) is not MISSING
        if has_default or draft.value((*at, "required")) is MISSING:
            draft.put((*to, "required"), plain(value=False), at)
        else:
            draft.copy((*to, "required"), (*at, "required"))
        draft.copy((*to, "default"), (*at, "default"))
        if not has_default and draft.text((*at, "type")) == "boolean" and not _needed(draft, at):
            draft.put((*to, "default"), "false", at)
            draft.note(at, f"`{first_line(name, 60)}` is false unless it is given")
        if draft.value((*at, "enum")) is MISSING:
            draft.copy((*to, "type"), (*at, "type"))
        else:
            draft.put((*to, "type"), "enum", (*at, "enum"))
            draft.copy((*to, "values"), (*at, "enum"))


def _needed(draft: Draft, at: Path) -> bool:
    stated = draft.value((*at, "required"))
    return isinstance(stated, Plain) and stated.value is True


def _promises(workflow: Workflow) -> None:
    """Steps whose JSON is read promise it."""
    for step in sorted(workflow.scope.promised):
        if to := workflow.places.get(step):
            workflow.draft.put((*to, "output"), "json", workflow.origins[step])
            said = f"the step `{step}` must print JSON, which a later step reads"
            workflow.draft.note(workflow.origins[step], said)


def _steps(workflow: Workflow, at: Path, condition_of: str) -> None:
    items = workflow.draft.items(at)
    if not items:
        workflow.draft.refuse(at, "a list of steps is expected here", "Write at least one step.")
    for each in items:
        _step(workflow, each, condition_of)


def _step(workflow: Workflow, at: Path, condition_of: str) -> None:
    draft = workflow.draft
    kind = _kind(draft, at)
    if kind in speckit_steps.LEAVES:
        speckit_steps.leaf(workflow, kind, at, condition_of)
    elif kind in _NESTING:
        keys, translated = _NESTING[kind]
        there = draft.refuse_unknown(at, ("id", "type", *keys), f"`{kind}` steps")
        if not workflow.require_shapes(at, kind, there):
            return
        try:
            translated(workflow, at, condition_of)
        except (ExpressionError, UntranslatableError) as error:
            workflow.refuse_expression((*at, _CONDITIONS[kind]), error)
    else:
        known = (*speckit_steps.LEAVES, *_NESTING)
        guidance = f"{did_you_mean(kind, known)}The types are {', '.join(known)}."
        shown = first_line(kind, 60)
        draft.refuse((*at, "type"), f"`{shown}` is no type of step", guidance, key=False)
        workflow.scope.kinds[draft.text((*at, "id"))] = kind


def _kind(draft: Draft, at: Path) -> str:
    """The type of a step, also if that key is misspelt."""
    return str(meant(draft.value(at), ("type",)).get("type") or "command")


def _if(workflow: Workflow, at: Path, condition_of: str) -> None:
    expression = _condition(workflow, (*at, "condition"), condition_of)
    _steps(workflow, (*at, "then"), when(expression, workflow.scope, holds=True))
    if workflow.draft.value((*at, "else")) is not MISSING:
        _steps(workflow, (*at, "else"), when(expression, workflow.scope, holds=False))


def _switch(workflow: Workflow, at: Path, condition_of: str) -> None:
    value = _condition(workflow, (*at, "expression"), condition_of)
    cases = workflow.draft.keys((*at, "cases"))
    if not cases:
        workflow.draft.refuse(at, "a switch without `cases`", "Add `cases:` with a list for each.")
    for case in cases:
        there = (*at, "cases", case)
        if not isinstance(Plain(case).value, str):
            guidance = "Use `if` with `==`, which tells numbers from text."
            said = f"the case `{first_line(case, 60)}` is a number, true, false or none"
            workflow.draft.refuse(there, said, guidance)
            continue
        test = Comparison("==", value, Literal(case))
        _steps(workflow, there, when(test, workflow.scope, holds=True))
    if workflow.draft.value((*at, "default")) is MISSING:
        return
    if len(cases) != 1:
        guidance = "Give each value its own case; or keep one case and the `default`."
        said = "`default` beside several cases depends on several comparisons"
        workflow.draft.refuse((*at, "default"), said, guidance)
    else:
        test = Comparison("==", value, Literal(cases[0]))
        _steps(workflow, (*at, "default"), when(test, workflow.scope, holds=False))


def _condition(workflow: Workflow, at: Path, condition_of: str) -> Expression:
    if condition_of:
        raise UntranslatableError(
            "a branch in a branch depends on two conditions, and a step has one",
            "Put the steps of the inner branch into a playbook of their own.",
        )
    return condition(workflow.draft.text(at))


def _loop(workflow: Workflow, at: Path, condition_of: str) -> None:
    """The loop that works and tests: a step that runs again until a program succeeds."""
    draft, body = workflow.draft, workflow.draft.items((*at, "steps"))
    kind = draft.text((*at, "type"))
    kinds = [_kind(draft, each) for each in body]
    tested = _failing(condition(draft.text((*at, "condition"))))
    if len(body) != 2 or kinds[1] != "shell" or tested != draft.text((*body[1], "id")):
        raise UntranslatableError(
            "only a loop that works and then tests has a counterpart",
            "Give it two steps: the work, and a `shell` step that tests it; and the condition"
            " `{{ steps.TEST.output.exit_code != 0 }}`. Others are loops over a child playbook.",
        )
    if kinds[0] not in ("command", "prompt"):
        guidance = "Let an agent do the work, in a `command` or `prompt` step."
        draft.refuse(body[0], f"a `{kinds[0]}` step cannot be repeated here", guidance)
        return
    to = speckit_steps.leaf(workflow, kinds[0], body[0], condition_of)
    draft.refuse_unknown(body[1], ("id", "type", "run"), "the test of a loop")
    if (program := speckit_steps.program(workflow, (*body[1], "run"))) and to:
        test = (*body[1], "run")
        draft.put((*to, "until"), {}, at)
        draft.put((*to, "until", "conditions"), [{"command_succeeds": program}], test)
        draft.put((*to, "until", "max"), Plain(_IMPLICIT), at)
        _whole(draft, (*to, "until", "max"), (*at, "max_iterations"))
        if kind == "while":
            draft.put((*to, "skip_if"), [{"command_succeeds": program}], test)
        said = f"the loop is the step `{draft.text((*body[0], 'id'))}` until its test succeeds"
        draft.note(at, said, "If it still fails in the last round, the run ends there.")


def _whole(draft: Draft, to: Path, at: Path) -> None:
    """Copy a number, which must be known before the run."""
    value = draft.value(at)
    if value is not MISSING and not (isinstance(value, Plain) and type(value.value) is int):
        guidance = "Write the number, or leave the key out."
        draft.refuse(at, f"`{at[-1]}` is not a whole number", guidance, key=False)
    draft.copy(to, at)


def _failing(expression: Expression) -> str:
    """The step of which an expression says that its exit status is not 0; empty for others."""
    match expression:
        case Comparison(
            operator="!=",
            left=Reference(parts=("steps", str() as step, "output", "exit_code")),
            right=Literal(value=0),
        ):
            return step
        case _:
            return ""


def _fan_out(workflow: Workflow, at: Path, condition_of: str) -> None:
    draft, inner, scope = workflow.draft, (*at, "step"), workflow.scope
    kind = _kind(draft, inner)
    if kind not in ("command", "prompt", "shell"):
        guidance = "Use a `command`, `prompt` or `shell` step."
        draft.refuse(inner, f"a `{first_line(kind, 60)}` step cannot be in a fan-out", guidance)
        return
    items = read_list(condition(draft.text((*at, "items"))), scope)
    scope.in_loop = True
    to = speckit_steps.leaf(workflow, kind, inner, condition_of, holder=at)
    scope.in_loop = False
    if to is None:
        return
    scope.kinds[draft.text((*at, "id"))] = FAN_OUT
    draft.put((*to, "for_each"), {}, at)
    draft.put((*to, "for_each", "in"), items, (*at, "items"))
    draft.put((*to, "for_each", "as"), ITEM, at)
    draft.put((*to, "for_each", "max"), Plain("100"), at)
    _whole(draft, (*to, "for_each", "at_once"), (*at, "max_concurrency"))
    draft.note(at, "a fan-out is `for_each`, over at most 100 items")


def _fan_in(workflow: Workflow, at: Path, _condition_of: str) -> None:
    draft = workflow.draft
    for each in draft.items((*at, "wait_for")):
        if (name := draft.text(each)) not in workflow.scope.kinds:
            said = f"`{first_line(name, 60)}` is no earlier step"
            draft.refuse(each, said, "Name a step that comes before this one.", key=False)
    if draft.value((*at, "output")) not in (MISSING, {}):
        guidance = "Read `{{ steps.FAN-OUT.output.results }}` at the end of a prompt."
        draft.refuse((*at, "output"), "the `output` of a fan-in has no counterpart", guidance)
    draft.note(at, "a fan-in is no step: a step begins when those before it have ended")


_Nested = Callable[[Workflow, Path, str], None]
_NESTING: Mapping[str, tuple[tuple[str, ...], _Nested]] = {
    "if": (("condition", "then", "else"), _if),
    "switch": (("expression", "cases", "default"), _switch),
    "while": (("condition", "max_iterations", "steps"), _loop),
    "do-while": (("condition", "max_iterations", "steps"), _loop),
    "fan-out": (("items", "max_concurrency", "step"), _fan_out),
    "fan-in": (("wait_for", "output"), _fan_in),
}
_CONDITIONS = {**dict.fromkeys(_NESTING, "condition"), "switch": "expression", "fan-out": "items"}
