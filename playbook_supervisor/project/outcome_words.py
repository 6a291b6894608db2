"""The words of a report that state an outcome: `PASS`, `PASS (2 failed)`, `PASS | FAIL`. Pure.

What is about an earlier run, or says that nothing failed, speaks against no PASS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from playbook_supervisor.formats.sanitize import first_line

PASS, FAIL, OPEN = "PASS", "FAIL", ""
"""Two outcomes, and a verdict that is left open; STALE is the third."""
EDGES = " \t_\"'"
"""What may stand around a word."""
CLAUSES = re.compile(r"[.;,()|\u00b7\u2013\u2014]|\s-\s")
LONGEST = 400
"""Characters of a line that are looked at for what speaks against it."""
NONE = frozenset({"0", "no", "none", "zero", "nothing", "never", "without", "not"})
PAST = re.compile(r"\b(?:previous(?:ly)?|former(?:ly)?|earlier|prior|past|older|history|log)\b")
"""Of a heading, a label or a clause that is about another run than the last."""

_WORDS = {"pass": PASS, "passed": PASS, "fail": FAIL, "failed": FAIL, "stale": "STALE"}
_WORD = r"(passed|pass|failed|fail|stale)"
_STATED = re.compile(rf"(\[?){_WORD}(?!\w|-\w)", re.IGNORECASE)
_TERMINATORS = ".,;:!-\u2013\u2014([{)]}"
_ANOTHER = re.compile(rf"[\W_]{{0,9}}(?:or\b)?[\W_]{{0,9}}{_WORD}\b|.{{0,400}}?\[{_WORD}\]")
_UNDECIDED = frozenset(
    {"blocked", "conditional", "expected", "no", "none", "not", "partial", "pending", "tbd", "todo"}
)
_SUBJECT = re.compile(r"([\w.]+(?:-[\w.]+){0,40}) (?:-|\u2013|\u2014) (.*)")
_FAILING = re.compile(r"\b(?:fail(?:s|ed|ing|ures?)?|not pass(?:ed)?)\b(?!-)\s?[:=]?\s?([0-9]*)")
_QUANTITY = re.compile(r"[0-9]+(?:\s?(?:/|of)\s?[0-9]+)?|\w+")
_SETTLED = re.compile(
    r"\b(?:was|were|had|before|last|first|fix(?:ed|es)?|mended|resolved|repaired|expected|should"
    r"|must|correctly|intended|non)\b|\u2192|->"
)
_UNSUCCESSFUL = re.compile(
    r"\W*(?:fail|failing|failure|error|errored|blocked|rejected|incomplete|broken|red"
    r"|not (?:ok|passed|successful|accepted))\W*",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\W*(?:blocked|conditional(?:ly)?|partial(?:ly)?|pending|tbd|todo)"
    r"(?: (?:on|until|review|approval|by|to|for)\b.*)?\W*",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(r"\w*")

Said = tuple[str, str]
"""An outcome, and what a person is shown of it."""


def stated(value: str, *, strict: bool = False) -> list[Said]:
    """What a value states, its verdict first: two things for `PASS (2 failed)`.

    `PASS or FAIL` is open. A PASS, and if it is `strict` each word, must be followed by
    punctuation, a dash, a bracket or nothing.
    """
    match = _STATED.match(value)
    if not match:
        return []
    word, rest = _WORDS[match[2].lower()], value[match.end() :].lstrip(EDGES)
    another = _ANOTHER.match(rest[: 2 * LONGEST].lower())
    if another and _WORDS[another[1] or another[2]] != word:
        return [(OPEN, quoted(value))]
    if match[1] and not rest.startswith("]"):
        return []
    if rest and rest[0] not in _TERMINATORS:
        tolerated = word != PASS and not strict and not _SETTLED.search(rest[:LONGEST])
        return [(word, word)] if tolerated else []
    if word != PASS:
        return [(word, word)]
    open_ = [each for each in CLAUSES.split(rest[:LONGEST]) if _CONDITION.fullmatch(each)]
    against = [
        *((FAIL, said) for said in failures(rest)),
        *((OPEN, quoted(each)) for each in open_),
    ]
    return [(word, word), *against]


def decided(value: str, *, titled: bool) -> list[Said]:
    """What the value of a verdict states; one in a title may follow its subject: `013-x — PASS`."""
    first = _word(value)
    if (found := stated(value)) or first in _UNDECIDED:
        return found or [(OPEN, quoted(value))]
    subject = _SUBJECT.fullmatch(value) if titled else None
    return stated(subject[2].strip(EDGES), strict=True) if subject else []


def failures(text: str, *, counted: bool = False) -> Iterator[str]:
    """The first clause that says that something failed: `2 tests failed`, not `0 failed`.

    `counted`: only one with a number, because others can be about what should fail.
    """
    for clause in CLAUSES.split(text[:LONGEST]):
        lowered = clause.casefold()
        if _SETTLED.search(lowered) or PAST.search(lowered):
            continue
        for found in _FAILING.finditer(lowered):
            before = _QUANTITY.findall(lowered[: found.start()])[-4:]
            amounts = [each for each in before if each[0].isdigit() or each in NONE]
            amount = (amounts or [found[1]])[-1]
            if not _is_none(amount) and (amount or not counted):
                yield quoted(clause)
                return


def unsuccessful(value: str) -> Iterator[str]:
    """What the value of an outcome says that is no success: `failing`, `10 passed, 2 failed`."""
    if _UNSUCCESSFUL.fullmatch(CLAUSES.split(value[:LONGEST], maxsplit=1)[0]):
        yield quoted(value)
    else:
        yield from failures(value, counted=True)


def is_settled(text: str) -> bool:
    """Whether a text says that what failed was mended, or should fail."""
    return _SETTLED.search(text[:LONGEST].casefold()) is not None


def is_none(value: str) -> bool:
    """Whether what failed is nothing: `none`, `0 of 9`, `n/a`, `-`."""
    word = _word(value.lstrip("( "))
    return _is_none(word) or word in ("", "n", "nil", "null", "all", "false")


def is_some(value: str) -> bool:
    """Whether a value begins with a number that is not 0, or says yes."""
    word = _word(value)
    return word in ("true", "yes") or (word[:1].isdigit() and not _is_none(word))


def quoted(value: str) -> str:
    """A value as a person is shown it."""
    return f"`{first_line(value.strip(), 40)}`"


def _word(value: str) -> str:
    match = _FIRST_WORD.match(value.casefold())
    return match[0] if match else ""


def _is_none(amount: str) -> bool:
    """Whether a quantity is nothing; an absent one is not."""
    number = re.match("[0-9]+", amount)
    return amount in NONE or (number is not None and not number[0].strip("0"))
