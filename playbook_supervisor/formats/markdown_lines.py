"""The lines of a Markdown text that say something: those outside code fences and comments."""

from __future__ import annotations

import re

_QUOTE = re.compile(r"[ ]{0,3}>[ ]?")
_DEEPEST = 1_000  # quotations in quotations
_FENCE = re.compile(r"[ ]{0,3}(?:(`{3,})[^`]*|(~{3,}).*)\Z", re.DOTALL)
_BEGIN, _END = "<!--", "-->"
_COMMENT = re.compile(r"<!--.*?-->")  # only before the last end, so that no search fails
Lines = list[tuple[int, str]]  # numbers, from 1, and texts of lines that are not blank


def visible_lines(text: str, first: int = 1, *, unquoted: bool = False) -> tuple[Lines, str]:
    """The lines of a text that begins at line `first`, and the fence or comment without an end.

    That is a phrase, as in "the code fence in line 3", or empty. It hides what follows, so the
    lines alone prove nothing then. `unquoted`: quotations are read, too, without their marks; a
    fence or comment must end before its quotation does.
    """
    shown: Lines = []
    unclosed = ""
    open_, depth, begun = "", 0, 0  # what ends the fence or comment, its depth and its line
    for number, line in enumerate(text.splitlines(), first):
        quoted, content = _unquoted(line, depth if open_ else _DEEPEST * unquoted)
        if open_ and quoted < depth:
            unclosed, open_ = unclosed or _name(open_, begun), ""
        mark = None if open_ == _END else _FENCE.match(content)
        if open_ and open_ != _END:
            closing = mark and (mark[1] or mark[2]).startswith(open_)
            open_ = "" if closing and not content.strip(" \t`~") else open_
        elif mark:
            open_, depth, begun = mark[1] or mark[2], quoted, number
        else:
            was_open = bool(open_)
            content, open_ = _uncommented(content, within=was_open)
            if open_ and not was_open:
                depth, begun = quoted, number
            if content.strip():
                shown.append((number, content))
    return shown, unclosed or (_name(open_, begun) if open_ else "")


def _name(end: str, line: int) -> str:
    return f"the {'comment' if end == _END else 'code fence'} in line {line}"


def _unquoted(line: str, most: int) -> tuple[int, str]:
    """The number of marks of quotation before a line, `most` at most, and the text after them."""
    found, at = 0, 0
    while found < most and (mark := _QUOTE.match(line, at)):
        found, at = found + 1, mark.end()
    return found, line[at:]


def _uncommented(content: str, *, within: bool) -> tuple[str, str]:
    """The text outside comments, and what ends the one that the line leaves open.

    Only at the beginning of a line does a comment go beyond its end.
    """
    if within:
        _, ended, content = content.partition(_END)
        if not ended:
            return "", _END
    last = content.rfind(_END) + len(_END) if _END in content else 0
    kept = _COMMENT.sub("", content[:last]) + content[last:]
    return ("", _END) if kept.lstrip().startswith(_BEGIN) else (kept, "")
