"""Strict JSON, into the same documents as YAML: no duplicate keys, a position for each value.

A document that was changed is written with the indentation of its file.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from playbook_supervisor.formats.located import Builder, Document, Plain, refuse, refuse_conflict

_BLANK = (" ", "\n", "\t", "\r")
_BOM = "\ufeff"
_REFUSED = "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"  # by the reader, unless escaped


def read_json(text: str, source: str, max_values: int) -> Document:
    """The document; `null` is the empty `Plain`. CheckError PB-CHECK-YAML or PB-CHECK-HOSTILE."""
    return _JsonReader(text, source, max_values).read()


def write_json(data: Any, like: bytes) -> bytes:
    """The data as a file with the indentation, the line ends and the byte order mark of `like`.

    Numbers of a document that was read are written as they were typed.
    """
    before = like.decode()
    indented = re.search(r"\n([ \t]+)\S", before)
    text = _lines(data, indented[1] if indented else "  ", "\n")
    text += "\n" if before.endswith("\n") else ""
    text = text.replace("\n", "\r\n") if "\r\n" in before else text
    return f"{_BOM if before.startswith(_BOM) else ''}{text}".encode()


def _lines(data: Any, unit: str, margin: str) -> str:
    if isinstance(data, Plain):
        return data or "null"
    if isinstance(data, dict) and data:
        brackets, members = "{}", [f"{_quoted(key)}: " for key in data]
    elif isinstance(data, list) and data:
        brackets, members = "[]", [""] * len(data)
    else:
        return _quoted(data)
    inner = margin + unit
    values = data.values() if isinstance(data, dict) else data
    written = (key + _lines(value, unit, inner) for key, value in zip(members, values, strict=True))
    return f"{brackets[0]}{inner}{f',{inner}'.join(written)}{margin}{brackets[1]}"


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(_REFUSED, lambda found: f"\\u{ord(found[0]):04x}", text)


class _JsonReader:
    def __init__(self, text: str, source: str, max_values: int) -> None:
        self._text, self._source, self._at = text, source, 0
        self._line, self._line_start, self._counted = 1, 0, 0
        self._builder = Builder(source, max_values)
        constant = self._no_number
        self._decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=constant)

    def read(self) -> Document:
        closers: list[str] = []
        while True:
            self._value(closers)
            while closers and self._next() == closers[-1]:
                self._at += 1
                self._builder.end()
                closers.pop()
            if not closers:
                break
            if self._next() != ",":
                self._fail(f"a `,` or the closing `{closers[-1]}` is missing here")
            self._at += 1
            if closers[-1] == "}":
                self._key()
        if self._next():
            self._fail("there is more text after the end of the document")
        return self._builder.document

    def _value(self, closers: list[str]) -> None:
        """A scalar, or the openings of mappings and sequences down to the first scalar."""
        while (char := self._next()) in ("{", "["):
            self._builder.begin(*self._position(), mapping=char == "{")
            self._at += 1
            closers.append("}" if char == "{" else "]")
            if self._next() == closers[-1]:
                return
            if char == "{":
                self._key()
        self._scalar()

    def _key(self) -> None:
        if self._next() != '"':
            self._fail("a key in double quotes is missing here")
        self._scalar()
        if self._next() != ":":
            self._fail("a `:` is missing after the key")
        self._at += 1

    def _scalar(self) -> None:
        start, (line, col) = self._at, self._position()
        try:
            value, self._at = self._decoder.raw_decode(self._text, start)
        except json.JSONDecodeError as fault:
            self._at = fault.pos
            self._fail("a string, a number, true, false or null is missing or not well formed")
        quoted = self._text[start] == '"'
        typed = "" if value is None else self._text[start : self._at]
        self._builder.scalar(value if quoted else Plain(typed), line, col)

    def _next(self) -> str:
        while self._text.startswith(_BLANK, self._at):
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _position(self) -> tuple[int, int]:
        breaks = self._text.count("\n", self._counted, self._at)
        if breaks:
            self._line += breaks
            self._line_start = self._text.rfind("\n", self._counted, self._at) + 1
        self._counted = self._at
        return self._line, self._at - self._line_start + 1

    def _no_number(self, word: str) -> NoReturn:
        self._fail(f"`{word}` is not a number in JSON")

    def _fail(self, message: str) -> NoReturn:
        refuse_conflict(self._text, self._source)
        line, col = self._position()
        refuse(self._source, line, col, message, "Correct the JSON there.")
