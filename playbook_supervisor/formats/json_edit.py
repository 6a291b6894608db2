"""Edits of a JSON text that leave all other bytes unchanged.

The document is read with the span of every value. An edit inserts, replaces or removes one span,
with the indentation and the line ends of the document.
"""

from __future__ import annotations

import json
from typing import NoReturn

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.located import MAX_DEPTH
from playbook_supervisor.records import Record

Path = tuple[str | int, ...]

_BLANK = " \t\r\n"
_LONGEST_NUMBER = 100
_UNIT = "  "
"""The indentation if the document has none."""


class _Value(Record):
    """A value and its span; `parts` are the members of an object or the items of an array."""

    start: int
    end: int
    opening: str
    """`{`, `[`, or empty for a scalar."""
    scalar: object = None
    parts: tuple[_Part, ...] = ()

    @property
    def data(self) -> object:
        if self.opening == "{":
            return {part.key: part.value.data for part in self.parts}
        return [part.value.data for part in self.parts] if self.opening else self.scalar

    def index(self, step: str | int) -> int | None:
        """The part with that key or index; of equal keys the last, which is the effective one."""
        if self.opening == "{":
            same = [i for i, part in enumerate(self.parts) if part.key == step]
            return same[-1] if same else None
        if self.opening == "[" and isinstance(step, int) and step < len(self.parts):
            return step
        return None


class _Part(Record):
    """A member, or an item with an empty key; from `start` to the end of its value."""

    start: int
    key: str
    value: _Value


class JsonText:
    """A JSON document that a person also edits. Edits return new ones.

    `data` is UTF-8, with or without a byte order mark; `source` is its name for messages. Invalid
    or too deeply nested JSON, and a value of the wrong type, is a CheckError with that `code`.
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
                position=_position(before, len(before)),
                guidance="Save the file as UTF-8.",
            ) from None
        self._source, self._code = source, code
        self._top = _SpanReader(self._text, source, code).read()
        margin = _margin(self._lead(self._top)) if self._top.parts else ""
        self._unit = margin or _UNIT
        self._newline = "\r\n" if "\r\n" in self._text else "\n"

    def encode(self) -> bytes:
        """The document's bytes."""
        return self._text.encode()

    def get(self, *path: str | int) -> object:
        """The data at that path; None if there is none."""
        walked, value = self._walk(path)
        return value.data if walked == len(path) else None

    def append(self, path: Path, item: object) -> JsonText:
        """Append an item to the array at `path`, which is created if it is missing.

        CheckError if another type of value is in its place.
        """
        walked, value = self._walk(path)
        wanted = "[" if walked == len(path) else "{"
        if value.opening != wanted:
            self._refuse(path[:walked], value, "a list" if wanted == "[" else "an object")
        if walked == len(path):
            return self._insert(value, "", item)
        new: object = [item]
        for step in reversed(path[walked + 1 :]):
            new = {step: new}
        return self._insert(value, f"{json.dumps(path[walked])}: ", new)

    def replace(self, path: Path, data: object) -> JsonText:
        """Replace the existing data at `path`."""
        _, value = self._walk(path)
        old = self._text[value.start : value.end]
        line = self._text[: value.start].rpartition("\n")[2]
        new = self._dump(data, _indentation(line) if "\n" in old else None)
        return self._spliced(value.start, value.end, new)

    def remove(self, path: Path) -> JsonText:
        """Remove the value at `path`, and the objects and arrays that it leaves empty."""
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
        """How many steps of the path exist, and the value at the last of them."""
        value = self._top
        for walked, step in enumerate(path):
            index = value.index(step)
            if index is None:
                return walked, value
            value = value.parts[index].value
        return len(path), value

    def _insert(self, holder: _Value, key: str, data: object) -> JsonText:
        """Insert after the last part, with the separator of the others."""
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
        return self._spliced(end, end, gap + key + self._dump(data, margin))

    def _insert_first(self, holder: _Value, key: str, data: object) -> JsonText:
        inside = (holder.start + 1, holder.end - 1)
        if holder is not self._top and "\n" not in self._text[self._top.start : self._top.end]:
            return self._spliced(*inside, key + self._dump(data, None))
        margin = _indentation(self._text[: holder.start].rpartition("\n")[2])
        inner = f"{self._newline}{margin}{self._unit}"
        new = key + self._dump(data, margin + self._unit)
        return self._spliced(*inside, f"{inner}{new}{self._newline}{margin}")

    def _lead(self, holder: _Value) -> str:
        return self._text[holder.start + 1 : holder.parts[0].start]

    def _dump(self, data: object, margin: str | None) -> str:
        """Data as text: on lines that begin with `margin`, or on one line if it is None."""
        if margin is None:
            return json.dumps(data, ensure_ascii=False)
        text = json.dumps(data, ensure_ascii=False, indent=self._unit)
        return text.replace("\n", self._newline + margin)

    def _spliced(self, start: int, end: int, new: str) -> JsonText:
        text = self._text[:start] + new + self._text[end:]
        return JsonText(text.encode(), self._source, self._code)

    def _refuse(self, path: Path, value: _Value, wanted: str) -> NoReturn:
        name = ".".join(map(str, path)) or "the document"
        raise CheckError(
            self._code,
            f"{name} must be {wanted}",
            where=self._source,
            position=_position(self._text, value.start),
            guidance=f"Make it {wanted}, or remove it; nothing was written.",
        )


class _SpanReader:
    """Reads strict JSON with the span of each value, at most MAX_DEPTH levels deep."""

    def __init__(self, text: str, source: str, code: str) -> None:
        self._text, self._source, self._code = text, source, code
        self._at = 1 if text.startswith("\ufeff") else 0
        self._decoder = json.JSONDecoder(parse_int=_integer, parse_constant=self._no_number)

    def read(self) -> _Value:
        value = self._value(0)
        if self._next():
            self._fail("there is more text after the end of the document")
        return value

    def _value(self, depth: int) -> _Value:
        opening = self._next()
        if opening not in ("{", "["):
            return self._scalar()
        if depth >= MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels")
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
                self._fail("a `:` is missing after the key")
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
        """Skip blanks; the character there, or nothing at the end."""
        while (char := self._text[self._at : self._at + 1]) and char in _BLANK:
            self._at += 1
        return char

    def _no_number(self, word: str) -> NoReturn:
        self._fail(f"`{word}` is not a number in JSON")

    def _fail(self, message: str) -> NoReturn:
        raise CheckError(
            self._code,
            message,
            where=self._source,
            position=_position(self._text, self._at),
            guidance="Correct the JSON: comments and trailing commas are not allowed.",
        )


def _integer(digits: str) -> int | str:
    """Converting thousands of digits takes too long, and no setting needs such a number."""
    return int(digits) if len(digits) < _LONGEST_NUMBER else digits


def _position(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def _margin(gap: str) -> str:
    """The indentation after the last line break of a gap; empty if it has none."""
    _, broken, last = gap.rpartition("\n")
    return _indentation(last) if broken else ""


def _without_blank_lines(blanks: str) -> str:
    first, broken, rest = blanks.partition("\n")
    return first + broken + rest.rpartition("\n")[2]


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
