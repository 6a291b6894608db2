"""Markdown files with data in YAML above their text, between two lines of three hyphens."""

from __future__ import annotations

import re

from playbook_supervisor.formats.located import Document, refuse
from playbook_supervisor.formats.strict_yaml import MAX_BYTES, decode, read_yaml

FRONT, BODY = "front", "body"

_BYTES_PER_VALUE = 64
_FENCE = r"---[ \t]*(?:\r\n?|\n|\Z)"


def has_front_matter(data: bytes) -> bool:
    """True if a file begins with a line of three hyphens."""
    return re.match(_FENCE.encode(), data.removeprefix(b"\xef\xbb\xbf")) is not None


def load_markdown(data: bytes, source: str) -> Document:
    """The file as a mapping of `front`, which may be empty, and `body`. CheckError as `load`."""
    text = decode(data, source, MAX_BYTES)
    if not (opening := re.match(_FENCE, text)):
        return Document({}, source).above(BODY, text, 1)
    closing = re.search(f"(?m)^{_FENCE}", text[opening.end() :])
    if not closing:
        refuse(source, 1, 1, "the front matter has no end", "End it with a line `---`.")
    end = opening.end() + closing.start()
    # The opening line becomes an empty one, so that places are those of the file.
    front = read_yaml("\n" + text[opening.end() : end], source, MAX_BYTES // _BYTES_PER_VALUE)
    body = text[opening.end() + closing.end() :]
    line = len(re.split(r"\r\n?|\n", text[: len(text) - len(body)]))
    return front.above(BODY, body, line)
