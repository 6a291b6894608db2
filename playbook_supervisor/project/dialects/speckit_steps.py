"""The steps of a spec-kit workflow that do something: commands, prompts, programs and gates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from playbook_supervisor.formats.located import Path, Plain
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.dialects.simple_command import needs_shell
from playbook_supervisor.project.dialects.speckit_expressions import (
    Expression,
    ExpressionError,
    template,
)
from playbook_supervisor.project.dialects.speckit_values import (
    APPROVE,
    REJECT,
    Scope,
    UntranslatableError,
    read_output,
    text,
)
from playbook_supervisor.project.dialects.translation import MISSING, Draft

INTEGRATION = "`integration` is left out: a playbook names no agent, `--agent` or the config does"

_COMMON = ("id", "type", "continue_on_error")
_TYPES: Mapping[str, type] = {"text": str, "a list": list, "a mapping": dict}
_SHAPES = {
    **dict.fromkeys(("steps", "then", "else", "default", "wait_for"), "a list"),
    **dict.fromkeys(("input", "cases", "step", "output"), "a mapping"),
}
"""What the keys of a step take that is no text."""
_BARE = r"(?:\A|\s)[^\s'\"]*\{\{"  # an expression outside quotation marks
_OPTIONS = {"gate": "a list"}
"""What `options` are, by type of step; mappings of others."""
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

    def refuse_expression(self, at: Path, error: ExpressionError | UntranslatableError) -> None:
        """Report at its place what cannot be read, or has no counterpart."""
        if isinstance(error, ExpressionError):
            said = f"the expression is wrong at character {error.column}: {error}"
            guidance = "Write `{{ inputs.NAME }}` or `{{ steps.ID.output.NAME }}`."
            self.draft.refuse(at, said, guidance, key=False)
        else:
            self.draft.refuse(at, str(error), error.guidance, key=False)

    def require_shapes(self, at: Path, kind: str, keys: Iterable[str]) -> bool:
        """Refuse each value of these keys at a place that is not what its key takes.

        Whether all are.
        """
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

    def filled(self, to: Path, at: Path) -> None:
        """Write the text at a place with its inputs as args, if there is one."""
        if self.draft.value(at) is MISSING:
            return
        try:
            self.draft.put(to, text(template(self.draft.text(at)), self.scope), at)
        except (ExpressionError, UntranslatableError) as error:
            self.refuse_expression(at, error)


def leaf(
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
    keys, translated = LEAVES[kind]
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
    """Whether the run goes on after a failure of the step."""
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
    workflow.filled((*to, "args"), (*at, "input", "args"))
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
    except (ExpressionError, UntranslatableError) as error:
        workflow.refuse_expression(there, error)
    said = "the agent of a `prompt` can only read files"
    draft.note(there, said, "Name `tools` in the playbook that `playbook import` writes.")
    _agent(workflow, to, at)


def _agent(workflow: Workflow, to: Path, at: Path) -> None:
    """What a step says about the agent that carries it out."""
    draft = workflow.draft
    if draft.value((*at, "integration")) is not MISSING:
        draft.note((*at, "integration"), INTEGRATION)
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
    if command := program(workflow, (*at, "run")):
        workflow.draft.put((*to, "command"), command, (*at, "run"))


def program(workflow: Workflow, at: Path) -> str:
    """The line of shell at a place as a `cli` command; empty if it is refused."""
    draft, line = workflow.draft, workflow.draft.text(at).strip()
    if not line:
        draft.refuse(at, "`run` is empty", "Write a program with its arguments.")
        return ""
    try:
        parts = template(line)
        command = text(parts, workflow.scope)
    except (ExpressionError, UntranslatableError) as error:
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
    workflow.filled((*to, "with", "message"), (*at, "message"))
    if draft.value((*at, "show_file")) is not MISSING:
        _shown_file(workflow, to, at)
    for each in draft.items((*at, "options")):
        if (option := draft.text(each)) not in (APPROVE, REJECT):
            said = f"the option `{first_line(option, 60)}` has no counterpart"
            guidance = f"A gate has `{APPROVE}` and `{REJECT}`."
            draft.refuse(each, said, guidance, key=False)
    stated = draft.text((*at, "on_reject")) or "abort"
    if stated not in _ON_REJECT:
        guidance = f"Write one of {', '.join(_ON_REJECT)}."
        said = f"`{first_line(stated, 60)}` is no reaction to a rejection"
        draft.refuse((*at, "on_reject"), said, guidance, key=False)
        return
    guidance = f"{_ON_REJECT[stated]} After `skip` the run goes on without the approval."
    draft.note(at, f"a gate is a `checkpoint`, with `{APPROVE}` as `continue`", guidance)


def _shown_file(workflow: Workflow, to: Path, at: Path) -> None:
    """A checkpoint names the file, which people read where they work."""
    there = (*at, "show_file")
    try:
        file = text(template(workflow.draft.text(there)), workflow.scope)
        message = text(template(workflow.draft.text((*at, "message"))), workflow.scope)
    except (ExpressionError, UntranslatableError) as error:
        workflow.refuse_expression(there, error)
        return
    workflow.draft.put((*to, "with", "message"), f"{message} (file: {file})", (*at, "message"))
    workflow.draft.note(there, "the file of `show_file` is named in the message of its gate")


_Leaf = Callable[[Workflow, Path, Path], None]
LEAVES: Mapping[str, tuple[tuple[str, ...], _Leaf]] = {
    "command": (("command", "integration", "model", "options", "input"), _command),
    "prompt": (("prompt", "integration", "model", "options"), _prompt),
    "shell": (("run",), _shell),
    "gate": (("message", "options", "on_reject", "show_file"), _gate),
}
"""The keys of each type of step that does something, and its translation."""
