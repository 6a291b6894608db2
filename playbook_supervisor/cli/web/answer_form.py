"""The fields of a gate's form → the words of an answer, as a person would type them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from playbook_supervisor.kernel.vocabulary import Resolution

Fields = Mapping[str, Sequence[str]]

_MOST_QUESTIONS = 16


def text_of(fields: Fields) -> str:
    """`continue: looks good`; for questions of an agent a line each, with options by number."""
    choice = _first(fields, "choice")
    if choice != Resolution.ANSWER:
        words = " ".join(_first(fields, "words").split())
        return f"{choice}: {words}" if words else choice
    lines = [_reply(fields, number) for number in range(_MOST_QUESTIONS) if _asks(fields, number)]
    return "\n".join(lines) if all(lines) else ""


def typed_of(fields: Fields, questions: int) -> tuple[str, ...]:
    """The words that were typed, to show them again."""
    if not questions:
        return (_first(fields, "words"),)
    return tuple(_first(fields, f"words-{number}") for number in range(questions))


def _asks(fields: Fields, number: int) -> bool:
    return f"words-{number}" in fields


def _reply(fields: Fields, number: int) -> str:
    words = " ".join(_first(fields, f"words-{number}").split())
    chosen = [each for each in fields.get(f"option-{number}", ()) if re.fullmatch(r"[0-9]+", each)]
    return words or ", ".join(chosen)


def _first(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "")
