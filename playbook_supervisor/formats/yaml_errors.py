"""What libyaml and PyYAML say of a text that does not parse, in an author's words."""

from __future__ import annotations

from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.records import Record


class _Complaint(Record):
    """Words of libyaml's or PyYAML's, what we say instead, the cure, and which place is meant."""

    needle: str
    message: str
    guidance: str
    at_context: bool


_QUOTE = "Put the text in quotes."
_COMPLAINTS = (
    _Complaint(
        "simple key",
        "this is neither `key: value` nor an item of a list",
        "Put `: ` behind the key, or quote the text.",
        at_context=True,
    ),
    _Complaint(
        "mapping values are not allowed",
        "a `:` too many, or a line that is indented wrongly",
        "Quote a text that holds `: `, or mend the indentation.",
        at_context=False,
    ),
    _Complaint(
        "end of stream", "this quotation mark is never closed", "Close it.", at_context=True
    ),
    _Complaint(
        "document indicator", "`---` or `...` stands within quotes", "Indent it.", at_context=False
    ),
    _Complaint(
        "document separator", "`---` or `...` stands within quotes", "Indent it.", at_context=False
    ),
    _Complaint(
        "escape",
        "this text in double quotes holds an escape that YAML does not know",
        r"Write `\\` for a backslash, or use single quotes.",
        at_context=False,
    ),
    _Complaint("an alias", "an unquoted text cannot begin with `*`", _QUOTE, at_context=True),
    _Complaint("an anchor", "an unquoted text cannot begin with `&`", _QUOTE, at_context=True),
    _Complaint("a tag", "an unquoted text cannot begin with `!`", _QUOTE, at_context=True),
    _Complaint(
        "cannot start any token",
        "an unquoted text cannot begin with `{found}`",
        _QUOTE,
        at_context=False,
    ),
    _Complaint(
        "block scalar",
        "behind `|` or `>` stands what does not belong there",
        "Begin the text in the next line.",
        at_context=False,
    ),
    _Complaint(
        "flow",
        "this bracket is not closed, or a `,` is missing behind it",
        "Mend what stands between the brackets.",
        at_context=True,
    ),
    _Complaint(
        "block",
        "this fits neither the list nor the mapping that it stands in",
        "Let what belongs together begin in one column, and quote a text as a whole.",
        at_context=False,
    ),
    _Complaint(
        "document start",
        "something stands behind the end of the document",
        "Take it out.",
        at_context=False,
    ),
)


CONFLICT = (
    "git has left a conflict here",
    "Keep one side or both, and take out the lines of `<`, `=` and `>`.",
)


def conflict_line(text: str) -> int:
    """The line, from 1, in which a conflict of git's begins; 0 where none is in the text."""
    begun = 0
    for number, line in enumerate(text.splitlines() if "<<<<<<< " in text else (), 1):
        if not begun and line.startswith("<<<<<<< "):
            begun = number
        elif begun and line.startswith(">>>>>>> "):
            return begun
    return 0


def mended(context: str, problem: str, found: str) -> tuple[str, str, bool]:
    """Message, cure, and whether the place is the context's rather than the problem's.

    `found` is the character at the problem's place.
    """
    said = f"{context}; {problem}"
    for complaint in _COMPLAINTS:
        if complaint.needle in said:
            message = complaint.message.replace("{found}", printable(found))
            return message, complaint.guidance, complaint.at_context
    return problem, "", False
