"""Patterns of paths, relative to the repository: `src/**`, `docs/*.md`, `**/test_?.py`. Pure.

`*` and `?` stay within one part of a path, `**` is any number of parts, and a folder with a slash
at its end is all that is in it. Every other character means itself. The time is bounded by the
lengths multiplied, whatever the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

Item = TypeVar("Item")

_ANY_PARTS = "**"


def matches(pattern: str, path: str) -> bool:
    """True if the path is one of those that the pattern means."""
    return _fits(_parts(pattern), path.split("/"), _ANY_PARTS, _part_matches)


@lru_cache(maxsize=1_000)
def _parts(pattern: str) -> tuple[str, ...]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.endswith("/") or not parts:
        parts.append(_ANY_PARTS)
    if parts[-1] == _ANY_PARTS:
        parts.append("*")  # all that is in a folder, not the folder
    return tuple(parts)


def matches_any(patterns: Iterable[str], path: str) -> bool:
    """True if one of the patterns means the path."""
    return any(matches(pattern, path) for pattern in patterns)


def flaw(path: str) -> str:
    """Why a path or a pattern of paths cannot be one of the repository; empty if it can."""
    if not path.strip():
        return "is empty"
    if path.startswith(("/", "~")):
        return "is not relative to the repository"
    if ".." in path.split("/"):
        return "leads out of the repository"
    return "" if path.isprintable() else "contains a control character"


def _part_matches(pattern: str, part: str) -> bool:
    before, star, after = pattern.partition("*")
    if "?" not in pattern and "*" not in after:  # most patterns
        fits = part.startswith(before) and part.endswith(after)
        return fits and len(part) >= len(before) + len(after) if star else part == pattern
    return _fits(pattern, part, "*", lambda wanted, found: wanted in ("?", found))


def _fits(
    pattern: Sequence[Item],
    items: Sequence[Item],
    star: Item,
    same: Callable[[Item, Item], bool],
) -> bool:
    """True if the items fit, where a star is any number of them.

    Only the last star is tried again: what an earlier one took less could be taken by this one.
    """
    at = done = 0
    retry: tuple[int, int] | None = None  # behind the last star, and the first item not its own
    while done < len(items):
        if at < len(pattern) and pattern[at] == star:
            at += 1
            retry = at, done
        elif at < len(pattern) and same(pattern[at], items[done]):
            at, done = at + 1, done + 1
        elif retry is not None:
            at, done = retry[0], retry[1] + 1
            retry = at, done
        else:
            return False
    return all(each == star for each in pattern[at:])
