"""Typed values of a mapping from YAML or JSON.

A value of the wrong type raises `UnfitError`. A missing key and a key without a value are the
same. Unquoted text stays text, even if it looks like a number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self, TypeVar

from playbook_supervisor.formats.timestamps import from_time

_Word = TypeVar("_Word", bound=StrEnum)


def json_object(line: str) -> dict[str, Any]:
    """The object that a line is; empty if it is none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


class UnfitError(ValueError):
    """A value of a mapping is wrong; `key` says where, the message why."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key = key


class Fields:
    """The values of `mapping` by key. Strings are `str`, or `Plain` if unquoted in YAML."""

    def __init__(self, mapping: Mapping[str, object]) -> None:
        self._mapping = mapping

    def text(self, key: str) -> str:
        """A string, empty if there is none; an unquoted number or word is text as typed."""
        value = self._value(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise UnfitError(key, f"must be text, not {_shape(value)}")
        return str(value)

    def required(self, key: str) -> str:
        if not (text := self.text(key)):
            raise UnfitError(key, "is missing")
        return text

    def word(self, key: str, words: type[_Word]) -> _Word:
        text = self.required(key)
        try:
            return words(text)
        except ValueError:
            why = f"{text[:40]!r} is not one of {', '.join(words)}"
            raise UnfitError(key, why) from None

    def maybe_word(self, key: str, words: type[_Word]) -> _Word | None:
        return self.word(key, words) if self.text(key) else None

    def time(self, key: str) -> int:
        """Milliseconds since the epoch of an ISO 8601 time with its zone."""
        text = self.required(key)
        if (ms := from_time(text)) is None:
            raise UnfitError(key, f"{text[:40]!r} is not an ISO 8601 time with a zone")
        return ms

    def maybe_time(self, key: str) -> int | None:
        return self.time(key) if self.text(key) else None

    def integer(self, key: str, *, least: int | None = None) -> int:
        if (number := self.maybe_integer(key, least=least)) is None:
            raise UnfitError(key, "is missing")
        return number

    def maybe_integer(self, key: str, *, least: int | None = None) -> int | None:
        value = _typed(self._value(key))
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnfitError(key, f"must be a whole number, not {_shape(value)}")
        if least is not None and value < least:
            raise UnfitError(key, f"must be a whole number from {least}, not {value}")
        return value

    def maybe_decimal(self, key: str) -> float | None:
        value = _typed(self._value(key))
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnfitError(key, f"must be a number, not {_shape(value)}")
        return value

    def flag(self, key: str) -> bool:
        value = _typed(self._value(key))
        if value is None:
            return False
        if not isinstance(value, bool):
            raise UnfitError(key, f"must be true or false, not {_shape(value)}")
        return value

    def items(self, key: str) -> list[object]:
        value = self._value(key)
        if value is None or value == "":
            return []
        if not isinstance(value, list):
            raise UnfitError(key, f"must be a list, not {_shape(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        items = self.items(key)
        for item in items:
            if not isinstance(item, str):
                raise UnfitError(key, f"must be a list of text, not of {_shape(item)}")
        return tuple(map(str, items))

    def each(self, key: str) -> list[Self]:
        """The fields of each mapping in a list, empty if there is none."""
        fields: list[Self] = []
        for number, item in enumerate(self.items(key), 1):
            if not isinstance(item, Mapping):
                why = f"must have a mapping at position {number}, not {_shape(item)}"
                raise UnfitError(key, why)
            fields.append(type(self)(item))
        return fields

    def mapping(self, key: str) -> Mapping[str, object]:
        value = self._value(key)
        if value is None or value == "":
            return {}
        if not isinstance(value, Mapping):
            raise UnfitError(key, f"must be a mapping, not {_shape(value)}")
        return value

    def strings(self, key: str) -> dict[str, str]:
        """A mapping of strings; unquoted values are text as typed."""
        mapping = self.mapping(key)
        fields = Fields(mapping)
        try:
            return {name: fields.text(name) for name in mapping}
        except UnfitError as unfit:
            raise UnfitError(key, f"in it, {unfit}") from None

    def record(self, key: str) -> dict[str, str | int | float]:
        record: dict[str, str | int | float] = {}
        for name, value in self.mapping(key).items():
            typed = _typed(value)
            if isinstance(typed, (int, float)) and not isinstance(typed, bool):
                record[name] = typed
            elif isinstance(value, str):
                record[name] = str(value)
            else:
                raise UnfitError(key, f"must have text or a number for {name}, not {_shape(value)}")
        return record

    def _value(self, key: str) -> object:
        value = self._mapping.get(key)
        return None if _typed(value) is None else value


class JsonFields(Fields):
    """Fields of our own JSON, in which times are milliseconds."""

    def time(self, key: str) -> int:
        return self.integer(key)

    def maybe_time(self, key: str) -> int | None:
        return self.maybe_integer(key)


def _typed(value: object) -> object:
    """The value of an unquoted scalar by YAML 1.2's core schema; anything else unchanged."""
    return getattr(value, "value", value) if isinstance(value, str) else value


def _shape(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    return repr(value)[:40]
