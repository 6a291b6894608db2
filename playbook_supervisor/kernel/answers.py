"""A person's words → a resolution, or no answer at all.

The rule is narrow on purpose: a gate that takes "stop asking" for an abort, or "don't continue" for
a continue, is worse than one that asks again. Nothing here knows which gate is open but for the
choices that it offers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.records import Record

WORDS_AT_PROMPT = 8
"""More words than these, typed at an agent's prompt, are talk and never an answer."""

SYNONYMS: dict[str, Resolution] = {
    "yes": Resolution.CONTINUE,
    "y": Resolution.CONTINUE,
    "yep": Resolution.CONTINUE,
    "ok": Resolution.CONTINUE,
    "okay": Resolution.CONTINUE,
    "go": Resolution.CONTINUE,
    "go ahead": Resolution.CONTINUE,
    "proceed": Resolution.CONTINUE,
    "approve": Resolution.CONTINUE,
    "approved": Resolution.CONTINUE,
    "lgtm": Resolution.CONTINUE,
    "again": Resolution.RETRY,
    "rerun": Resolution.RETRY,
    "waive": Resolution.ACCEPT,
    "override": Resolution.ACCEPT,
    "cancel": Resolution.ABORT,
    "stop": Resolution.ABORT,
    "quit": Resolution.ABORT,
}
"""What counts as the whole message only."""

_REFUSALS = frozenset({"no", "n"})
_POLITE = r"\b(?:please|pls|thanks|thank you|thx|kindly)\b"
_WORD = r"\b(?:" + "|".join(Resolution) + r")\b"
_PARTING = r"[,;:.!\n\r\v\f\x1c-\x1e\x85\u2028\u2029]|(?<=\s)[-\u2013\u2014]+(?=\s)|\band\b"
_DRESSING = " \t\xa0\"'`*()[]\u2018\u2019\u201c\u201d\u2026"


class ParsedAnswer(Record):
    """What was understood: a resolution, or a question to ask back, or neither."""

    resolution: Resolution | None = None
    question: str = ""


def read_answer(
    text: str, choices: Sequence[Resolution], *, typed_at_prompt: bool = False
) -> ParsedAnswer:
    """The resolution that `text` means at a gate that offers `choices` (kai FR26, FR38).

    `typed_at_prompt`: the text was typed at an agent's prompt, where most of what a person says is
    not meant for the gate. An empty text is no answer; whether an empty *line* means `continue` is
    the terminal's business.
    """
    said = text.casefold()
    if typed_at_prompt and ("?" in said or len(said.split()) > WORDS_AT_PROMPT):
        return ParsedAnswer()
    clauses = [clause for part in re.split(_PARTING, said) if (clause := _bare(part))]
    meant = _meant(said, clauses)
    if meant is not None:
        return ParsedAnswer(meant) if meant in choices else ParsedAnswer()
    if len(clauses) == 1 and clauses[0] in _REFUSALS:
        return ParsedAnswer(question=_ask_back(choices))
    return ParsedAnswer()


def _meant(said: str, clauses: Sequence[str]) -> Resolution | None:
    named = set(re.findall(_WORD, said))
    if len(named) > 1:
        return None
    if named:
        (word,) = named
        return Resolution(word) if word in (clauses[0], clauses[-1]) else None
    return SYNONYMS.get(clauses[0]) if len(clauses) == 1 else None


def _bare(clause: str) -> str:
    """The clause without politeness, quotation marks and spare blanks."""
    return " ".join(re.sub(_POLITE, " ", clause).split()).strip(_DRESSING)


def _ask_back(choices: Sequence[Resolution]) -> str:
    if Resolution.SKIP in choices:
        return "Skip this step, or abort the run?"
    others = ", ".join(choice for choice in choices if choice is not Resolution.ABORT)
    return f"Abort the run, or else: {others}?"
