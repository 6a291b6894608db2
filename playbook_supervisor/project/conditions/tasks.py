"""Reads a list of tasks in Markdown: `- [ ] T001 Do this`. Pure.

Whatever a person reads as a box makes a task of its line, and only `[x]` is done: a box whose shape
is not known here must not leave the count. Links, footnotes and tags such as `[P]` are no boxes.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from playbook_supervisor.formats.markdown_lines import visible_lines

_MARKER = re.compile(
    r"\s*(?:>|(?:[-*+\u2022\u2013\u2014]|[0-9]{1,9}[.)]|[A-Za-z][.)])(?=[^\w*`]|\Z))"
)
_DRESSING = " \t*_~`"
_BOX = re.compile(r"\[(\s{0,99})([^\[\]]{0,24}?)(\s{0,99})\](.*)\Z", re.DOTALL)
_OTHER_BOX = re.compile(r"\[[xX~-]?\s[^\[\]]*\Z|\(\s*[xX]?\s*\)(?=\s|\Z)")
_DEFINITION = re.compile(r":\s*\S+(?:\s+[\"'(].*)?\Z")
_STATUS = re.compile(
    r"wip|todo|to do|open|doing|done|started|in progress|pending|waiting|blocked|skip(?:ped)?"
    r"|deferred|dropped|partial(?:ly)?(?: done)?|half|not (?:done|started)|n/?a|tbd|next|later"
)
_LATER = re.compile(r"(?<![\w\]])\[(?:\s+|[xX~-])\](?=[\s.,;)*]|\Z)|[\u2610\u2612]")
_CHECKBOX = re.compile(r"<input\b[^>]{0,200}\bcheckbox\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`]{1,200}`")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]|\\\\(?=[\\[\\]])")
_PLAIN = {
    **dict.fromkeys(map(ord, "\uff3b\u3010\u3014\u27e6\u301a"), "["),
    **dict.fromkeys(map(ord, "\uff3d\u3011\u3015\u27e7\u301b"), "]"),
    ord("\uff08"): "(",
    ord("\uff09"): ")",
}
_BOXES = r"BALLOT|CROSS MARK|WHITE .{0,9}SQUARE|SQUARE BUTTON"
_SIGNS = re.compile(rf"{_BOXES}|CHECK MARK")
_SIGNS_ELSEWHERE = re.compile(_BOXES)  # a tick there is about something else, too
_MOST = 99  # markers and cells of a line


@dataclass(frozen=True, slots=True)
class Task:
    """One task; lines count from 1."""

    text: str
    done: bool
    line: int


@dataclass(frozen=True, slots=True)
class _Found:
    """The box at the beginning of a text; `done` is None for a word that can also be a tag."""

    done: bool | None
    text: str


def read_tasks(text: str) -> tuple[tuple[Task, ...], str]:
    """The tasks in order, and the code fence or comment that has no end, or "".

    A word in brackets that is no status, as in `- [US1] …`, is a box only among boxes: where
    another item under the same heading has one.
    """
    lines, unclosed = visible_lines(text, unquoted=True)
    section, found = 0, []
    for number, line in lines:
        section += line.startswith("#")
        if box := _of_line(line):
            found.append((section, box, number))
    boxed = {section for section, box, _ in found if box.done is not None}
    tasks = [
        Task(box.text.strip(), bool(box.done), number)
        for section, box, number in found
        if section in boxed
    ]
    return tuple(tasks), unclosed


def _of_line(line: str) -> _Found | None:
    if "&" in line:
        from html import unescape  # for few lines

        line = unescape(line)
    line = _UNSEEN.sub("", line).translate(_PLAIN).strip().lstrip("#").strip()
    if _CHECKBOX.search(line):
        return _Found(False, line)
    if line.startswith("|"):
        return _of_row(line)
    item = line
    for _ in range(_MOST):
        if not (marker := _MARKER.match(item)):
            break
        item = item[marker.end() :]
    found = _leading(item.strip(), is_item=item != line)
    left = found.text if found else item
    later = [box[0] for box in _LATER.finditer(_CODE.sub("", left))]
    if any(box not in ("[x]", "[X]") for box in later):
        return _Found(False, left)
    return found or (_Found(True, left) if later and item != line else None)


def _of_row(row: str) -> _Found | None:
    cells = [_leading(cell.strip(), is_item=False) for cell in row.strip("|").split("|", _MOST)]
    boxes = [cell.done for cell in cells if cell]
    return _Found(all(boxes), row.strip("| ")) if boxes else None


def _leading(text: str, *, is_item: bool) -> _Found | None:
    """The box at the beginning of a text: of a list item, or of another line or a cell."""
    bare = text.lstrip(_DRESSING)
    if not bare:
        return None
    signs = _SIGNS if is_item else _SIGNS_ELSEWHERE
    if not bare[0].isascii() and signs.search(unicodedata.name(bare[0], "")):
        return _Found(False, bare[1:])
    box = _BOX.match(bare)
    if not box:
        return _Found(False, bare) if is_item and _OTHER_BOX.match(bare) else None
    before, inner, after, rest = box.groups()
    if not inner:
        return None if rest.startswith("(") and not before + after else _Found(False, rest)
    word = inner.casefold()
    if rest.startswith(("(", "[")) or inner.startswith("^"):
        return None
    if _STATUS.fullmatch(word) or not any(map(str.isalnum, inner)):
        return _Found(False, rest)
    if _DEFINITION.match(rest):
        return None
    if word == "x":
        return _Found(not before + after and (not rest or rest[0] in " \t*_~.,;:"), rest)
    return _Found(None, rest) if is_item else None
