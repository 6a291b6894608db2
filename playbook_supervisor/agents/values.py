"""Values in the JSON that an agent tells: what is missing or of another type is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]


def mapping(value: object, *keys: str) -> Object:
    """The object at that place, or an empty one."""
    found = _at(value, keys)
    return found if isinstance(found, dict) else {}


def text(value: object, *keys: str) -> str:
    """The string at that place, or an empty one."""
    found = _at(value, keys)
    return found if isinstance(found, str) else ""


def objects(value: object, *keys: str) -> list[Object]:
    """The objects of the list at that place."""
    found = _at(value, keys)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _at(value: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
