"""The changes of files, line by line, as records that are safe to show and bounded.

Control and bidi characters become visible instead of vanishing: what they would hide is what a
reviewer must see.
"""

from __future__ import annotations

import re

from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

MOST_FILES = 500
MOST_LINES = 10_000
MOST_LINES_OF_A_FILE = 2_000
MOST_CHARACTERS = 1_000_000
"""In all lines together: markup makes up to five of one."""
LONGEST_LINE = 400
"""Characters; a longer line is cut with …."""
BINARY = "binary"
"""The note of a file whose lines are not compared."""
MODES = {"100755": "executable", "120000": "symbolic link", "160000": "submodule"}
"""Git's modes that a person should know about → a note."""

_SHORT = 60
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)


class DiffLine(Record):
    """A line with its number in the old and in the new file, 0 where it has none."""

    kind: Literal["added", "removed", "context", "remark"]
    old: int
    new: int
    text: str


class Hunk(Record):
    """`heading` is git's, with the ranges and the function: `@@ -1,7 +1,8 @@ def main():`."""

    heading: str
    lines: tuple[DiffLine, ...]


class FileChange(Record):
    """One file. `added` and `removed` are its true totals, 0 if its lines are not compared.

    `left_out` is the number of added and removed lines that `hunks` lacks. `notes` are short words
    for people: `binary`, `symbolic link`.
    """

    path: str
    former_path: str = ""
    kind: Literal["changed", "new", "deleted", "renamed"] = "changed"
    added: int = 0
    removed: int = 0
    hunks: tuple[Hunk, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()


class Changes(Record):
    """All files; `left_out_files` are counted in the totals, but not listed.

    Unless `exact`, the totals are lower bounds.
    """

    files: tuple[FileChange, ...] = ()
    added: int = 0
    removed: int = 0
    left_out_files: int = 0
    exact: bool = True

    @property
    def summary(self) -> str:
        """`9 files, +214 −12`."""
        files = counted(len(self.files) + self.left_out_files, "file")
        at_least = "" if self.exact else "at least "
        return f"{at_least}{files}, +{self.added} \N{MINUS SIGN}{self.removed}"

    @property
    def short(self) -> bool:
        """Whether it is one file that needs no folding."""
        return len(self.files) == 1 and sum(len(h.lines) for h in self.files[0].hunks) <= _SHORT


def visible(text: str, limit: int = LONGEST_LINE) -> str:
    """The text on one line, cut with … at `limit` characters.

    Tabs become blanks. Characters that control a terminal or could disguise text become their
    number, ‹U+202E›.
    """
    shown = text[: limit + 1].expandtabs(4)
    if not shown.isprintable():
        shown = _HIDDEN.sub(_revealed, shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _revealed(found: re.Match[str]) -> str:
    return f"‹U+{ord(found[0]):04X}›"
