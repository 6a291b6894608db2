"""spec-kit's workflow files, which `specify workflow run` reads.

    schema_version: "1.0"
    workflow: {id: sdd, name: Full cycle}
    inputs: {spec: {type: string, required: true}}
    steps: [{id: plan, command: speckit.plan, input: {args: "{{ inputs.spec }}"}}]

Branches become the `when` of their steps, and loops `until` and `for_each`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from playbook_supervisor.dialects.simple_command import needs_shell
from playbook_supervisor.dialects.speckit_expressions import (
    APPROVE,
    FAN_OUT,
    ITEM,
    REJECT,
    Comparison,
    Expression,
    ExpressionError,
    Literal,
    Reference,
    Scope,
    condition,
    read_list,
    read_output,
    template,
    text,
    when,
)
from playbook_supervisor.formats.located import Document, Path, Plain
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.project.playbooks.translation import (
    MISSING,
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
_INTEGRATION = (
    "`integration` is left out: `--agent`, the config or a step's `agent` names the agent"
)
_COMMON = ("id", "type", "continue_on_error")
_TYPES: Mapping[str, type] = {"text": str, "a list": list, "a mapping": dict}
_SHAPES = {
    **dict.fromkeys(("steps", "then", "else", "default", "wait_for"), "a list"),
    **dict.fromkeys(("input", "cases", "step", "output"), "a mapping"),
}
"""The keys of a step that take no text."""
_BARE = r"(?:\A|\s)[^\s'\"]*\{\{"  # an expression outside quotation marks
_OPTIONS = {"gate": "a list"}
"""The form of `options`, by type of step; mappings of others."""
_ON_REJECT = {
    "abort": "To reject is to answer `abort`.",
    "skip": "To reject is to answer `skip`.",
    "retry": "The gate waits until it is answered; to reject for good is to answer `abort`.",
}


class Workflow:
    """A workflow of which some steps have been translated.

    `places` has the path in the playbook of each step by its id, `origins` that in the file.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.scope = Scope(draft.keys(("inputs",)))
        self.places: dict[str, Path] = {}
        self.origins: dict[str, Path] = {}
        self.count = 0

    def refuse_expression(self, at: Path, error: ExpressionError) -> None:
        """Report at its place what cannot be read, or has no counterpart."""
        self.draft.refuse(at, str(error), error.guidance, key=False)

    def require_shapes(self, at: Path, kind: str, keys: Iterable[str]) -> bool:
        """Refuse each value at a place that is not what its key takes; whether all keys fit."""
        fitting = True
        for key in keys:
            wanted = (
                _OPTIONS.get(kind, "a mapping") if key == "options" else _SHAPES.get(key, "text")
            )
            value = self.draft.value((*at, key))
            if not isinstance(value, _TYPES[wanted]) or value == "":
                said = f"`{first_line(key, 60)}` is not {wanted}"
                self.draft.refuse((*at, key), said, f"Write {wanted}, or remove the key.")
                fitting = False
        return fitting

    def text(self, at: Path) -> str:
        """The text at a place with its inputs as args; empty if there is none."""
        try:
            return text(template(self.draft.text(at)), self.scope)
        except ExpressionError as error:
            self.refuse_expression(at, error)
            return ""


def recognises(document: Document) -> bool:
    """A mapping under `workflow`, or the version of the format."""
    found = meant(document.data, ("workflow", "schema_version", "version"))
    return isinstance(found.get("workflow"), dict) or "schema_version" in found


def translate(document: Document) -> Translation:
    """The workflow in version 1.1."""
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
    draft.put_defaults("which the format does not state")
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
        draft.note((*at, "integration"), _INTEGRATION)
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
        stated = draft.value((*at, "required"))
        if has_default or stated is MISSING:
            draft.put((*to, "required"), plain(value=False), at)
        else:
            draft.copy((*to, "required"), (*at, "required"))
        draft.copy((*to, "default"), (*at, "default"))
        needed = isinstance(stated, Plain) and stated.value is True
        if draft.text((*at, "type")) == "boolean" and not (has_default or needed):
            draft.put((*to, "default"), "false", at)
            draft.note(at, f"`{first_line(name, 60)}` is false unless it is given")
        if draft.value((*at, "enum")) is MISSING:
            draft.copy((*to, "type"), (*at, "type"))
        else:
            draft.put((*to, "type"), "enum", (*at, "enum"))
            draft.copy((*to, "values"), (*at, "enum"))


def _promises(workflow: Workflow) -> None:
    for step in sorted(workflow.scope.promised):
        if to := workflow.places.get(step):
            workflow.draft.put((*to, "output"), "json", workflow.origins[step])
            said = f"the step `{step}` must print JSON, which a later step reads"
            workflow.draft.note(workflow.origins[step], said)


# ── branches and loops ──────────────────────────────────────────────────────────────────────


def _steps(workflow: Workflow, at: Path, condition_of: str) -> None:
    items = workflow.draft.items(at)
    if not items:
        workflow.draft.refuse(at, "a list of steps is expected here", "Write at least one step.")
    for each in items:
        _step(workflow, each, condition_of)


def _step(workflow: Workflow, at: Path, condition_of: str) -> None:
    draft = workflow.draft
    kind = _kind(draft, at)
    if kind in _LEAVES:
        _leaf(workflow, kind, at, condition_of)
    elif kind in _NESTING:
        keys, translated = _NESTING[kind]
        there = draft.refuse_unknown(at, ("id", "type", *keys), f"`{kind}` steps")
        if not workflow.require_shapes(at, kind, there):
            return
        try:
            translated(workflow, at, condition_of)
        except ExpressionError as error:
            workflow.refuse_expression((*at, _CONDITIONS[kind]), error)
    else:
        known = (*_LEAVES, *_NESTING)
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
    draft = workflow.draft
    value = _condition(workflow, (*at, "expression"), condition_of)
    cases = draft.keys((*at, "cases"))
    if not cases:
        draft.refuse(at, "a switch without `cases`", "Add `cases:` with a list for each.")
    for case in cases:
        there = (*at, "cases", case)
        if isinstance(Plain(case).value, str):
            test = when(Comparison(value, Literal(case)), workflow.scope, holds=True)
            _steps(workflow, there, test)
        else:
            said = f"the case `{first_line(case, 60)}` is a number, true, false or none"
            draft.refuse(there, said, "Use `if` with `==`, which tells numbers from text.")
    if draft.value((*at, "default")) is MISSING:
        return
    if len(cases) == 1:
        test = when(Comparison(value, Literal(cases[0])), workflow.scope, holds=False)
        _steps(workflow, (*at, "default"), test)
    else:
        said = "`default` beside several cases depends on several comparisons"
        cure = "Give each value its own case; or keep one case and the `default`."
        draft.refuse((*at, "default"), said, cure)


def _condition(workflow: Workflow, at: Path, condition_of: str) -> Expression:
    if condition_of:
        raise ExpressionError(
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
        raise ExpressionError(
            "only a loop that works and then tests has a counterpart",
            "Give it two steps: the work, and a `shell` step that tests it; and the condition"
            " `{{ steps.TEST.output.exit_code != 0 }}`. Others are loops over a child playbook.",
        )
    if kinds[0] not in ("command", "prompt"):
        guidance = "Let an agent do the work, in a `command` or `prompt` step."
        draft.refuse(body[0], f"a `{kinds[0]}` step cannot be repeated here", guidance)
        return
    to = _leaf(workflow, kinds[0], body[0], condition_of)
    draft.refuse_unknown(body[1], ("id", "type", "run"), "the test of a loop")
    if (program := _program(workflow, (*body[1], "run"))) and to:
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
    value = draft.value(at)
    if value is not MISSING and not (isinstance(value, Plain) and type(value.value) is int):
        guidance = "Write the number, or leave the key out."
        draft.refuse(at, f"`{at[-1]}` is not a whole number", guidance, key=False)
    draft.copy(to, at)


def _failing(expression: Expression) -> str:
    """The step of which an expression says that its exit status is not 0; empty for others."""
    match expression:
        case Comparison(Reference(("steps", str() as step, "output", "exit_code")), Literal(0)):
            return "" if expression.equal else step
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
    to = _leaf(workflow, kind, inner, condition_of, holder=at)
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


# ── what does something: commands, prompts, programs and gates ──────────────────────────────


def _leaf(
    workflow: Workflow, kind: str, at: Path, condition_of: str, *, holder: Path | None = None
) -> Path | None:
    """The path of the translated step; None if it has no id.

    `condition_of` is the `when` of its branch, empty for none. The step of a fan-out has the id of
    its `holder`.
    """
    draft, named = workflow.draft, at if holder is None else holder
    step_id = draft.text((*named, "id"))
    if not step_id:
        draft.refuse(named, "`id` is missing", "Add `id:` with a name of its own.", key=False)
        return None
    keys, translated = _LEAVES[kind]
    known = draft.refuse_unknown(at, (*_COMMON, *keys), f"`{kind}` steps")
    workflow.require_shapes(at, kind, known)
    to: Path = ("steps", workflow.count)
    workflow.count += 1
    draft.put(to, {}, at)
    draft.copy((*to, "id"), (*named, "id"))
    translated(workflow, to, at)
    if condition_of:
        draft.put((*to, "when"), condition_of, at)
    if _continued(draft, to, at):
        workflow.scope.continued.add(step_id)
    workflow.scope.kinds[step_id] = kind
    workflow.places[step_id], workflow.origins[step_id] = to, at
    return to


def _continued(draft: Draft, to: Path, at: Path) -> bool:
    stated = draft.value((*at, "continue_on_error"))
    if isinstance(stated, Plain) and stated.value is True:
        draft.put((*to, "error_policy"), "continue", (*at, "continue_on_error"))
        return True
    if stated is not MISSING and not (isinstance(stated, Plain) and stated.value is False):
        guidance = "Write true or false."
        draft.refuse((*at, "continue_on_error"), "this is neither true nor false", guidance)
    return False


def _command(workflow: Workflow, to: Path, at: Path) -> None:
    draft, name = workflow.draft, workflow.draft.text((*at, "command"))
    if name:
        draft.put((*to, "command"), name if name.startswith("/") else f"/{name}", (*at, "command"))
    else:
        draft.refuse(at, "`command` is missing", "Add `command:`, as in `speckit.plan`.", key=False)
    known = draft.refuse_unknown((*at, "input"), ("args",), "`input`")
    workflow.require_shapes((*at, "input"), "input", known)
    if draft.value((*at, "input", "args")) is not MISSING:
        draft.put((*to, "args"), workflow.text((*at, "input", "args")), (*at, "input", "args"))
    _agent(workflow, to, at)


def _prompt(workflow: Workflow, to: Path, at: Path) -> None:
    draft, there = workflow.draft, (*at, "prompt")
    draft.put((*to, "command"), "prompt", at)
    if draft.value(there) is MISSING:
        draft.refuse(at, "`prompt` is missing", "Add `prompt:` with its text.", key=False)
    try:
        parts = list(template(draft.text(there)))
        while len(parts) > 1 and isinstance(parts[-1], str) and not parts[-1].strip():
            parts.pop()
        if len(parts) > 1 and (output := read_output(parts[-1], workflow.scope)):
            draft.put((*to, "stdin"), output, there)
            parts.pop()
        draft.put((*to, "with", "text"), text(parts, workflow.scope), there)
    except ExpressionError as error:
        workflow.refuse_expression(there, error)
    said = "the agent of a `prompt` can only read files"
    draft.note(there, said, "Name `tools` in the playbook that `playbook import` writes.")
    _agent(workflow, to, at)


def _agent(workflow: Workflow, to: Path, at: Path) -> None:
    draft = workflow.draft
    if draft.value((*at, "integration")) is not MISSING:
        draft.note((*at, "integration"), _INTEGRATION)
    if "{{" in draft.text((*at, "model")):
        guidance = "Write the name of a model, or leave it out."
        draft.refuse((*at, "model"), "a model is chosen before the run", guidance, key=False)
    else:
        draft.copy((*to, "model"), (*at, "model"))
        if draft.value((*at, "model")) is MISSING:
            draft.copy((*to, "model"), ("workflow", "model"))
    if draft.value((*at, "options")) not in (MISSING, {}):
        guidance = "Remove it; the config of the project has options of agents."
        draft.refuse((*at, "options"), "`options` of an agent have no counterpart", guidance)


def _shell(workflow: Workflow, to: Path, at: Path) -> None:
    if command := _program(workflow, (*at, "run")):
        workflow.draft.put((*to, "command"), command, (*at, "run"))


def _program(workflow: Workflow, at: Path) -> str:
    draft, line = workflow.draft, workflow.draft.text(at).strip()
    if not line:
        draft.refuse(at, "`run` is empty", "Write a program with its arguments.")
        return ""
    try:
        parts = template(line)
        command = text(parts, workflow.scope)
    except ExpressionError as error:
        workflow.refuse_expression(at, error)
        return ""
    bare = "".join(part if isinstance(part, str) else "x" for part in parts)
    if not (why := needs_shell(bare)):
        _note_words(draft, at, line, parts)
        return f"cli {command}"
    if "\n" in line or len(parts) > 1:
        several = "this has several lines, and a command is one"
        said = f"this needs a shell ({why}), and an expression in it would be code"
        cure = "Put it into a script of the repository, and give that the inputs as words."
        draft.refuse(at, several if "\n" in line else said, cure, key=False)
        return ""
    draft.note(
        at,
        f"this needs a shell ({why}): it runs only where `allow: {{cli: [sh]}}` is in"
        " .playbooks/config.yaml",
        "Allow it there, or run a program without shell syntax.",
    )
    return f"cli sh -c {shlex.quote(line)}"


def _note_words(draft: Draft, at: Path, line: str, parts: Sequence[str | Expression]) -> None:
    """Say where a shell would have read the value of an input, and nothing does here."""
    if len(parts) == 1 and not isinstance(parts[0], str):
        said = f"`{first_line(line, 60)}` is the whole line: its value is split into words"
        draft.note(at, f"{said}, and no shell reads them as in spec-kit")
    elif re.search(_BARE, line):
        said = "an input without quotation marks is one word, which a shell would split"
        draft.note(at, said)


def _gate(workflow: Workflow, to: Path, at: Path) -> None:
    draft = workflow.draft
    draft.put((*to, "command"), "checkpoint", at)
    if draft.value((*at, "message")) is MISSING:
        draft.refuse(at, "`message` is missing", "Add `message:` with a question.", key=False)
    message = workflow.text((*at, "message"))
    if draft.value((*at, "show_file")) is not MISSING:
        message = f"{message} (file: {workflow.text((*at, 'show_file'))})"
        draft.note(
            (*at, "show_file"), "the file of `show_file` is named in the message of its gate"
        )
    draft.put((*to, "with", "message"), message, (*at, "message"))
    for each in draft.items((*at, "options")):
        if (option := draft.text(each)) not in (APPROVE, REJECT):
            said = f"the option `{first_line(option, 60)}` has no counterpart"
            draft.refuse(each, said, f"A gate has `{APPROVE}` and `{REJECT}`.", key=False)
    stated = draft.text((*at, "on_reject")) or "abort"
    if stated not in _ON_REJECT:
        said = f"`{first_line(stated, 60)}` is no reaction to a rejection"
        cure = f"Write one of {', '.join(_ON_REJECT)}."
        draft.refuse((*at, "on_reject"), said, cure, key=False)
        return
    cure = f"{_ON_REJECT[stated]} After `skip` the run goes on without the approval."
    draft.note(at, f"a gate is a `checkpoint`, with `{APPROVE}` as `continue`", cure)


_Leaf = Callable[[Workflow, Path, Path], None]
_LEAVES: Mapping[str, tuple[tuple[str, ...], _Leaf]] = {
    "command": (("command", "integration", "model", "options", "input"), _command),
    "prompt": (("prompt", "integration", "model", "options"), _prompt),
    "shell": (("run",), _shell),
    "gate": (("message", "options", "on_reject", "show_file"), _gate),
}
"""The keys of each type of step that does something, and its translation."""
