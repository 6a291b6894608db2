"""A person's words → the resolution that they mean, or no answer.

The rule is narrow on purpose: a gate that reads "stop asking" as an abort, or "don't continue" as a
continue, is worse than a gate that asks again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from playbook_supervisor.kernel.vocabulary import GateReason, Resolution
from playbook_supervisor.records import Record

WORDS_AT_PROMPT = 8  # a longer message at an agent's prompt is conversation, never an answer

_SYNONYMS_OF = {
    Resolution.CONTINUE: (
        *("yes", "y", "yep", "ok", "okay", "go", "go ahead", "proceed"),
        *("approve", "approved", "lgtm"),
    ),
    Resolution.RETRY: ("again", "rerun"),
    Resolution.ACCEPT: ("waive", "override"),
    Resolution.ABORT: ("cancel", "stop", "quit"),
}
SYNONYMS = {word: resolution for resolution, words in _SYNONYMS_OF.items() for word in words}
"""Words that count only as the whole message."""

_AT_PERMISSION = {
    **dict.fromkeys(_SYNONYMS_OF[Resolution.CONTINUE], Resolution.ALLOW),
    **dict.fromkeys(_SYNONYMS_OF[Resolution.ABORT], Resolution.ABORT),
    Resolution.CONTINUE: Resolution.ALLOW,
    "allow once": Resolution.ALLOW,
    "once": Resolution.ALLOW,
    "always allow": Resolution.ALWAYS,
    "allow always": Resolution.ALWAYS,
    "no": Resolution.DENY,
    "n": Resolution.DENY,
    "denied": Resolution.DENY,
}
"""Words that count as the whole message at a permission: after `no` the agent goes on without."""

_MEANINGS: dict[Resolution, str] = {
    Resolution.ANSWER: "tell the agent",
    Resolution.CONTINUE: "it is fixed: check again",
    Resolution.RETRY: "run the step again",
    Resolution.ACCEPT: "continue although it fails",
    Resolution.SKIP: "skip the step",
    Resolution.BACK: "run that step again, with this report and your words",
    Resolution.ABORT: "end the session",
    Resolution.ALLOW: "let the agent do it once",
    Resolution.ALWAYS: "let the agent do it in this session, and all that the rule allows",
    Resolution.DENY: "do not let the agent do it",
}
_MEANINGS_BY_REASON: dict[GateReason, dict[Resolution, str]] = {
    GateReason.GATE_ALWAYS: {Resolution.CONTINUE: "run the step now"},
    GateReason.APPROVAL: {Resolution.CONTINUE: "approve: run the step now"},
    GateReason.TOOLS: {Resolution.CONTINUE: "allow the tools in this session: run the step now"},
    GateReason.CHECKPOINT: {Resolution.CONTINUE: "go on"},
    GateReason.PRECONDITION_FAIL: {Resolution.ACCEPT: "run the step anyway"},
    GateReason.AGREEMENT_BREAKING: {
        Resolution.CONTINUE: "check again",
        Resolution.ACCEPT: "accept the breaking change and continue",
    },
    GateReason.WITNESSES: {
        Resolution.ACCEPT: "accept this change of the tests and check again",
        Resolution.CONTINUE: "check again",
    },
}
"""Choices with another meaning at a gate of that reason."""

_POLITE = r"\b(?:please|pls|thanks|thank you|thx|kindly)\b"
_BETWEEN_STEPS = (
    Resolution.CONTINUE,
    Resolution.RETRY,
    Resolution.ACCEPT,
    Resolution.SKIP,
    Resolution.ABORT,
)
_PERMISSION = (Resolution.ALLOW, Resolution.ALWAYS, Resolution.DENY, Resolution.ABORT)
_DENIAL = r"\s*(?:deny|denied|no|n)\b[\s,;:.!\u2013\u2014-]*"
_BACK_TO = r"back to ([a-z0-9][a-z0-9-]*)"
_BACK_FIRST = rf"\s*{_BACK_TO}(?=\s*(?:[,;:.!\n]|\Z| [-\u2013\u2014]+ | and\b))"
_BACK_LAST = rf"(?:[,;:.!\n]| [-\u2013\u2014]+ |\band)\s*{_BACK_TO}[.!]?\s*\Z"
_CLAUSE_END = r"[,;:.!\n\r\v\f\x1c-\x1e\x85\u2028\u2029]|(?<=\s)[-\u2013\u2014]+(?=\s)|\band\b"
_TAKE_SETTINGS = r"take (?:the )?(?:new )?settings( [0-9a-f]{7,64})?"
_PUNCTUATION = " \t\xa0\"'`*()[]\u2018\u2019\u201c\u201d\u2026"


def meanings_of(reason: GateReason) -> dict[Resolution, str]:
    """The meaning of each choice to a person at a gate of that reason."""
    return _MEANINGS | _MEANINGS_BY_REASON.get(reason, {})


class ParsedAnswer(Record):
    """A resolution, or a question to ask back, or neither.

    `settings`: the session is to run under the project's present settings from now on, those with
    this digest or, if it is empty, those that were shown.
    """

    resolution: Resolution | None = None
    question: str = ""
    settings: str | None = None


def read_answer(
    text: str, choices: Sequence[Resolution], *, typed_at_prompt: bool = False
) -> ParsedAnswer:
    """The resolution that `text` means at a gate that offers `choices`.

    `typed_at_prompt`: the text was typed at an agent's prompt, where most messages are not meant
    for the gate. An empty text is no answer; a terminal may read an empty line as `continue`.

    `take settings`, with or without a digest, is a clause beside a choice. Without a choice it
    means `continue`, where that checks again.

    A question of the agent is answered by any words but those that abort; at an agent's prompt they
    begin with `answer:`. A permission is denied by all that begins with `deny` or `no`: the rest is
    for the agent. So is what stands before or behind `back to STEP`, however long it is.
    """
    said = text.casefold()
    clauses = [clause for part in re.split(_CLAUSE_END, said) if (clause := _strip(part))]
    if Resolution.BACK in choices and (target_of(said) or _strip(said) == Resolution.BACK):
        names_another = {clauses[0], clauses[-1]} & {*_BETWEEN_STEPS}
        return ParsedAnswer(None if names_another else Resolution.BACK)
    if typed_at_prompt and ("?" in said or len(said.split()) > WORDS_AT_PROMPT):
        return ParsedAnswer()
    if Resolution.ANSWER in choices:
        return ParsedAnswer(_in_words(said, clauses, typed_at_prompt=typed_at_prompt))
    asked = Resolution.ALLOW in choices
    settings = _settings(clauses) if Resolution.CONTINUE in choices else None
    chosen = re.search(_any_of(_BETWEEN_STEPS), said)
    if asked:
        resolution = _permission(said, clauses)
    elif chosen:
        resolution = _named(_BETWEEN_STEPS, said, clauses)
    else:
        resolution = SYNONYMS.get(clauses[0]) if len(clauses) == 1 else None
    alone = settings is not None and not chosen
    if alone and Resolution.ACCEPT in choices and _settings([clauses[0], clauses[-1]]) is not None:
        resolution = Resolution.CONTINUE  # which checks again
    if resolution is not None:
        taken = settings if resolution is not Resolution.ABORT else None
        return ParsedAnswer(resolution, settings=taken) if resolution in choices else ParsedAnswer()
    if not asked and clauses in (["no"], ["n"]):
        return ParsedAnswer(question=_question(choices))
    return ParsedAnswer()


def target_of(text: str) -> str:
    """The step that an answer sends back to; empty if it names none."""
    said = text.casefold()
    found = re.match(_BACK_FIRST, said) or re.search(_BACK_LAST, said)
    return found[1] if found else ""


def words_of(text: str, resolution: Resolution) -> str:
    """The words of an answer besides its choice, for the agent: `deny: use pnpm` → `use pnpm`."""
    if resolution is Resolution.DENY:
        return re.sub(_DENIAL, "", text, count=1, flags=re.IGNORECASE).strip()
    if resolution is Resolution.ANSWER:
        return re.sub(r"\s*answer:", "", text, count=1, flags=re.IGNORECASE).strip()
    return ""


def _settings(clauses: Sequence[str]) -> str | None:
    """The digest of `take settings DIGEST`, empty without one; None if no clause says so."""
    taken = (re.fullmatch(_TAKE_SETTINGS, clause) for clause in clauses)
    return next(((found[1] or "").strip() for found in taken if found), None)


def _in_words(said: str, clauses: Sequence[str], *, typed_at_prompt: bool) -> Resolution | None:
    only = clauses[0] if len(clauses) == 1 else ""
    if Resolution.ABORT in (only, SYNONYMS.get(only)):
        return Resolution.ABORT
    if not said.strip() or (typed_at_prompt and not said.lstrip().startswith("answer:")):
        return None
    return Resolution.ANSWER


def _permission(said: str, clauses: Sequence[str]) -> Resolution | None:
    if len(clauses) == 1 and clauses[0] in _AT_PERMISSION:
        return _AT_PERMISSION[clauses[0]]
    if re.match(_DENIAL, said):
        return Resolution.DENY
    return _named(_PERMISSION, said, clauses)


def _named(words: Sequence[Resolution], said: str, clauses: Sequence[str]) -> Resolution | None:
    named = set(re.findall(_any_of(words), said))
    if len(named) != 1:
        return None
    (word,) = named
    return Resolution(word) if word in (clauses[0], clauses[-1]) else None


def _any_of(words: Sequence[Resolution]) -> str:
    return rf"\b(?:{'|'.join(words)})\b"


def _strip(clause: str) -> str:
    return " ".join(re.sub(_POLITE, " ", clause).split()).strip(_PUNCTUATION)


def _question(choices: Sequence[Resolution]) -> str:
    if Resolution.SKIP in choices:
        return "Skip this step, or abort the run?"
    others = ", ".join(choice for choice in choices if choice is not Resolution.ABORT)
    return f"Abort the run, or one of these: {others}?"
