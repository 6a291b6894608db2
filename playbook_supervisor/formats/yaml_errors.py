"""Explains errors of libyaml and PyYAML to authors."""

from __future__ import annotations

from dataclasses import dataclass

from playbook_supervisor.formats.sanitize import printable


@dataclass(frozen=True, slots=True)
class _Explanation:
    """Our words for a parser's message that contains `words`.

    `at_context`: the place to correct is the context's, not the problem's.
    """

    words: str
    message: str
    guidance: str
    at_context: bool = False


_QUOTE = "Put the text in quotes."
_EXPLANATIONS = (
    _Explanation(
        "simple key",
        "this is neither `key: value` nor an item of a list",
        "Put `: ` after the key, or quote the text.",
        at_context=True,
    ),
    _Explanation(
        "mapping values are not allowed",
        "there is one `:` too many, or the line is indented wrongly",
        "Quote a text that contains `: `, or correct the indentation.",
    ),
    _Explanation(
        "end of stream", "this quotation mark is never closed", "Close it.", at_context=True
    ),
    _Explanation(
        "document indicator", "there is a `---` or `...` line within quotes", "Indent it."
    ),
    _Explanation(
        "document separator", "there is a `---` or `...` line within quotes", "Indent it."
    ),
    _Explanation(
        "escape",
        "this text in double quotes has an escape that YAML does not know",
        r"Write `\\` for a backslash, or use single quotes.",
    ),
    _Explanation("an alias", "an unquoted text cannot begin with `*`", _QUOTE, at_context=True),
    _Explanation("an anchor", "an unquoted text cannot begin with `&`", _QUOTE, at_context=True),
    _Explanation("a tag", "an unquoted text cannot begin with `!`", _QUOTE, at_context=True),
    _Explanation("cannot start any token", "an unquoted text cannot begin with `{found}`", _QUOTE),
    _Explanation(
        "block scalar",
        "there is unexpected text after `|` or `>`",
        "Begin the text on the next line.",
    ),
    _Explanation(
        "flow",
        "this bracket is not closed, or a `,` is missing after it",
        "Correct the text between the brackets.",
        at_context=True,
    ),
    _Explanation(
        "block",
        "this does not fit the list or mapping around it",
        "Align items that belong together, and quote a text as a whole.",
    ),
    _Explanation(
        "document start", "there is more text after the end of the document", "Remove it."
    ),
)


CONFLICT = (
    "git has left a conflict here",
    "Keep one side or both, and remove the lines of `<`, `=` and `>`.",
)


def conflict_line(text: str) -> int:
    """The line, from 1, on which a git conflict begins; 0 if there is none."""
    start = 0
    for number, line in enumerate(text.splitlines() if "<<<<<<< " in text else (), 1):
        if not start and line.startswith("<<<<<<< "):
            start = number
        elif start and line.startswith(">>>>>>> "):
            return start
    return 0


def explain(context: str, problem: str, found: str) -> tuple[str, str, bool]:
    """Message, guidance, and whether the place is the context's rather than the problem's.

    `found` is the character at the problem's place.
    """
    for each in _EXPLANATIONS:
        if each.words in f"{context}; {problem}":
            return each.message.replace("{found}", printable(found)), each.guidance, each.at_context
    return problem, "", False
