"""The lines of boards and lists, and words that many of them have."""

from __future__ import annotations

from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, TypeAlias

    LineTone: TypeAlias = Literal["plain", "waits", "works", "dim"]


class Line(Record):
    """A line of a board; a `whole` one is wrapped where others are cut."""

    text: str
    tone: LineTone = "plain"
    whole: bool = False


def stamp(ms: int) -> str:
    """`2026-02-19T10:20:26Z`."""
    return f"{to_time(ms)[:19]}Z"


def path(id_: str) -> str:
    """`release#1 → pr#1`: where an attempt or a gate of a child session stands."""
    return id_.replace("/", " → ")


def joined(words: Sequence[str]) -> str:
    """`continue, skip or abort`."""
    return f"{', '.join(words[:-1])} or {words[-1]}"
