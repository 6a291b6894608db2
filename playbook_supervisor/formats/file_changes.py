"""The changes of files, line by line, as records that are safe to show and bounded.

They are read from git's unified diff, however large or damaged. Control and bidi characters become
visible instead of vanishing: what they would hide is what a reviewer must see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from playbook_supervisor.formats.sanitize import counted

Kind = Literal["changed", "new", "deleted", "renamed"]
LineKind = Literal["added", "removed", "context", "remark"]

MOST_FILES = 500
MOST_LINES = 10_000
MOST_LINES_OF_A_FILE = 2_000
MOST_CHARACTERS = 1_000_000  # in all lines together: markup makes up to five of one
LONGEST_LINE = 400  # characters; a longer line is cut with …
BINARY = "binary"  # the note of a file whose lines are not compared
MODES = {"100755": "executable", "120000": "symbolic link", "160000": "submodule"}
"""Git's modes that a person should know about → a note."""

_SHORT = 60
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
_LONGEST_PATH = 1_000
_CHANGED_MODES = {"100755": "now executable", "100644": "no longer executable"}
_LINKS = {mode: note for mode, note in MODES.items() if mode != "100755"}
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@", re.ASCII)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line with its number in the old and in the new file, 0 where it has none."""

    kind: LineKind
    old: int
    new: int
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """`heading` is git's, with the ranges and the function: `@@ -1,7 +1,8 @@ def main():`."""

    heading: str
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file. `added` and `removed` are its true totals, 0 if its lines are not compared.

    `left_out` is the number of added and removed lines that `hunks` lacks. `notes` are short words
    for people: `binary`, `symbolic link`.
    """

    path: str
    former_path: str = ""
    kind: Kind = "changed"
    added: int = 0
    removed: int = 0
    hunks: tuple[Hunk, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """All files; `left_out_files` are in the totals only, which are lower bounds unless `exact`."""

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
        """True if it is one file that needs no folding."""
        return len(self.files) == 1 and sum(len(h.lines) for h in self.files[0].hunks) <= _SHORT


def visible(text: str, limit: int = LONGEST_LINE) -> str:
    """The text on one line, tabs as blanks, cut with … at `limit` characters.

    Characters that control a terminal or could disguise text become their number, ‹U+202E›.
    """
    shown = text[: limit + 1].expandtabs(4)
    if not shown.isprintable():
        shown = _HIDDEN.sub(lambda found: f"‹U+{ord(found[0]):04X}›", shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def parse(lines: Iterable[str], listed: Sequence[FileChange] | None = None) -> Changes:
    """The changes of git's unified diff, given line by line without line ends. Never raises.

    `listed` are the files without their hunks, if they are known from elsewhere: their totals and
    notes hold, files without any text are added, and `lines` are read only as far as they are
    shown. Paths in `listed` are as they are on the disk; those of the result are fit to be shown.
    """
    reader = _Reader()
    for line in lines:
        if listed is not None and reader.full:
            break
        reader.read(line)
    sections = reader.by_path()
    files = [_file(sections.pop(file.path, None), file) for file in listed or ()]
    files += [_file(section) for section in sections.values()]
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    return Changes(tuple(files[:MOST_FILES]), added, removed, max(0, len(files) - MOST_FILES))


@dataclass(slots=True)
class _Section:
    header: str
    old: str = ""
    new: str = ""
    kind: Kind = "changed"
    binary: bool = False
    notes: tuple[str, ...] = ()
    hunks: list[tuple[str, list[DiffLine]]] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    kept: int = 0
    room: int = MOST_LINES_OF_A_FILE

    @property
    def path(self) -> str:
        return self.new or self.old or _path_of(self.header)

    def join(self, other: _Section) -> None:
        """Take in another section of the same file: git removes it, and adds it as a link."""
        self.kind = "changed"
        self.binary = self.binary or other.binary
        self.notes += other.notes
        self.hunks += other.hunks
        self.added += other.added
        self.removed += other.removed
        self.kept += other.kept


class _Reader:
    """Reads the diff line by line, and keeps as much of it as the limits let.

    A hunk says how many lines it has, so no line of a file is taken for a header.
    """

    def __init__(self) -> None:
        self._sections: list[_Section] = []
        self._room, self._characters = MOST_LINES, MOST_CHARACTERS
        self._old = self._new = self._old_left = self._new_left = 0

    @property
    def full(self) -> bool:
        return self._room <= 0 or self._characters <= 0 or len(self._sections) > MOST_FILES

    def by_path(self) -> dict[str, _Section]:
        joined: dict[str, _Section] = {}
        for section in self._sections:
            if joined.setdefault(section.path, section) is not section:
                joined[section.path].join(section)
        return joined

    def read(self, line: str) -> None:
        section = self._sections[-1] if self._sections else None
        if section and (self._old_left or self._new_left) and self._content(section, line):
            return
        if line.startswith("diff --git "):
            self._sections.append(_Section(line[11:]))
        elif section and (hunk := _HUNK.match(line)):
            self._begin(section, line, hunk)
        elif section and section.hunks and line.startswith("\\"):
            self._keep(section, "remark", line)
        elif section and not section.hunks:
            _read_header(section, line)

    def _begin(self, section: _Section, line: str, hunk: re.Match[str]) -> None:
        old, old_lines, new, new_lines = hunk.groups(default="1")
        self._old, self._new = int(old), int(new)
        self._old_left, self._new_left = int(old_lines), int(new_lines)
        if section.room > 0 and not self.full:
            if section.hunks and not section.hunks[-1][1]:
                section.hunks.pop()
            section.hunks.append((visible(line), []))

    def _content(self, section: _Section, line: str) -> bool:
        """Take a line of the hunk; False if it is none, and the hunk ends too early."""
        sign = line[:1] or " "  # git may leave out the blank of an empty line
        if sign == "\\":
            self._keep(section, "remark", line)
        elif sign == "+" and self._new_left:
            section.added += 1
            section.kept += self._keep(section, "added", line)
        elif sign == "-" and self._old_left:
            section.removed += 1
            section.kept += self._keep(section, "removed", line)
        elif sign == " " and self._old_left and self._new_left:
            self._keep(section, "context", line)
        else:
            self._old_left = self._new_left = 0
            return False
        self._old, self._old_left = _next(self._old, self._old_left, sign in "- ")
        self._new, self._new_left = _next(self._new, self._new_left, sign in "+ ")
        return True

    def _keep(self, section: _Section, kind: LineKind, line: str) -> bool:
        if self.full or section.room <= 0 or not section.hunks:
            return False
        old = self._old if kind in ("removed", "context") else 0
        new = self._new if kind in ("added", "context") else 0
        text = visible(line[1:] if kind != "remark" else line[1:].strip())
        section.hunks[-1][1].append(DiffLine(kind, old, new, text))
        section.room -= 1
        self._room -= 1
        self._characters -= len(text)
        return True


def _next(number: int, left: int, passed: bool) -> tuple[int, int]:
    return (number + 1, left - 1) if passed else (number, left)


def _read_header(section: _Section, line: str) -> None:
    if line.startswith("--- "):
        section.old = _without_prefix(line[4:])
    elif line.startswith("+++ "):
        section.new = _without_prefix(line[4:])
    elif line.startswith("rename from "):
        section.kind, section.old = "renamed", _unquoted(line[12:])
    elif line.startswith("rename to "):
        section.new = _unquoted(line[10:])
    elif line.startswith("new file mode "):
        section.kind = "new"
        section.notes += _note(MODES, line)
    elif line.startswith("deleted file mode "):
        section.kind = "deleted"
    elif line.startswith("new mode "):
        section.notes += _note(_CHANGED_MODES, line)
    elif line.startswith("index "):
        section.notes += _note(_LINKS, line)
    elif line.startswith(("Binary files ", "GIT binary patch")):
        section.binary = True


def _note(notes: dict[str, str], line: str) -> tuple[str, ...]:
    note = notes.get(line.rpartition(" ")[2])
    return (note,) if note else ()


def _path_of(header: str) -> str:
    """The path of `a/PATH b/PATH`; both are one if no other header says more."""
    if header.startswith('"'):
        return _unquoted(header[: len(header) // 2])[2:]
    return header[2 : len(header) // 2]


def _without_prefix(name: str) -> str:
    """The path of `a/PATH`; git ends it with a tab if it contains blanks."""
    path = _unquoted(name.removesuffix("\t"))
    return "" if path == "/dev/null" else path[2:]


def _unquoted(name: str) -> str:
    """A name as it is on the disk; git quotes what contains quotes or control characters."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    plain = _ESCAPE.sub(_unescaped, name[1:-1].encode(errors="replace"))
    return plain.decode(errors="replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    escaped = found[1]
    byte = int(escaped, 8) & 0xFF if len(escaped) == 3 else _ESCAPED.get(escaped[0], escaped[0])
    return bytes([byte])


def _file(section: _Section | None, listed: FileChange | None = None) -> FileChange:
    text = section or _Section("")
    known = listed or FileChange(
        text.path,
        text.old if text.kind == "renamed" else "",
        text.kind,
        text.added,
        text.removed,
        notes=(BINARY,) if text.binary else (),
    )
    added, removed = max(known.added, text.added), max(known.removed, text.removed)
    return FileChange(
        visible(known.path, _LONGEST_PATH),
        visible(known.former_path, _LONGEST_PATH),
        known.kind,
        added,
        removed,
        tuple(Hunk(heading, tuple(lines)) for heading, lines in text.hunks if lines),
        added + removed - text.kept,
        tuple(dict.fromkeys((*known.notes, *text.notes))),
    )
