"""The expressions of GitHub Actions, as far as the examples use them.

What is unknown here fails: an expression that a test does not understand proves nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(r"\s*(?:(&&|\|\||==|!=|[(),!])|('(?:[^']|'')*')|(\d+)|([A-Za-z_][\w.-]*))")
_PLACE = re.compile(r"\$\{\{(.*?)\}\}")

Function = Callable[..., Any]


def value(expression: str, context: Mapping[str, Any], **functions: Function) -> Any:
    """The value of an expression. What the context does not have is None, as there."""
    return _Reader(expression, context, {**_FUNCTIONS, **functions}).whole()


def filled(text: str, context: Mapping[str, Any], **functions: Function) -> Any:
    """The text with the values of its `${{ }}`; a text that is one expression keeps its type."""
    if whole := re.fullmatch(_PLACE, text):
        return value(whole[1], context, **functions)
    return re.sub(_PLACE, lambda found: as_text(value(found[1], context, **functions)), text)


def as_text(found: Any) -> str:
    if isinstance(found, bool):
        return str(found).lower()
    return "" if found is None else str(found)


def _equal(left: Any, right: Any) -> bool:
    """Texts are compared without regard to case, and values of two types as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return left.casefold() == right.casefold()
    return left == right if type(left) is type(right) else _number(left) == _number(right)


def _number(found: Any) -> float:
    try:
        return float(found or 0)
    except ValueError:
        return float("nan")


def _contains(where: Any, what: str) -> bool:
    if isinstance(where, list):
        return any(_equal(each, what) for each in where)
    return what.casefold() in as_text(where).casefold()


_FUNCTIONS: dict[str, Function] = {
    "contains": _contains,
    "fromJSON": json.loads,
    "startsWith": lambda text, start: (
        as_text(text).casefold().startswith(as_text(start).casefold())
    ),
}


class _Reader:
    """Reads and evaluates at the same time; both sides of `&&` and `||` are evaluated."""

    def __init__(
        self, expression: str, context: Mapping[str, Any], functions: Mapping[str, Function]
    ) -> None:
        self.context, self.functions = context, functions
        self.tokens: list[str] = []
        at, text = 0, expression.strip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            assert found, f"unknown at {at}: {expression}"
            self.tokens.append(found[0].strip())
            at = found.end()

    def whole(self) -> Any:
        found = self._either()
        assert not self.tokens, f"unread: {self.tokens}"
        return found

    def _either(self) -> Any:
        found = self._both()
        while self._next("||"):
            other = self._both()
            found = found or other
        return found

    def _both(self) -> Any:
        found = self._compared()
        while self._next("&&"):
            other = self._compared()
            found = found and other
        return found

    def _compared(self) -> Any:
        found = self._single()
        if self._next("=="):
            return _equal(found, self._single())
        return not _equal(found, self._single()) if self._next("!=") else found

    def _single(self) -> Any:
        token = self.tokens.pop(0)
        if token == "!":
            return not self._single()
        if token == "(":
            found = self._either()
            assert self._next(")")
            return found
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.isdecimal():
            return int(token)
        return self._call(token) if self._next("(") else self._known(token)

    def _call(self, name: str) -> Any:
        arguments = []
        while not self._next(")"):
            arguments.append(self._either())
            self._next(",")
        return self.functions[name](*arguments)

    def _known(self, path: str) -> Any:
        found: Any = self.context
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _next(self, token: str) -> bool:
        if self.tokens[:1] == [token]:
            del self.tokens[0]
            return True
        return False
