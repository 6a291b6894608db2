"""Documents: plain data with the position of every value and key.

Scalars stay as the author typed them: an unquoted one is a `Plain`, whose `value` may be a boolean
or a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from playbook_supervisor.errors import CheckError, StateError, TextPosition
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record, field, replace

MAX_DEPTH = 64

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Leading zeros (`013`) and numbers too large for a float (`1234e567`) are text.
_INTEGER = r"[-+]?(?:0|[1-9][0-9]{0,99})\Z"
_BASED = r"0(?:o[0-7]{1,99}|x[0-9a-fA-F]{1,99})\Z"
_FLOAT = r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"
_UNSTORABLE = "[\0\ud800-\udfff]"


class Plain(str):
    """A scalar without quotes, as typed; a missing value (`key:`) is the empty `Plain`."""

    __slots__ = ()

    @property
    def value(self) -> bool | int | float | str | None:
        """Its value by YAML 1.2's core schema; text if a number would not print as typed."""
        text = str(self)
        if text in _NULL:
            return None
        if text in _BOOLEAN:
            return _BOOLEAN[text]
        if re.match(_INTEGER, text):
            return int(text)
        if re.match(_BASED, text):
            return int(text, 0)
        if re.match(_FLOAT, text):
            number = float(text)
            return text if number in (float("inf"), float("-inf")) else number
        return text


def yaml_values(data: Data) -> Any:
    """The data with the types that YAML 1.2 gives to unquoted scalars; a missing value is None."""
    match data:
        case dict():
            return {key: yaml_values(each) for key, each in data.items()}
        case list():
            return [yaml_values(each) for each in data]
        case Plain():
            return data.value
        case _:
            return data


Data: TypeAlias = "dict[str, Data] | list[Data] | str"
"""Mappings with text keys in the author's order, sequences, and scalars (`str` or `Plain`)."""

Path = tuple[str | int, ...]  # keys and indices that lead to a value

_Members: TypeAlias = "dict[str, _Node] | list[_Node] | None"
_Node: TypeAlias = tuple[int, int, int, int, _Members]
# line and column of the value, line and column of its key (its own where it has none), members


class Document(Record):
    """One document of a file. Lines and columns count from 1."""

    data: Data
    source: str
    _root: _Node = field(default=(1, 1, 1, 1, None), repr=False, compare=False)
    _origins: Mapping[Path, Path] | None = field(default=None, repr=False, compare=False)

    def translated(self, data: Data, origins: Mapping[Path, Path]) -> Document:
        """Other data with the places of these: path there → path here.

        What lies below a path of `origins`, or is not there, has the place of the nearest one.
        """
        return replace(self, data=data, _origins=origins)

    def above(self, key: str, text: str, line: int) -> Document:
        """A mapping of `front`, which has these data, and of a text that begins at this line."""
        members: _Members = {"front": self._root, key: (line, 1, line, 1, None)}
        return Document({"front": self.data, key: text}, self.source, (1, 1, 1, 1, members))

    def position(self, path: Sequence[str | int]) -> TextPosition:
        """Line and column of the value at `path`, or of its nearest ancestor that exists."""
        return self._find(path)[:2]

    def key_position(self, path: Sequence[str | int]) -> TextPosition:
        """Line and column of the key at `path`; of the item itself in a sequence."""
        return self._find(path)[2:4]

    def corrupt(self, path: Sequence[str | int], message: str) -> StateError:
        """The error of a session's file whose value at `path` is wrong."""
        position = self.position(path)
        return StateError("PB-STATE-CORRUPT", message, where=self.source, position=position)

    def _find(self, path: Sequence[str | int]) -> _Node:
        node = self._root
        if self._origins is not None:
            path = _origin(tuple(path), self._origins)
        for part in path:
            members = node[4]
            if isinstance(members, dict):
                inner = members.get(str(part))
            elif isinstance(members, list) and part in range(len(members)):
                inner = members[int(part)]
            else:
                inner = None
            if inner is None:
                break
            node = inner
        return node


def _origin(path: Path, origins: Mapping[Path, Path]) -> Path:
    for length in range(len(path), 0, -1):
        if path[:length] in origins:
            return (*origins[path[:length]], *path[length:])
    return ()


def refuse(
    source: str, line: int, col: int, message: str, guidance: str = "", *, hostile: bool = False
) -> NoReturn:
    """Raise the error of an unreadable file, at its position."""
    code = "PB-CHECK-HOSTILE" if hostile else "PB-CHECK-YAML"
    raise CheckError(code, message, where=source, position=(line, col), guidance=guidance)


def refuse_conflict(text: str, source: str) -> None:
    """Refuse a text that git has left a conflict in."""
    if line := conflict_line(text):
        cure = "Keep one side or both, and remove the lines of `<`, `=` and `>`."
        refuse(source, line, 1, "git has left a conflict here", cure)


def conflict_line(text: str) -> int:
    """The line, from 1, on which a git conflict begins; 0 if there is none."""
    start = 0
    for number, line in enumerate(text.splitlines() if "<<<<<<< " in text else (), 1):
        if not start and line.startswith("<<<<<<< "):
            start = number
        elif start and line.startswith(">>>>>>> "):
            return start
    return 0


class _Mapping:
    __slots__ = ("col", "data", "key", "key_col", "key_line", "line", "members", "wants_key")

    def __init__(self, line: int, col: int) -> None:
        self.data: dict[str, Data] = {}
        self.members: dict[str, _Node] = {}
        self.line, self.col = line, col
        self.wants_key, self.key, self.key_line, self.key_col = True, "", line, col

    def add(self, value: Data, line: int, col: int, members: _Members) -> None:
        self.data[self.key] = value
        self.members[self.key] = (line, col, self.key_line, self.key_col, members)
        self.wants_key = True


class _Sequence:
    __slots__ = ("col", "data", "line", "members")
    wants_key = False

    def __init__(self, line: int, col: int) -> None:
        self.data: list[Data] = []
        self.members: list[_Node] = []
        self.line, self.col = line, col

    def add(self, value: Data, line: int, col: int, members: _Members) -> None:
        self.data.append(value)
        self.members.append((line, col, line, col, members))


class Builder:
    """Builds a document from its parts in reading order, without recursion.

    Refuses duplicate, complex, empty and merge keys, too deep nesting, and NUL or lone surrogates.
    """

    def __init__(self, source: str, max_values: int) -> None:
        self.document = Document(Plain(""), source)
        self._source = source
        self._values_left = max_values
        self._open: list[_Mapping | _Sequence] = []

    def begin(self, line: int, col: int, *, mapping: bool) -> None:
        if self._open and self._open[-1].wants_key:
            self._complex(line, col)
        if len(self._open) >= MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            self._refuse_hostile(line, col, message, "Flatten it; no valid file needs such depth.")
        self._open.append(_Mapping(line, col) if mapping else _Sequence(line, col))

    def end(self) -> None:
        done = self._open.pop()
        self._add(done.data, done.line, done.col, done.members)

    def scalar(self, text: str, line: int, col: int) -> None:
        if re.search(_UNSTORABLE, text):
            message = "this text contains a NUL or a lone surrogate"
            self._refuse_hostile(line, col, message, "Remove the escape.")
        top = self._open[-1] if self._open else None
        if isinstance(top, _Mapping) and top.wants_key:
            self._key(top, text, line, col)
        else:
            self._add(text, line, col, None)

    def _add(self, value: Data, line: int, col: int, members: _Members) -> None:
        self._values_left -= 1
        if self._values_left < 0:
            cure = "Split it; no valid file needs so many."
            self._refuse_hostile(line, col, "too many values for one file", cure)
        if self._open:
            self._open[-1].add(value, line, col, members)
        else:
            self.document = Document(value, self._source, (line, col, line, col, members))

    def _key(self, top: _Mapping, text: str, line: int, col: int) -> None:
        if "\n" in text:
            self._complex(line, col)
        if isinstance(text, Plain) and not text:
            refuse(self._source, line, col, "a value without a key", "Give it a key.")
        if isinstance(text, Plain) and text == "<<":
            message = "merge keys (`<<`) are not allowed"
            self._refuse_hostile(line, col, message, "Write the keys out.")
        if text in top.data:
            twice = f"the key `{first_line(text, 60)}` appears for the second time"
            message = f"{twice} (first on line {top.members[text][2]})"
            refuse(self._source, line, col, message, "Keep one of the two.")
        top.wants_key, top.key, top.key_line, top.key_col = False, str(text), line, col

    def _complex(self, line: int, col: int) -> NoReturn:
        message = "a key is a list, a mapping or longer than one line"
        self._refuse_hostile(line, col, message, "Write keys as words on one line.")

    def _refuse_hostile(self, line: int, col: int, message: str, guidance: str) -> NoReturn:
        refuse(self._source, line, col, message, guidance, hostile=True)
