"""Directives as a model reads them: lines with the mark of the session."""

from __future__ import annotations

import json
import re
from typing import Any

LINE = re.compile(r"^playbook-directive\[([0-9a-f]{12})\]: (\{.*\})$", re.MULTILINE)
"""What no quoted text can be: a line of its own, with a mark."""


def in_text(text: str) -> list[dict[str, Any]]:
    """The directives in a text, in order."""
    return [json.loads(shape) for _, shape in LINE.findall(text)]


def only(text: str) -> dict[str, Any]:
    """The one directive of a text, which is its last line."""
    (directive,) = in_text(text)
    assert LINE.match(text.splitlines()[-1])
    return directive


def told(reply: Any) -> Any:
    """The first directive in what a hook tells a model."""
    return in_text(reply["hookSpecificOutput"]["additionalContext"])[0]
