"""Edits of a JSON text that leave all other bytes unchanged.

The document is read with the span of every value. An edit inserts, replaces or removes one span,
with the indentation and the line ends of the document.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.located import MAX_DEPTH

Path = tuple[str | int, ...]

_LONGEST_NUMBER = 100
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')
"""Of a text that is JSON."""
_CONSTANTS = ("NaN", "Infinity", "-Infinity")
_CURE = "Correct the JSON: comments and trailing commas are not allowed."
_UNIT = "  "
"""The indentation if the document has none."""


class _Value:
    """A value and its span; of an object or an array, its members or items.

    A part is its start, its key (empty for an item) and its value.
    """

    def __init__(self, start: int, opening: str = "", end: int = 0, scalar: object = None) -> None:
        self.start, self.end, self.opening, self.scalar = start, end, opening, scalar
        self.parts: list[tuple[int, str, _Value]] = []
        self.key: tuple[int, str] | None = None  # without its value

    @property
    def data(self) -> object:
        if self.opening == "{":
            return {key: value.data for _, key, value in self.parts}
        return [value.data for _, _, value in self.parts] if self.opening else self.scalar

    def part(self, step: str | int) -> _Value | None:
        """The part with that key or index; of equal keys the last, which is the effective one."""
        if isinstance(step, int):
            return self.parts[step][2] if self.opening == "[" and step < len(self.parts) else None
        same = [value for _, key, value in self.parts if self.opening == "{" and key == step]
        return same[-1] if same else None


class JsonText:
    """A JSON document that a person also edits. Edits return new ones.

    `data` is UTF-8, with or without a byte order mark; `source` is its name for messages. Invalid
    or too deeply nested JSON, and a value of the wrong type, is a CheckError with that `code`.
    """

    def __init__(self, data: bytes, source: str, code: str) -> None:
        self._source, self._code = source, code
        try:
            self._text = data.decode()
        except UnicodeDecodeError as fault:
            self._text = data[: fault.start].decode()
            self._refuse(len(self._text), "not valid UTF-8", "Save the file as UTF-8.")
        self._top = self._read()
        margin = self._margin(self._top.start + 1, self._top.parts[0][0]) if self._top.parts else ""
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
        """Append to the array at `path`, made if missing. CheckError if it is no array."""
        walked, value = self._walk(path)
        opening, wanted = ("[", "a list") if walked == len(path) else ("{", "an object")
        if value.opening != opening:
            name = ".".join(map(str, path[:walked])) or "the document"
            guidance = f"Make it {wanted}, or remove it; nothing was written."
            self._refuse(value.start, f"{name} must be {wanted}", guidance)
        if walked == len(path):
            return self._insert(value, "", item)
        new: object = [item]
        for step in reversed(path[walked + 1 :]):
            new = {step: new}
        return self._insert(value, f"{json.dumps(path[walked])}: ", new)

    def replace(self, path: Path, data: object) -> JsonText:
        """Replace the existing data at `path`."""
        _, value = self._walk(path)
        broken = "\n" in self._text[value.start : value.end]
        new = self._dump(data, self._margin(0, value.start) if broken else None)
        return self._spliced(value.start, value.end, new)

    def remove(self, path: Path) -> JsonText:
        """Remove the value at `path`, and the objects and arrays that it leaves empty."""
        while len(path) > 1 and len(self._walk(path[:-1])[1].parts) == 1:
            path = path[:-1]
        _, holder = self._walk(path[:-1])
        _, value = self._walk(path)
        parts = holder.parts
        index = next(i for i, part in enumerate(parts) if part[2] is value)
        if index:
            return self._spliced(parts[index - 1][2].end, value.end, "")
        if len(parts) > 1:
            return self._spliced(parts[0][0], parts[1][0], "")
        return self._spliced(holder.start + 1, holder.end - 1, "")

    def _read(self) -> _Value:
        """The document with the span of each value, at most MAX_DEPTH levels deep."""
        text = f" {self._text[1:]}" if self._text.startswith("\ufeff") else self._text
        try:
            json.loads(text, parse_int=_integer)
        except json.JSONDecodeError as fault:
            self._refuse(fault.pos, f"not JSON: {fault.msg}", _CURE)
        except RecursionError:
            pass  # refused below
        open_ = [_Value(0, "[")]
        for found in _TOKEN.finditer(text):
            word, at, holder = found[0], found.start(), open_[-1]
            if word in "{[":
                if len(open_) > MAX_DEPTH:
                    self._refuse(at, f"nested deeper than {MAX_DEPTH} levels", _CURE)
                open_.append(_Value(at, word))
                continue
            if word in "}]":
                value = open_.pop()
                value.end, holder = found.end(), open_[-1]
            elif word in _CONSTANTS:
                self._refuse(at, f"`{word}` is not a number in JSON", _CURE)
            else:
                value = _Value(at, "", found.end(), json.loads(word, parse_int=_integer))
                if holder.opening == "{" and holder.key is None:
                    holder.key = at, str(value.scalar)
                    continue
            holder.parts.append((*(holder.key or (value.start, "")), value))
            holder.key = None
        return open_[0].parts[0][2]

    def _walk(self, path: Path) -> tuple[int, _Value]:
        """How many steps of the path exist, and the value at the last of them."""
        value = self._top
        for walked, step in enumerate(path):
            part = value.part(step)
            if part is None:
                return walked, value
            value = part
        return len(path), value

    def _insert(self, holder: _Value, key: str, data: object) -> JsonText:
        """Insert after the last part, on a line of its own if that has one."""
        start, end = holder.start + 1, holder.end - 1
        if holder.parts:
            before = holder.parts[-2][2].end if len(holder.parts) > 1 else start
            last, _, value = holder.parts[-1]
            margin = self._margin(before, last) if "\n" in self._text[before:last] else None
            gap = ", " if margin is None else f",{self._newline}{margin}"
            return self._spliced(value.end, value.end, gap + key + self._dump(data, margin))
        if holder is not self._top and "\n" not in self._text[self._top.start : self._top.end]:
            return self._spliced(start, end, key + self._dump(data, None))
        outer = self._newline + self._margin(0, holder.start)
        new = key + self._dump(data, outer.lstrip("\r\n") + self._unit)
        return self._spliced(start, end, f"{outer}{self._unit}{new}{outer}")

    def _margin(self, start: int, end: int) -> str:
        """The indentation of the last line of that piece; empty if no line begins in it."""
        _, broken, line = self._text[start:end].rpartition("\n")
        return line[: len(line) - len(line.lstrip(" \t"))] if broken or not start else ""

    def _dump(self, data: object, margin: str | None) -> str:
        """Data as text: on lines that begin with `margin`, or on one line if it is None."""
        if margin is None:
            return json.dumps(data, ensure_ascii=False)
        text = json.dumps(data, ensure_ascii=False, indent=self._unit)
        return text.replace("\n", self._newline + margin)

    def _spliced(self, start: int, end: int, new: str) -> JsonText:
        text = self._text[:start] + new + self._text[end:]
        return JsonText(text.encode(), self._source, self._code)

    def _refuse(self, at: int, message: str, guidance: str) -> NoReturn:
        place = self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)
        raise CheckError(
            self._code, message, where=self._source, position=place, guidance=guidance
        ) from None


def _integer(digits: str) -> int | str:
    """Converting thousands of digits takes too long, and no setting needs such a number."""
    return int(digits) if len(digits) < _LONGEST_NUMBER else digits
