"""The line that tells a model what to do, and text that cannot be taken for one.

`playbook-directive[MARK]: {…}`: the mark is random and belongs to one session. Text of files,
agents and git may contain anything. What is quoted from it stands behind `> ` on every line, and
neither the name of the line nor the mark is left in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_NAME = "playbook-directive"
_NAMED = r"(?i)(playbook)-(directive)"
_BREAKS = "[\x85\u2028\u2029]"  # which JSON leaves as they are


def directive_line(mark: str, shape: str) -> str:
    """The line with this JSON object: the only place that writes one."""
    return f"{_NAME}[{mark}]: {in_json(shape, mark)}"


def defused(text: str, mark: str = "") -> str:
    """The text, which may be any, without the mark; the name is written `playbook\\-directive`."""
    text = text.replace(mark, "…") if mark else text
    return re.sub(_NAMED, r"\1\\-\2", text) if _NAME in text.casefold() else text


def in_json(text: str, mark: str = "") -> str:
    """JSON with the same values, on as many lines, in which the name and the mark are escaped."""
    if mark and mark in text:
        text = text.replace(mark, f"{mark[0]}{_escaped(mark[1])}{mark[2:]}")
    if _NAME in text.casefold():
        text = re.sub(_NAMED, rf"\1\{_escaped('-')}\2", text)
    return text if text.isascii() else re.sub(_BREAKS, lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}"


def quoted(texts: Iterable[str], mark: str = "") -> Iterator[str]:
    """Every line of the texts, marked as quoted."""
    for text in texts:
        yield from (f"> {line}" for line in defused(text, mark).splitlines())


def sentence(text: str, mark: str = "") -> str:
    """A sentence of ours that may contain foreign text: all lines but its first are quoted."""
    first, *others = text.splitlines() or [""]
    return "\n".join([defused(first, mark), *quoted(others, mark)])
