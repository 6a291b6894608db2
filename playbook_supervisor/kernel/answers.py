"""A person's words → the resolution that they mean, or no answer.

The rule is narrow on purpose: a gate that reads "stop asking" as an abort, or "don't continue" as a
continue, is worse than a gate that asks again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.records import Record

WORDS_AT_PROMPT = 8
"""A longer message at an agent's prompt is conversation, never an answer."""

_SYNONYMS_OF = {
    Resolution.CONTINUE: (
        "yes",
        "y",
        "yep",
        "ok",
        "okay",
        "go",
        "go ahead",
        "proceed",
        "approve",
        "approved",
        "lgtm",
    ),
    Resolution.RETRY: ("again", "rerun"),
    Resolution.ACCEPT: ("waive", "override"),
    Resolution.ABORT: ("cancel", "stop", "quit"),
}
SYNONYMS = {word: resolution for resolution, words in _SYNONYMS_OF.items() for word in words}
"""Words that count only as the whole message."""

_REFUSALS = frozenset({"no", "n"})
_POLITE = r"\b(?:please|pls|thanks|thank you|thx|kindly)\b"
_WORD = r"\b(?:" + "|".join(Resolution) + r")\b"
_CLAUSE_END = r"[,;:.!\n\r\v\f\x1c-\x1e\x85\u2028\u2029]|(?<=\s)[-\u2013\u2014]+(?=\s)|\band\b"
_PUNCTUATION = " \t\xa0\"'`*()[]\u2018\u2019\u201c\u201d\u2026"


class ParsedAnswer(Record):
    """A resolution, or a question to ask back, or neither."""

    resolution: Resolution | None = None
    question: str = ""


def read_answer(
    text: str, choices: Sequence[Resolution], *, typed_at_prompt: bool = False
) -> ParsedAnswer:
    """The resolution that `text` means at a gate that offers `choices` (kai FR26, FR38).

    `typed_at_prompt`: the text was typed at an agent's prompt, where most messages are not meant
    for the gate. An empty text is no answer; a terminal may read an empty line as `continue`.
    """
    said = text.casefold()
    if typed_at_prompt and ("?" in said or len(said.split()) > WORDS_AT_PROMPT):
        return ParsedAnswer()
    clauses = [clause for part in re.split(_CLAUSE_END, said) if (clause := _strip(part))]
    resolution = _resolution(said, clauses)
    if resolution is not None:
        return ParsedAnswer(resolution) if resolution in choices else ParsedAnswer()
    if len(clauses) == 1 and clauses[0] in _REFUSALS:
        return ParsedAnswer(question=_question(choices))
    return ParsedAnswer()


def _resolution(said: str, clauses: Sequence[str]) -> Resolution | None:
    named = set(re.findall(_WORD, said))
    if len(named) > 1:
        return None
    if named:
        (word,) = named
        return Resolution(word) if word in (clauses[0], clauses[-1]) else None
    return SYNONYMS.get(clauses[0]) if len(clauses) == 1 else None


def _strip(clause: str) -> str:
    return " ".join(re.sub(_POLITE, " ", clause).split()).strip(_PUNCTUATION)


def _question(choices: Sequence[Resolution]) -> str:
    if Resolution.SKIP in choices:
        return "Skip this step, or abort the run?"
    others = ", ".join(choice for choice in choices if choice is not Resolution.ABORT)
    return f"Abort the run, or one of these: {others}?"
