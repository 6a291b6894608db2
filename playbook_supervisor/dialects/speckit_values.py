"""What the expressions of a spec-kit workflow are in version 1.1: args, `when`, earlier output.

What has no counterpart is refused. An expression is translated whole or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from playbook_supervisor.dialects.speckit_expressions import (
    Both,
    Comparison,
    Expression,
    Filtered,
    Literal,
    Not,
    Reference,
)

APPROVE, REJECT = "approve", "reject"
GATE, FAN_OUT = "gate", "fan-out"
ITEM = "item"

_KEY = r"[A-Za-z_][A-Za-z0-9_-]*\Z"
_ONE_PLAYBOOK = "put the steps that depend on it into a playbook of their own"
_NO_JSON = {
    "stdout": "is text, and conditions read JSON",
    "stderr": "is not kept",
    "exit_code": "is always 0 here: after another one the run ends at that step",
}


class UntranslatableError(ValueError):
    """What has no counterpart in version 1.1, and how to do without it."""

    def __init__(self, message: str, guidance: str) -> None:
        super().__init__(message)
        self.guidance = guidance


class Scope:
    """What expressions can refer to where they stand.

    `kinds` has the type of each step so far by its id, `promised` the steps whose JSON is read,
    and `continued` those after whose failure the run goes on.
    """

    def __init__(self, inputs: Collection[str]) -> None:
        self.inputs = set(inputs)
        self.kinds: dict[str, str] = {}
        self.promised: set[str] = set()
        self.continued: set[str] = set()
        self.in_loop = False


def text(parts: Sequence[str | Expression], scope: Scope) -> str:
    """A template as text with `{{arg}}`. UntranslatableError."""
    return "".join(part if isinstance(part, str) else _inserted(part, scope) for part in parts)


def _inserted(expression: Expression, scope: Scope) -> str:
    match expression:
        case Literal(value=str() as value) if "{{" not in value:
            return value
        case Reference(parts=("inputs", str() as name)):
            return f"{{{{{_input(name, scope)}}}}}"
        case Reference(parts=(first, *keys)) if first == ITEM:
            if not scope.in_loop:
                raise UntranslatableError(
                    "`item` has a value only in a fan-out", "Name an input instead."
                )
            return f"{{{{{'.'.join([ITEM, *map(str, keys)])}}}}}"
        case Reference(parts=("steps", *_)):
            raise UntranslatableError(
                "the output of a step cannot be put into this text",
                "A prompt can end with `{{ steps.ID.output.stdout }}`. Elsewhere let the step write"
                " a file, and name the file.",
            )
        case Filtered(name="default"):
            raise UntranslatableError(
                "the filter `default` has no counterpart here", "Give the input a `default`."
            )
        case _:
            raise UntranslatableError(
                "this expression has no counterpart here", "Name an input: `{{ inputs.NAME }}`."
            )


def _input(name: str, scope: Scope) -> str:
    if name not in scope.inputs:
        scope.inputs.add(name)  # so that it is refused once
        message = f"`inputs.{name[:60]}` is no input of this workflow"
        raise UntranslatableError(message, "Declare it under `inputs`.")
    return name


def read_output(expression: str | Expression, scope: Scope) -> str:
    """The whole output that an expression is, as `$ID.stdout`; empty if it is something else."""
    match expression:
        case Reference(parts=("steps", str() as step, "output", key)):
            kind = scope.kinds.get(step, "")
            text_key = "results" if kind == FAN_OUT else "stdout"
            return f"${step}.stdout" if kind not in ("", GATE) and key == text_key else ""
        case _:
            return ""


def read_list(expression: Expression, scope: Scope) -> str:
    """The list that a loop goes through, as `$ID.json.files` or `$arg`. UntranslatableError."""
    match expression:
        case Reference(parts=("inputs", str() as name)):
            return f"${_input(name, scope)}"
        case Reference(parts=("steps", *_)):
            return _json(expression, scope)
        case _:
            raise UntranslatableError(
                "a loop goes through the output of a step, or through an input",
                "Write `{{ steps.ID.output.NAME }}` or `{{ inputs.NAME }}`.",
            )


def when(expression: Expression, scope: Scope, *, holds: bool) -> str:
    """The `when` of the steps that run if the expression is true, or false. UntranslatableError."""
    match expression:
        case Not(operand=operand):
            return when(operand, scope, holds=not holds)
        case Comparison(operator="==" | "!=" as operator, left=Literal() as left, right=right):
            swapped = Comparison(operator, right, left)
            if isinstance(right, Reference):
                return when(swapped, scope, holds=holds)
        case Comparison(operator="==" | "!=" as operator, left=Reference() as left, right=right):
            if isinstance(right, Literal):
                return _compared(left, right, scope, equal=(operator == "==") is holds)
        case Reference(parts=("inputs", str() as name)):
            return f"{'' if holds else '!'}${_input(name, scope)}"
        case Reference():
            return f"{'' if holds else '!'}{_json(expression, scope)}"
        case Both(operator=operator):
            message = f"a step depends on one comparison: `{operator}` has no counterpart"
            raise UntranslatableError(message, f"Compare once, and {_ONE_PLAYBOOK}.")
        case _:
            pass
    raise UntranslatableError(
        "this condition has no counterpart: a step can depend on `==`, `!=` and `not` alone",
        "Let the step before print the answer as JSON, and write `steps.ID.output.NAME == true`.",
    )


def _compared(left: Reference, right: Literal, scope: Scope, *, equal: bool) -> str:
    match left.parts:
        case ("inputs", str() as name):
            value = json.dumps(right.value, ensure_ascii=False)
            return f"${_input(name, scope)} {'==' if equal else '!='} {value}"
        case ("steps", str() as step, "output", "choice") if scope.kinds.get(step) == GATE:
            if right.value not in (APPROVE, REJECT):
                message = f"a gate's choice is `{APPROVE}` or `{REJECT}`"
                raise UntranslatableError(message, f"Write `== '{APPROVE}'`.")
            return f"{'' if (right.value == APPROVE) is equal else '!'}${step}.approved"
        case _:
            value = json.dumps(right.value, ensure_ascii=False)
            return f"{_json(left, scope)} {'==' if equal else '!='} {value}"


def _json(reference: Reference, scope: Scope) -> str:
    """A part of the JSON of an earlier step, which then promises JSON."""
    match reference.parts:
        case ("steps", str() as step, "output", str() as key, *keys):
            pass
        case _:
            raise UntranslatableError(
                f"`{'.'.join(map(str, reference.parts))[:60]}` has no counterpart here",
                "Write `steps.ID.output.NAME`, with the id of an earlier step.",
            )
    if (kind := scope.kinds.get(step)) is None:
        message = f"`{step[:60]}` is no earlier step that has an output"
        raise UntranslatableError(message, "Name a step that comes before this one.")
    if kind == GATE:
        message = f"a gate has only a `choice`, which is `{APPROVE}` or `{REJECT}`"
        raise UntranslatableError(message, f"Write `steps.{step}.output.choice == '{APPROVE}'`.")
    if key in _NO_JSON and not keys:
        guidance = "Let the step print JSON, and compare a part of it."
        failed = key == "exit_code" and step in scope.continued
        why = "is not kept here, and no condition can ask for it" if failed else _NO_JSON[key]
        raise UntranslatableError(f"`{key}` {why}", guidance)
    scope.promised.add(step)
    return f"${step}.json" + "".join(map(_part, (key, *keys)))


def _part(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if not re.match(_KEY, key):
        message = f"the key `{key[:60]}` cannot be named in a condition"
        raise UntranslatableError(message, "Use letters, digits, `_` and `-`.")
    return f".{key}"
