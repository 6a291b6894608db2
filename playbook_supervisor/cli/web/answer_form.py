"""The fields of a gate's form → the words of an answer, as typed; and what an answer led to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from playbook_supervisor.commands.inbox.answering import Recorded
from playbook_supervisor.commands.inbox.repository import Row
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.kernel.vocabulary import Resolution

Fields = Mapping[str, Sequence[str]]

_MOST_QUESTIONS = 16
SAID = {
    "resumed": "Your answer is recorded, and the session goes on.",
    "driven": "Your answer is recorded, and the runner goes on.",
    "client": "Your answer is recorded. Claude Code goes on at your next message there.",
    "recorded": "Your answer is recorded. To go on: `playbook resume`, or let the inbox do that "
    "(`inbox: {resume: true}` in the settings).",
    "ended": "Your answer is recorded, and the session has ended.",
    "fleet": "Your answer is recorded. A worker of the fleet journals it, and goes on.",
}
"""What an answer has led to, by the word in the address of the page that follows it."""


def text_of(fields: Fields) -> str:
    """`continue: looks good`; for questions of an agent a line each, with options by number.

    Empty if a question is left out. `stop` is the answer to a question, and does not abort.
    """
    choice = _first(fields, "choice")
    if choice != Resolution.ANSWER:
        words = " ".join(_first(fields, "words").split())
        return f"{choice}: {words}" if words else choice
    lines = [
        _reply(fields, number) for number in range(_MOST_QUESTIONS) if f"words-{number}" in fields
    ]
    if not (lines and all(lines)):
        return ""
    text = "\n".join(lines)
    said = read_answer(text, (Resolution.ANSWER, Resolution.ABORT)).resolution
    return text if said is Resolution.ANSWER else f"{Resolution.ANSWER}: {text}"


def typed_of(fields: Fields, questions: int) -> tuple[str, ...]:
    """The words that were typed, to show them again."""
    if not questions:
        return (_first(fields, "words"),)
    return tuple(_first(fields, f"words-{number}") for number in range(questions))


def chosen_of(fields: Fields, questions: int) -> tuple[tuple[str, ...], ...]:
    """The numbers of the options that were chosen, to show them again."""
    return tuple(tuple(fields.get(f"option-{number}", ())) for number in range(questions))


def refusal_of(error: PlaybookError, *, asked: int) -> str:
    """Why the answer was not taken, for a person who has pressed a button. `asked`: questions."""
    if error.code != "PB-ARG-ANSWER":
        return f"{error.message}. {error.guidance}".strip()
    if asked:
        return "That does not answer this gate: choose an option for each question, or write words."
    return (
        "That does not answer this gate: your words name another choice than the button. "
        "Leave that word out, or press its button."
    )


def after_answer(row: Row, answered: Recorded) -> str:
    """The word for what an answer has led to."""
    if isinstance(answered.snapshot.directive, Finish):
        return "ended"
    if answered.resumes:
        return "resumed"
    if row.seen.client is not None and row.seen.client.lives:
        return "client"
    return "driven" if row.seen.driver is not None else "recorded"


def _reply(fields: Fields, number: int) -> str:
    words = " ".join(_first(fields, f"words-{number}").split())
    chosen = [each for each in fields.get(f"option-{number}", ()) if re.fullmatch(r"[0-9]+", each)]
    return words or ", ".join(chosen)


def _first(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "")
