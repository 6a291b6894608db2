"""The `when` of a step: whether it runs, from an arg or from earlier steps.

A fixed little grammar, without `and`, `or`, calls and arithmetic:

    $review.approved
    !$review.skipped
    $build.json.ok
    $build.json.items[0].name == "x"        also != and numbers, true, false, null
    $scope == "full"                        an arg, by its type
    $sort.failed                            also `$sort.done`
    $task.kind == "bug"                     the item of a loop, in `where`
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn

from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.state import DATA
from playbook_supervisor.records import Record

Literal = str | int | float | bool | None

JSON = "json"
ARG = "arg"  # the fact that is the value of an arg, whose name stands in place of a step's id
ITEM = "item"  # the fact that is the item of a loop, whose name stands in place of a step's id
FAILED = "failed"  # the attempts of a step that failed; an expression asks whether there are any
FACTS = ("approved", "skipped", "done", FAILED, JSON)
"""The facts about a step that an expression may ask for."""

# They are compiled when an expression is read: most playbooks have none.
_ARG = r"\$([a-z][a-z0-9_-]*)(?![A-Za-z0-9_.-])"
_STEP = r"\$([a-z0-9][a-z0-9-]*)\."
_FACT = f"({'|'.join(FACTS)})(?![A-Za-z0-9_-])"
_KEY = r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(0|[1-9][0-9]{0,5})\]"
_OPERATOR = r"[ \t]*(==|!=)[ \t]*"
_LITERAL = (
    r'"(?:[^"\\]|\\.)*"|true\b|false\b|null\b|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?'
)
_LONGEST = 60  # characters of a value in the evidence

Facts = Callable[[str, str], object]
"""Step id and fact → `approved`, `skipped` and `done` as bool, `failed` as a list, `json` as
parsed; LookupError says why not.

With the name of an arg and the fact `arg`: its value, as bool, number or text. With that of a
loop's item and the fact `item`: the item.
"""


class WhenError(ValueError):
    """An expression outside the grammar; `column` counts from 1."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


class When(Record):
    """An expression. `operator` is empty if it stands for itself."""

    step: str
    fact: str
    path: tuple[str | int, ...]
    negated: bool
    operator: str
    literal: Literal
    reference: str


def parse(text: str, item: str = "") -> When:
    """The expression; with `item`, one about an item of that name. WhenError for anything outside
    the grammar."""
    start = len(text) - len(text.lstrip(" \t"))
    negated = text.startswith("!", start)
    at = begin = start + negated
    arg = re.compile(_ARG).match(text, at)
    if item:
        name, fact, path, at = _of_item(text, at, item)
    else:
        name, fact, path, at = (arg[1], ARG, (), arg.end()) if arg else _of_step(text, at)
    reference = text[begin:at]
    operator, literal, at = _comparison(text, at)
    if operator and (negated or fact not in (JSON, ARG, ITEM)):
        message = "write `!=`" if negated else f"`{fact}` is true or false: write it by itself"
        _fail(start if negated else begin, f"this cannot be compared: {message}")
    if text[at:].strip(" \t"):
        _fail(at, "the expression ends here; there is no `and`, `or` or arithmetic")
    return When(name, fact, path, negated, operator, literal, reference)


def look_up(reference: str, facts: Facts) -> object:
    """The value of a reference such as `$build.json.items`; LookupError says why there is none."""
    return _value(parse(reference), facts)


def evaluate(expression: str, facts: Facts, item: str = "") -> Probed:
    """The decision whether the step runs, with the value that decides; that of an item by `where`.

    What is missing, or neither true nor false where that is asked, is an error PB-STEP-DATA.
    """
    when, key = parse(expression, item), "where" if item else "when"
    try:
        value = _value(when, facts)
        value = bool(value) if when.fact == FAILED else value
        holds = _holds(when, value)
    except LookupError as missing:
        return Probed(key, Answer.ERROR, str(missing.args[0]), code=DATA)
    evidence = f"{when.reference} is {_shown(value)}"
    return Probed(key, Answer.HELD if holds else Answer.NOT_HELD, evidence)


def _of_step(text: str, at: int) -> tuple[str, str, tuple[str | int, ...], int]:
    step = re.compile(_STEP).match(text, at)
    if step is None:
        _fail(at, "a reference such as `$build.json.ok` is expected here")
    fact = re.compile(_FACT).match(text, step.end())
    if fact is None:
        _fail(step.end(), f"one of {', '.join(FACTS)} is expected here")
    path, at = _path(text, fact.end())
    if path and fact[0] != JSON:
        _fail(fact.end(), f"`{fact[0]}` is true or false and has no parts")
    return step[1], fact[0], path, at


def _of_item(text: str, at: int, item: str) -> tuple[str, str, tuple[str | int, ...], int]:
    found = re.compile(rf"\${re.escape(item)}(?![A-Za-z0-9_-])").match(text, at)
    if found is None:
        _fail(at, f"the item, `${item}` or a part of it, is expected here")
    path, end = _path(text, found.end())
    return item, ITEM, path, end


def _path(text: str, at: int) -> tuple[tuple[str | int, ...], int]:
    path: list[str | int] = []
    while key := re.compile(_KEY).match(text, at):
        path.append(key[1] if key[2] is None else int(key[2]))
        at = key.end()
    if text.startswith((".", "["), at):
        _fail(at, "a name such as `.verdict` or a number such as `[0]` is expected here")
    return tuple(path), at


def _comparison(text: str, at: int) -> tuple[str, Literal, int]:
    operator = re.compile(_OPERATOR).match(text, at)
    if operator is None:
        return "", None, at
    literal = re.compile(_LITERAL).match(text, operator.end())
    if literal is None:
        _fail(operator.end(), 'a value such as "x", 3, true or null is expected here')
    try:
        value: Literal = json.loads(literal[0])
    except ValueError:
        _fail(operator.end(), f"{literal[0]} is not a text as JSON writes it")
    return operator[1], value, literal.end()


def _fail(at: int, message: str) -> NoReturn:
    raise WhenError(at + 1, message)


def _value(when: When, facts: Facts) -> object:
    value = facts(when.step, when.fact)
    where = f"${when.step}" if when.fact in (ARG, ITEM) else f"${when.step}.{when.fact}"
    for key in when.path:
        part = f".{key}" if isinstance(key, str) else f"[{key}]"
        match value, key:
            case dict(), str() if key in value:
                value = value[key]
            case list(), int() if key < len(value):
                value = value[key]
            case _:
                raise LookupError(f"{where} has no `{part.removeprefix('.')}`")
        where += part
    return value


def _holds(when: When, value: object) -> bool:
    if when.operator:
        equal = isinstance(value, bool) == isinstance(when.literal, bool) and value == when.literal
        return equal if when.operator == "==" else not equal
    if value is True or value is False:
        return value is not when.negated
    raise LookupError(f"{when.reference} is {_shown(value)}, neither true nor false: compare it")


def _shown(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            text = json.dumps(value, ensure_ascii=False)
            return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
