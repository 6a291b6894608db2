"""The expressions of spec-kit's workflow files, and what they are here: args, `when`, output.

    {{ inputs.kind == 'bug' }}
    {{ not steps.build.output.files[0].ok }}

An expression is a value, or `not` or one comparison of values: only these have a counterpart. Text
outside the grammar is an error at its column. An expression is translated whole or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

MAX_CHARACTERS = 2_000
MAX_DEPTH = 40
"""Limits of one expression, so that a hostile file costs nothing."""
APPROVE, REJECT = "approve", "reject"
GATE, FAN_OUT = "gate", "fan-out"
ITEM = "item"

_LEXEME = re.compile(r"""(?x) \s*(?:
    (?P<text>    '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
  | (?P<number>  -?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?![A-Za-z0-9_.]) )
  | (?P<name>    [A-Za-z_][A-Za-z0-9_-]* )
  | (?P<sign>    \}\} | == | != | <= | >= | [<>|()\[\],.] )
)""")
_END = "}}"
_WORDS = ("and", "or", "not", "in")
_CURES = {
    **dict.fromkeys(
        ("and", "or"),
        "Compare once, and put the steps that depend on it into a playbook of their own.",
    ),
    **dict.fromkeys(
        ("<=", ">=", "<", ">", "in", "[", "not in"),
        "A step can depend on `==`, `!=` and `not` alone. Let the step before print the answer as"
        " JSON, and write `steps.ID.output.NAME == true`.",
    ),
    "|": "Name an input, which may have a `default`; or let the step before print what is needed.",
}
"""The ways out, by the operator that has no counterpart here."""
_CONSTANTS: dict[str, str | int | float | bool | None] = {
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
    **dict.fromkeys(("none", "None", "null"), None),
}
_KEY = r"[A-Za-z_][A-Za-z0-9_-]*\Z"
_NO_JSON = {
    "stdout": "is text, and conditions read JSON",
    "stderr": "is not kept",
    "exit_code": "is always 0 here: after another one the run ends at that step",
}


class ExpressionError(ValueError):
    """Text outside the grammar, at its `column` from 1, or what has no counterpart here: 0."""

    def __init__(self, message: str, guidance: str, column: int = 0) -> None:
        super().__init__(message)
        self.guidance, self.column = guidance, column


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, true, false or none."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Reference:
    """The thing that a dotted name refers to: `("steps", "plan", "output", "files", 0)`."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of an expression."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values that are equal, or are not."""

    left: Expression
    right: Expression
    equal: bool = True


Expression = Literal | Reference | Not | Comparison


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def template(text: str) -> tuple[str | Expression, ...]:
    """The parts of a text: what is outside `{{ }}`, and the expressions. ExpressionError."""
    parts: list[str | Expression] = []
    at = 0
    while (begin := text.find("{{", at)) >= 0:
        if begin > at:
            parts.append(text[at:begin])
        reader = _Reader(text, begin + 2)
        parts.append(reader.expression())
        at = reader.end()
    if at < len(text):
        parts.append(text[at:])
    return tuple(parts)


def condition(text: str) -> Expression:
    """The one expression that a text is, in `{{ }}` or without them. ExpressionError."""
    if "{{" not in text:
        text = f"{{{{{text}}}}}"
    parts = [part for part in template(text) if not isinstance(part, str) or part.strip()]
    if len(parts) != 1 or isinstance(parts[0], str):
        raise _wrong(1, "one expression is expected, with everything inside its `{{ }}`")
    return parts[0]


def _wrong(column: int, message: str) -> ExpressionError:
    return ExpressionError(
        f"the expression is wrong at character {column}: {message}",
        "Write `{{ inputs.NAME }}` or `{{ steps.ID.output.NAME }}`.",
        column,
    )


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self._text, self._begin, self._at, self._depth = text, at, at, 0
        self._kind = self._token = ""
        self._advance()

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"this is nested deeper than {MAX_DEPTH} levels")
        negations = 0
        while self._takes("not"):
            negations += 1
        expression = self._comparison()
        self._refuse_operators()
        self._depth -= 1
        return Not(expression) if negations % 2 else expression

    def end(self) -> int:
        if self._token != _END:
            self._fail(f"`{self._token[:40]}` is not expected here")
        return self._at

    def _comparison(self) -> Expression:
        left = self._value()
        self._refuse_operators()
        if not (operator := self._takes("==", "!=")):
            return left
        right = self._value()
        if self._takes("==", "!="):
            self._fail("comparisons cannot be chained")
        return Comparison(left, right, operator == "==")

    def _refuse_operators(self) -> None:
        """ExpressionError for one that has no counterpart."""
        if self._takes("not"):
            self._expect("in")
            raise _without_counterpart("not in")
        if operator := self._takes(*_CURES):
            raise _without_counterpart(operator)

    def _value(self) -> Expression:
        kind, token = self._kind, self._token
        if kind in ("text", "number"):
            self._advance()
            number = float if "." in token else int
            return Literal(_unquoted(token) if kind == "text" else number(token))
        if self._takes("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._takes("["):
            raise _without_counterpart("[")
        name = self._name("a value")
        return Literal(_CONSTANTS[name]) if name in _CONSTANTS else self._reference(name)

    def _reference(self, name: str) -> Reference:
        parts: list[str | int] = [name]
        while separator := self._takes(".", "["):
            if separator == ".":
                parts.append(self._name("a name"))
            else:
                parts.append(self._key())
                self._expect("]")
        return Reference(tuple(parts))

    def _key(self) -> str | int:
        kind, token = self._kind, self._token
        if kind != "text" and not token.isdigit():
            self._fail("a number or a text is expected in the brackets")
        self._advance()
        return _unquoted(token) if kind == "text" else int(token)

    def _name(self, wanted: str) -> str:
        if self._kind != "name" or self._token in _WORDS:
            self._fail(f"{wanted} is expected here")
        name = self._token
        self._advance()
        return name

    def _takes(self, *tokens: str) -> str:
        token = self._token
        if token not in tokens or self._kind not in ("sign", "name"):
            return ""
        self._advance()
        return token

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            self._fail(f"`{token}` is expected here")

    def _advance(self) -> None:
        if self._token == _END:
            return
        found = _LEXEME.match(self._text, self._at)
        if found is None:
            rest = self._text[self._at :].lstrip()
            self._token, self._at = "", len(self._text) - len(rest)
            self._fail("this is no expression" if rest else "`}}` is missing")
        self._kind, self._at = found.lastgroup or "", found.end()
        self._token = found[self._kind]
        if self._at - self._begin > MAX_CHARACTERS:
            self._fail(f"an expression has at most {MAX_CHARACTERS:,} characters")

    def _fail(self, message: str) -> NoReturn:
        raise _wrong(self._at - len(self._token) + 1, message)


def _without_counterpart(operator: str) -> ExpressionError:
    return ExpressionError(f"`{operator}` has no counterpart here", _CURES[operator])


def _unquoted(token: str) -> str:
    escapes = {"n": "\n", "t": "\t"}
    return re.sub(r"(?s)\\(.)", lambda found: escapes.get(found[1], found[1]), token[1:-1])


# ── what they are here ──────────────────────────────────────────────────────────────────────


class Scope:
    """The names that expressions can refer to where they stand.

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
    """A template as text with `{{arg}}`. ExpressionError."""
    return "".join(part if isinstance(part, str) else _inserted(part, scope) for part in parts)


def _inserted(expression: Expression, scope: Scope) -> str:
    match expression:
        case Literal(str() as value) if "{{" not in value:
            return value
        case Reference(("inputs", str() as name)):
            return f"{{{{{_input(name, scope)}}}}}"
        case Reference((first, *keys)) if first == ITEM:
            if not scope.in_loop:
                raise ExpressionError(
                    "`item` has a value only in a fan-out", "Name an input instead."
                )
            return f"{{{{{'.'.join([ITEM, *map(str, keys)])}}}}}"
        case Reference(("steps", *_)):
            raise ExpressionError(
                "the output of a step cannot be put into this text",
                "A prompt can end with `{{ steps.ID.output.stdout }}`. Elsewhere let the step write"
                " a file, and name the file.",
            )
        case _:
            raise ExpressionError(
                "this expression has no counterpart here", "Name an input: `{{ inputs.NAME }}`."
            )


def _input(name: str, scope: Scope) -> str:
    if name not in scope.inputs:
        scope.inputs.add(name)  # so that it is refused once
        message = f"`inputs.{name[:60]}` is no input of this workflow"
        raise ExpressionError(message, "Declare it under `inputs`.")
    return name


def read_output(expression: str | Expression, scope: Scope) -> str:
    """The whole output that an expression is, as `$ID.stdout`; empty if it is something else."""
    match expression:
        case Reference(("steps", str() as step, "output", key)):
            kind = scope.kinds.get(step, "")
            text_key = "results" if kind == FAN_OUT else "stdout"
            return f"${step}.stdout" if kind not in ("", GATE) and key == text_key else ""
        case _:
            return ""


def read_list(expression: Expression, scope: Scope) -> str:
    """The list that a loop goes through, as `$ID.json.files` or `$arg`. ExpressionError."""
    match expression:
        case Reference(("inputs", str() as name)):
            return f"${_input(name, scope)}"
        case Reference(("steps", *_)):
            return _json(expression, scope)
        case _:
            raise ExpressionError(
                "a loop goes through the output of a step, or through an input",
                "Write `{{ steps.ID.output.NAME }}` or `{{ inputs.NAME }}`.",
            )


def when(expression: Expression, scope: Scope, *, holds: bool) -> str:
    """The `when` of the steps that run if the expression is true, or false. ExpressionError."""
    match expression:
        case Not(operand):
            return when(operand, scope, holds=not holds)
        case Comparison(Literal() as right, Reference() as left, equal):
            return _compared(left, right, scope, equal=equal is holds)
        case Comparison(Reference() as left, Literal() as right, equal):
            return _compared(left, right, scope, equal=equal is holds)
        case Reference(("inputs", str() as name)):
            return f"{'' if holds else '!'}${_input(name, scope)}"
        case Reference():
            return f"{'' if holds else '!'}{_json(expression, scope)}"
        case _:
            raise ExpressionError(
                "this condition has no counterpart here", "Compare an input or a part of an output."
            )


def _compared(left: Reference, right: Literal, scope: Scope, *, equal: bool) -> str:
    match left.parts:
        case ("inputs", str() as name):
            value = json.dumps(right.value, ensure_ascii=False)
            return f"${_input(name, scope)} {'==' if equal else '!='} {value}"
        case ("steps", str() as step, "output", "choice") if scope.kinds.get(step) == GATE:
            if right.value not in (APPROVE, REJECT):
                message = f"a gate's choice is `{APPROVE}` or `{REJECT}`"
                raise ExpressionError(message, f"Write `== '{APPROVE}'`.")
            return f"{'' if (right.value == APPROVE) is equal else '!'}${step}.approved"
        case _:
            value = json.dumps(right.value, ensure_ascii=False)
            return f"{_json(left, scope)} {'==' if equal else '!='} {value}"


def _json(reference: Reference, scope: Scope) -> str:
    match reference.parts:
        case ("steps", str() as step, "output", str() as key, *keys):
            pass
        case _:
            raise ExpressionError(
                f"`{'.'.join(map(str, reference.parts))[:60]}` has no counterpart here",
                "Write `steps.ID.output.NAME`, with the id of an earlier step.",
            )
    if (kind := scope.kinds.get(step)) is None:
        message = f"`{step[:60]}` is no earlier step that has an output"
        raise ExpressionError(message, "Name a step that comes before this one.")
    if kind == GATE:
        message = f"a gate has only a `choice`, which is `{APPROVE}` or `{REJECT}`"
        raise ExpressionError(message, f"Write `steps.{step}.output.choice == '{APPROVE}'`.")
    if key in _NO_JSON and not keys:
        guidance = "Let the step print JSON, and compare a part of it."
        failed = key == "exit_code" and step in scope.continued
        why = "is not kept here, and no condition can ask for it" if failed else _NO_JSON[key]
        raise ExpressionError(f"`{key}` {why}", guidance)
    scope.promised.add(step)
    return f"${step}.json" + "".join(map(_part, (key, *keys)))


def _part(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if not re.match(_KEY, key):
        message = f"the key `{key[:60]}` cannot be named in a condition"
        raise ExpressionError(message, "Use letters, digits, `_` and `-`.")
    return f".{key}"
