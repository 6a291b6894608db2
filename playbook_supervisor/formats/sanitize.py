"""Makes untrusted text safe to show.

Files, agents, forges and arguments may contain terminal sequences that move the cursor, set the
clipboard or reverse the text. Everything that we print passes through here first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

# Compiled at their first use: plain text needs none of them.
# Every alternative ends at the next ESC or line end, so that the search stays linear.
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS …
    r"|\x1b[ -/]*[0-~]?"
)
_UNSEEN = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"
    r"\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
# Beyond these limits the search would take seconds.
_LONGEST_WORD = 100
_MOST_WORDS = 200


def printable(text: str, *, keep_newlines: bool = False) -> str:
    """The text without terminal sequences, control characters, bidi overrides and surrogates.

    Tabs become blanks; line breaks become `\\n`, or a blank unless `keep_newlines`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = re.sub(_SEQUENCE, "", text)
    if keep_newlines:
        text = re.sub(r"\r\n?", "\n", text).replace("\t", " ")
    else:
        text = re.sub(r"[\t\n\r]+", " ", text)
    return re.sub(_UNSEEN, "", text)


def first_line(text: str, limit: int = 200) -> str:
    """The first line with visible text, stripped; cut with … at `limit` characters."""
    for match in re.finditer(r"[^\r\n]+", text):
        if line := printable(match[0]).strip():
            return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
    return ""


def one_line(text: str, limit: int = 200) -> str:
    """The whole text on one line, cut with … at `limit` characters."""
    return first_line(" ".join(printable(text).split()), limit)


def shortened(text: str, limit: int) -> str:
    """A line of at most `limit` characters; a longer one loses its middle, for its end says how far
    a program is: `tests/test_x.py …. [ 86%]`."""
    if len(text) <= limit:
        return text
    tail = min(limit // 2, 12)
    return f"{text[: max(limit - tail - 1, 0)].rstrip()}…{text[len(text) - tail :]}"


def last_words(text: str, limit: int = 500) -> str:
    """The last lines with text, at most `limit` characters; a line that was cut begins with …."""
    kept: list[str] = []
    room = limit
    for line in reversed(re.split(r"[\r\n]+", text)):
        if not (shown := printable(line).strip()):
            continue
        if len(shown) > room:
            return "\n".join([f"…{shown[len(shown) - room + 1 :]}"] * (room > 1) + kept)
        kept.insert(0, shown)
        room -= len(shown) + 1
    return "\n".join(kept)


def last_line(text: str) -> str:
    """The last line with visible text, stripped; cut with … at 200 characters."""
    return first_line(last_words(text).rpartition("\n")[2])


def counted(number: int, word: str) -> str:
    """`1 step`, `8 steps`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def some(names: Sequence[str], most: int, limit: int = 80) -> str:
    """`a.py, b.py and 3 more`: the first `most` names, each cut at `limit` characters."""
    shown = ", ".join(first_line(name, limit) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def nearest(word: str, allowed: Iterable[str]) -> str:
    """The allowed word that is most similar; empty if none is similar."""
    if len(word) > _LONGEST_WORD:
        return ""
    from difflib import get_close_matches  # only for a word that is wrong

    spelled = {candidate.casefold(): candidate for candidate in islice(allowed, _MOST_WORDS)}
    near = get_close_matches(word.casefold(), spelled, n=1)
    return spelled[near[0]] if near else ""


def did_you_mean(word: str, allowed: Iterable[str], form: str = "{}") -> str:
    """ "Did you mean `plan`? ", for a guidance, or nothing. `form`: how it is written, `${}`."""
    near = nearest(word, allowed)
    return f"Did you mean `{form.format(near)}`? " if near else ""


def suggestion(word: str, allowed: Iterable[str]) -> str:
    """`; did you mean plan?`, for the end of a sentence; empty if no word is similar."""
    near = nearest(word, allowed)
    return f"; did you mean {near}?" if near else ""
