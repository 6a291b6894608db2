"""Edits of JSON that leave every foreign byte where it stands.

A document is read with the span of every value; an edit inserts, replaces or takes out one span,
in the indentation and with the line ends that the document has. Text in, text out.
"""

from __future__ import annotations

import json

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.located import MAX_DEPTH
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    Path = tuple[str | int, ...]

_BLANK = " \t\r\n"
_LONGEST_NUMBER = 100
_UNIT = "  "
"""The indentation of a document that has none of its own."""


class _Value(Record):
    """One value and where it stands; `parts` are those of an object or an array, in order."""

    start: int
    end: int
    opening: str
    """`{`, `[`, or nothing."""
    scalar: object = None
    parts: tuple[_Part, ...] = ()

    @property
    def data(self) -> object:
        if self.opening == "{":
            return {part.key: part.value.data for part in self.parts}
        return [part.value.data for part in self.parts] if self.opening else self.scalar

    def index(self, step: str | int) -> int | None:
        """Which part a step of a path means. Of two equal keys the last: it is the one in force."""
        if self.opening == "{":
            same = [i for i, part in enumerate(self.parts) if part.key == step]
            return same[-1] if same else None
        there = self.opening == "[" and isinstance(step, int) and step < len(self.parts)
        return int(step) if there else None


class _Part(Record):
    """A member with its key, or an item, whose key is empty; from `start` to the value's end."""

    start: int
    key: str
    value: _Value


class JsonText:
    """A JSON document that a person keeps. Edits make new ones.

    `data` are UTF-8, with or without a byte order mark; `source` is the name that is shown, `code`
    that of every CheckError, which has the place: for what is not JSON (comments and trailing
    commas are not) or too deep, and for what stands where something else has to.
    """

    def __init__(self, data: bytes, source: str, code: str) -> None:
        try:
            self._text = data.decode()
        except UnicodeDecodeError as fault:
            before = data[: fault.start].decode()
            raise CheckError(
                code,
                "not valid UTF-8",
                where=source,
                position=_place(before, len(before)),
                guidance="Save the file as UTF-8.",
            ) from None
        self._source, self._code = source, code
        self._top = _SpanReader(self._text, source, code).read()
        margin = _margin(self._lead(self._top)) if self._top.parts else ""
        self._unit = margin or _UNIT
        self._newline = "\r\n" if "\r\n" in self._text else "\n"

    def encode(self) -> bytes:
        """The document as it is to be written."""
        return self._text.encode()

    def get(self, *path: str | int) -> object:
        """The data at that path; None where there is nothing."""
        walked, value = self._walk(path)
        return value.data if walked == len(path) else None

    def append(self, path: Path, item: object) -> JsonText:
        """With an item more in the array at `path`, which is made where it is missing.

        CheckError, with the place, where something else stands on the way.
        """
        walked, value = self._walk(path)
        wanted = "[" if walked == len(path) else "{"
        if value.opening != wanted:
            self._unfit(path[:walked], value, "a list" if wanted == "[" else "an object")
        if walked == len(path):
            return self._insert(value, "", item)
        new: object = [item]
        for step in reversed(path[walked + 1 :]):
            new = {step: new}
        return self._insert(value, f"{json.dumps(path[walked])}: ", new)

    def replace(self, path: Path, data: object) -> JsonText:
        """With other data at `path`, where something stands."""
        _, value = self._walk(path)
        old = self._text[value.start : value.end]
        line = self._text[: value.start].rpartition("\n")[2]
        new = self._emitted(data, _indentation(line) if "\n" in old else None)
        return self._spliced(value.start, value.end, new)

    def remove(self, path: Path) -> JsonText:
        """Without what stands at `path`, nor the objects and arrays that hold nothing else."""
        while len(path) > 1 and len(self._walk(path[:-1])[1].parts) == 1:
            path = path[:-1]
        _, holder = self._walk(path[:-1])
        _, value = self._walk(path)
        parts = holder.parts
        index = next(i for i, part in enumerate(parts) if part.value is value)
        if index:
            return self._spliced(parts[index - 1].value.end, parts[index].value.end, "")
        if len(parts) > 1:
            return self._spliced(parts[0].start, parts[1].start, "")
        return self._spliced(holder.start + 1, holder.end - 1, "")

    # ────────────────────────────────────────────────────────────────────────────────────────

    def _walk(self, path: Path) -> tuple[int, _Value]:
        """How many steps of the path there are, and the value at the last of them."""
        value = self._top
        for walked, step in enumerate(path):
            index = value.index(step)
            if index is None:
                return walked, value
            value = value.parts[index].value
        return len(path), value

    def _insert(self, holder: _Value, key: str, data: object) -> JsonText:
        """Behind the last part, parted from it as the parts are from each other."""
        parts = holder.parts
        if not parts:
            return self._insert_first(holder, key, data)
        end = parts[-1].value.end
        gap = ", "
        if len(parts) > 1:
            between = self._text[parts[-2].value.end : parts[-1].start]
            gap = ",".join(map(_without_blank_lines, between.split(",")))
        elif "\n" in (lead := self._lead(holder)):
            gap = f",{self._newline}{_margin(lead)}"
        margin = _margin(gap) if "\n" in gap else None
        return self._spliced(end, end, gap + key + self._emitted(data, margin))

    def _insert_first(self, holder: _Value, key: str, data: object) -> JsonText:
        inside = (holder.start + 1, holder.end - 1)
        if holder is not self._top and "\n" not in self._text[self._top.start : self._top.end]:
            return self._spliced(*inside, key + self._emitted(data, None))
        margin = _indentation(self._text[: holder.start].rpartition("\n")[2])
        inner = f"{self._newline}{margin}{self._unit}"
        new = key + self._emitted(data, margin + self._unit)
        return self._spliced(*inside, f"{inner}{new}{self._newline}{margin}")

    def _lead(self, holder: _Value) -> str:
        """What stands before the first part."""
        return self._text[holder.start + 1 : holder.parts[0].start]

    def _emitted(self, data: object, margin: str | None) -> str:
        """Data as text: over several lines that begin with `margin`, on one where it is None."""
        if margin is None:
            return json.dumps(data, ensure_ascii=False)
        text = json.dumps(data, ensure_ascii=False, indent=self._unit)
        return text.replace("\n", self._newline + margin)

    def _spliced(self, start: int, end: int, new: str) -> JsonText:
        text = self._text[:start] + new + self._text[end:]
        return JsonText(text.encode(), self._source, self._code)

    def _unfit(self, path: Path, value: _Value, wanted: str) -> NoReturn:
        name = ".".join(map(str, path)) or "the document"
        raise CheckError(
            self._code,
            f"{name} has to be {wanted}",
            where=self._source,
            position=_place(self._text, value.start),
            guidance=f"Make it {wanted}, or take it out; nothing was written.",
        )


class _SpanReader:
    """JSON by its own rules, with spans; as deep as anything that is read here may be."""

    def __init__(self, text: str, source: str, code: str) -> None:
        self._text, self._source, self._code = text, source, code
        self._at = 1 if text.startswith("\ufeff") else 0
        self._decoder = json.JSONDecoder(parse_int=_integer, parse_constant=self._no_number)

    def read(self) -> _Value:
        value = self._value(0)
        if self._next():
            self._fail("something stands behind the end of the document")
        return value

    def _value(self, depth: int) -> _Value:
        opening = self._next()
        if opening not in ("{", "["):
            return self._scalar()
        if depth >= MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} deep")
        start = self._at
        closing = "}" if opening == "{" else "]"
        parts: list[_Part] = []
        self._at += 1
        if self._next() != closing:
            parts.append(self._part(opening, depth))
            while (char := self._next()) != closing:
                if char != ",":
                    self._fail(f"a `,` or the closing `{closing}` is missing here")
                self._at += 1
                self._next()
                parts.append(self._part(opening, depth))
        self._at += 1
        return _Value(start, self._at, opening, None, tuple(parts))

    def _part(self, opening: str, depth: int) -> _Part:
        start, key = self._at, ""
        if opening == "{":
            if self._text[start : start + 1] != '"':
                self._fail("a key in double quotes is missing here")
            key = str(self._scalar().scalar)
            if self._next() != ":":
                self._fail("a `:` is missing behind the key")
            self._at += 1
        return _Part(start, key, self._value(depth + 1))

    def _scalar(self) -> _Value:
        start = self._at
        try:
            scalar, self._at = self._decoder.raw_decode(self._text, start)
        except json.JSONDecodeError as fault:
            self._at = fault.pos
            self._fail("a string, a number, true, false or null is missing or not well formed")
        return _Value(start, self._at, "", scalar)

    def _next(self) -> str:
        """The next character that is no blank, and go there; empty at the end."""
        while (char := self._text[self._at : self._at + 1]) and char in _BLANK:
            self._at += 1
        return char

    def _no_number(self, word: str) -> NoReturn:
        self._fail(f"`{word}` is no number in JSON")

    def _fail(self, message: str) -> NoReturn:
        raise CheckError(
            self._code,
            message,
            where=self._source,
            position=_place(self._text, self._at),
            guidance="Correct the JSON: comments and trailing commas are not allowed.",
        )


def _integer(digits: str) -> int | str:
    """One of thousands of digits takes Python too long, and is nothing that is looked at."""
    return int(digits) if len(digits) < _LONGEST_NUMBER else digits


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def _margin(gap: str) -> str:
    """The indentation of the line that a gap ends with; empty where it ends no line."""
    _, broken, last = gap.rpartition("\n")
    return _indentation(last) if broken else ""


def _without_blank_lines(blanks: str) -> str:
    first, broken, rest = blanks.partition("\n")
    return first + broken + rest.rpartition("\n")[2]


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
