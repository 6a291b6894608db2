"""Strict reading of a mapping that a person wrote: every problem is reported with its position.

A missing or invalid value reads as its default, so that reading always continues.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, TypeVar

from playbook_supervisor.formats.located import Data, Document, Path
from playbook_supervisor.formats.problems import MAX_PROBLEMS, Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean, first_line, printable

Word = TypeVar("Word", bound=str)
Number = TypeVar("Number", bound=float | None)


class Problems:
    """Collects up to MAX_PROBLEMS of a document; `guidance` is for those without their own."""

    def __init__(self, document: Document, code: str, guidance: str) -> None:
        self._document, self._code, self._guidance = document, code, guidance
        self._found: list[Problem] = []

    def add(self, path: Path, text: str, guidance: str = "", *, key: bool = False) -> None:
        if len(self._found) < MAX_PROBLEMS:
            name = ".".join(first_line(part, 60) for part in path if isinstance(part, str))
            message = f"{name}: {text}" if name else text
            guidance = guidance or self._guidance
            problem = problem_at(self._document, path, self._code, message, guidance, key=key)
            self._found.append(problem)

    def found(self) -> tuple[Problem, ...]:
        return tuple(sorted(self._found, key=lambda each: each.position))


class Section:
    """One mapping. `keys` are the known ones; without them the author chooses the keys."""

    def __init__(
        self, problems: Problems, data: Data, path: Path, keys: Sequence[str] = ()
    ) -> None:
        self._problems, self._path = problems, path
        self._data: dict[str, Data] = data if isinstance(data, dict) else {}
        if not isinstance(data, dict) and not is_empty(data):
            problems.add(path, "must be a mapping of keys to values")
        for key in self._data:
            if keys and key not in keys:
                hint = did_you_mean(key, keys).strip() or f"Known keys: {', '.join(keys)}."
                self.report(key, "unknown key", hint, at_key=True)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._data)

    def report(self, key: str, text: str, cure: str = "", *, at_key: bool = False) -> None:
        self._problems.add((*self._path, key), text, cure, key=at_key)

    def names(self, form: str, what: str) -> list[str]:
        """The keys that match `form`, of a mapping whose author chooses the keys."""
        for name in self._data:
            if not re.match(form, name):
                self.report(name, f"is not {what}", at_key=True)
        return [name for name in self._data if re.match(form, name)]

    def is_text(self, key: str) -> bool:
        return isinstance(self._data.get(key), str)

    def section(self, key: str, keys: Sequence[str] = ()) -> Section:
        return Section(self._problems, self._data.get(key, {}), (*self._path, key), keys)

    def line(self, key: str, default: str) -> str:
        if key not in self._data:
            return default
        return self._line(self._data[key], (*self._path, key)) or default

    def lines(self, key: str) -> tuple[str, ...] | None:
        """A list of one-line strings; None if the key is absent."""
        if key not in self._data:
            return None
        items, path = self._data[key], (*self._path, key)
        if not isinstance(items, list):
            self.report(key, "must be a list of strings (`[]` for none)")
            return None
        return tuple(self._line(item, (*path, index)) for index, item in enumerate(items))

    def argv(self, key: str, *, needed: bool = False) -> tuple[str, ...]:
        """A program and its arguments, one string each; there is no shell."""
        argv = self.lines(key)
        if needed and not argv and (argv is not None or key not in self._data):
            self.report(key, "is missing: a list, the program first, then its arguments")
        return argv or ()

    def argvs(self, key: str) -> tuple[tuple[str, ...], ...]:
        """A program and its arguments, or a list of such programs."""
        items, path = self._data.get(key), (*self._path, key)
        if not (
            isinstance(items, list) and items and all(isinstance(each, list) for each in items)
        ):
            return (argv,) if (argv := self.argv(key)) else ()
        return tuple(
            tuple(self._line(word, (*path, number, at)) for at, word in enumerate(each))
            for number, each in enumerate(items)
        )

    def words(self, key: str) -> tuple[str, ...]:
        """A one-line string, or a list of them; () if the key is absent."""
        if isinstance(self._data.get(key), list):
            return self.lines(key) or ()
        return tuple(filter(None, [self.line(key, "")]))

    def switch(self, key: str, *, default: bool) -> bool:
        if key not in self._data:
            return default
        value = getattr(self._data[key], "value", None)  # only unquoted scalars have it
        if not isinstance(value, bool):
            self.report(key, "must be true or false, without quotes")
            return default
        return value

    def seconds(self, key: str, default: float) -> float:
        return self.above_zero(key, default, "a number of seconds")

    def above_zero(self, key: str, default: Number, what: str, *, whole: bool = False) -> Number:
        """A positive number, an integer if `whole`; a problem calls it `what`."""
        if key not in self._data:
            return default
        value: Any = getattr(self._data[key], "value", None)  # only unquoted scalars have it
        kinds = {int} if whole else {int, float}
        if type(value) not in kinds or not 0 < value < float("inf"):
            self.report(key, f"must be {what} above 0, without quotes")
            return default
        number: Number = value
        return number

    def choice(self, key: str, allowed: Sequence[Word], default: Word) -> Word:
        return self.maybe(key, allowed) or default

    def maybe(self, key: str, allowed: Sequence[Word]) -> Word | None:
        """One of the allowed words; None if the key is absent."""
        text = self.line(key, "")
        word = next((word for word in allowed if word == text), None)
        if text and word is None:
            hint = did_you_mean(text, allowed).strip()
            self.report(key, f"must be one of {', '.join(allowed)}", hint)
        return word

    def folder(self, key: str, default: str) -> str:
        """A folder inside the repository, without a trailing slash."""
        text = self.line(key, default)
        path = PurePosixPath(text)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            self.report(key, "must be a folder inside the repository")
        return str(path)

    def _line(self, data: Data, path: Path) -> str:
        if not isinstance(data, str):
            self._problems.add(path, "must be a string")
        elif is_empty(data) or not data.strip():
            self._problems.add(path, "is empty", "Give it a value, or remove the key.")
        elif printable(data) != data:
            self._problems.add(path, "must be one line without control characters")
        else:
            return str(data)
        return ""


def is_empty(data: Data) -> bool:
    """True if the value is missing or `null`."""
    return getattr(data, "value", data) is None
