"""Reads the expressions of spec-kit's workflow files.

    {{ inputs.kind == 'bug' and not steps.build.output.ok }}
    {{ steps.list.output.files | join(', ') }}

From the loosest to the tightest: `or`, `and`, `not`, one comparison, filters, values. Text outside
the grammar is an error at its column: nothing is guessed, and no expression is read in part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn, TypeAlias

    Value = str | int | float | bool | None

MAX_CHARACTERS = 2_000
MAX_DEPTH = 40
"""Limits of one expression, so that a hostile file costs nothing."""

_BLANK = r"\s*"
_LEXEME = r"""(?x)
    (?P<text>    '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
  | (?P<number>  -?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?![A-Za-z0-9_.]) )
  | (?P<name>    [A-Za-z_][A-Za-z0-9_-]* )
  | (?P<sign>    \}\} | == | != | <= | >= | [<>|()\[\],.] )
"""
_END = "}}"
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_WORDS = ("and", "or", "not", "in")
_CONSTANTS: dict[str, Value] = {
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
    **dict.fromkeys(("none", "None", "null"), None),
}


class ExpressionError(ValueError):
    """Text outside the grammar; `column` counts from 1."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, true, false or none."""

    value: Value


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of expressions."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a dotted name refers to: `("steps", "plan", "output", "files", 0)`."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of an expression."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Both:
    """Two expressions joined by `operator`: `and` or `or`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared by `operator`: `==`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `not in`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Filtered:
    """A value that goes through a filter."""

    operand: Expression
    name: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = "Literal | ListOf | Reference | Not | Both | Comparison | Filtered"


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
        raise ExpressionError(1, "one expression is expected, with everything inside its `{{ }}`")
    return parts[0]


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, text: str, at: int) -> None:
        self._text, self._begin, self._at, self._depth = text, at, at, 0
        self._kind = self._token = ""
        self._advance()

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"this is nested deeper than {MAX_DEPTH} levels")
        left = self._conjunction()
        while self._takes("or"):
            left = Both("or", left, self._conjunction())
        self._depth -= 1
        return left

    def end(self) -> int:
        """The offset behind the closing braces."""
        if self._token != _END:
            self._fail(f"`{self._token[:40]}` is not expected here")
        return self._at

    def _conjunction(self) -> Expression:
        left = self._negation()
        while self._takes("and"):
            left = Both("and", left, self._negation())
        return left

    def _negation(self) -> Expression:
        negations = 0
        while self._takes("not"):
            negations += 1
        expression = self._comparison()
        return Not(expression) if negations % 2 else expression

    def _comparison(self) -> Expression:
        left = self._filtered()
        if (operator := self._operator()) is None:
            return left
        right = self._filtered()
        if self._operator() is not None:
            self._fail("comparisons cannot be chained: join them with `and`")
        return Comparison(operator, left, right)

    def _operator(self) -> str | None:
        for operator in (*_COMPARISONS, "in"):
            if self._takes(operator):
                return operator
        if self._takes("not"):
            self._expect("in")
            return "not in"
        return None

    def _filtered(self) -> Expression:
        value = self._value()
        while self._takes("|"):
            name = self._name("the name of a filter")
            arguments = self._list(")") if self._takes("(") else ()
            value = Filtered(value, name, arguments)
        return value

    def _value(self) -> Expression:
        kind, token = self._kind, self._token
        if kind in ("text", "number"):
            self._advance()
            number = float if "." in token else int
            return Literal(_text(token) if kind == "text" else number(token))
        if self._takes("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._takes("["):
            return ListOf(self._list("]"))
        name = self._name("a value")
        return Literal(_CONSTANTS[name]) if name in _CONSTANTS else self._reference(name)

    def _reference(self, name: str) -> Reference:
        parts: list[str | int] = [name]
        while True:
            if self._takes("."):
                parts.append(self._name("a name"))
            elif self._takes("["):
                parts.append(self._key())
                self._expect("]")
            else:
                return Reference(tuple(parts))

    def _key(self) -> str | int:
        kind, token = self._kind, self._token
        if kind != "text" and not token.isdigit():
            self._fail("a number or a text is expected in the brackets")
        self._advance()
        return _text(token) if kind == "text" else int(token)

    def _list(self, end: str) -> tuple[Expression, ...]:
        items: list[Expression] = []
        while not self._takes(end):
            if items:
                self._expect(",")
            items.append(self.expression())
        return tuple(items)

    def _name(self, wanted: str) -> str:
        if self._kind != "name" or self._token in _WORDS:
            self._fail(f"{wanted} is expected here")
        name = self._token
        self._advance()
        return name

    def _takes(self, token: str) -> bool:
        if self._token != token or self._kind not in ("sign", "name"):
            return False
        self._advance()
        return True

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            self._fail(f"`{token}` is expected here")

    def _advance(self) -> None:
        if self._token == _END:
            return
        blank = re.compile(_BLANK).match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        if self._at - self._begin > MAX_CHARACTERS:
            self._fail(f"an expression has at most {MAX_CHARACTERS:,} characters")
        token = re.compile(_LEXEME).match(self._text, self._at)
        if token is None:
            self._token, ended = "", self._at >= len(self._text)
            self._fail("`}}` is missing" if ended else "this is no expression")
        self._kind, self._token, self._at = token.lastgroup or "", token[0], token.end()

    def _fail(self, message: str) -> NoReturn:
        raise ExpressionError(self._at - len(self._token) + 1, message)


def _text(token: str) -> str:
    escapes = {"n": "\n", "t": "\t"}
    return re.sub(r"(?s)\\(.)", lambda found: escapes.get(found[1], found[1]), token[1:-1])
