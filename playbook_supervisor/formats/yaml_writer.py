"""Data → YAML text, in our one style: a value, an entry, or a file with text of several lines.

YAML 1.1 and 1.2 readers agree on it: strings are double-quoted unless they are words that no rule
takes for anything else, and characters that break a line, hide or reorder text are escaped. It is
our own code because the hot path writes one entry and must not import a library for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.located import Data, Plain


class Block(dict[str, object]):
    """A mapping that is written with a line for each key; other mappings take one line."""


_WORD = r"(?:[0-9]+-|(?:\.\./)+)?[A-Za-z][A-Za-z0-9_-]*\Z|[0-9]{8}-[a-z0-9]{3}\Z"
_RESERVED = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
"""Words that a YAML 1.1 reader may take for a boolean or null, in upper or lower case."""

_ESCAPED = "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
"""Not printable in YAML, a line break in YAML 1.1, or a reordering of the visible text."""

_UNSTORABLE = "[\0\ud800-\udfff]"
_quoted = json.JSONEncoder(ensure_ascii=False).encode


def scalar(value: object) -> str:
    """A scalar on one line; NUL and lone surrogates, which no file may contain, become U+FFFD."""
    if isinstance(value, str):
        return _string(str(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 requires a point before an exponent
    return text


def _string(text: str) -> str:
    if re.match(_WORD, text) and text.lower() not in _RESERVED:
        return text
    if text.isprintable():  # then no character needs an escape
        return _quoted(text)
    quoted = _quoted(re.sub(_UNSTORABLE, "\ufffd", text))
    return re.sub(_ESCAPED, lambda match: f"\\u{ord(match[0]):04x}", quoted)


def flow(value: object) -> str:
    """Any value on one line: `word`, `["a", "b"]`, `{id: "plan#1", place: after}`."""
    if isinstance(value, str):
        return _string(str(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def pair(key: str, value: object, indent: int) -> str:
    """`key: value` and a line end, indented; a list of mappings takes a line for each."""
    margin = " " * indent
    if isinstance(value, str):
        return f"{margin}{key}: {_string(str(value))}\n"
    if isinstance(value, Block):
        return f"{margin}{key}:\n" + "".join(pair(k, v, indent + 2) for k, v in value.items())
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
        return f"{margin}{key}:\n" + "".join(f"{margin}  - {flow(item)}\n" for item in value)
    return f"{margin}{key}: {flow(value)}\n"


def yaml_text(data: dict[str, Data]) -> str:
    """A mapping as YAML, which `strict_yaml.load` reads as it is."""
    return "".join(f"{line}\n" for line in _lines(data, ""))


def _lines(data: dict[str, Data] | list[Data], margin: str) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _item(f"{margin}{scalar(key)}:", value, margin)
    else:
        for value in data:
            if isinstance(value, (dict, list)) and value:
                first, *others = _lines(value, f"{margin}  ")
                yield f"{margin}- {first.removeprefix(f'{margin}  ')}"
                yield from others
            else:
                yield from _item(f"{margin}-", value, margin)


def _item(start: str, value: Data, margin: str) -> Iterator[str]:
    if not isinstance(value, str):
        if value:
            yield start
            yield from _lines(value, f"{margin}  ")
        else:
            yield f"{start} {'{}' if isinstance(value, dict) else '[]'}"
    elif isinstance(value, Plain) and not isinstance(value.value, str):
        yield f"{start} {value}".rstrip()
    elif _fits_a_block(value):
        yield f"{start} |" if value.endswith("\n") else f"{start} |-"
        for line in value.removesuffix("\n").split("\n"):
            yield f"{margin}  {line}" if line else ""
    else:
        yield f"{start} {scalar(str(value))}"


def _fits_a_block(text: str) -> bool:
    lines = text.removesuffix("\n").split("\n")
    return (
        len(lines) > 1
        and all(line.replace("\t", " ").isprintable() for line in lines)
        and bool(lines[0].strip() and lines[-1].strip())
        and not lines[0].startswith((" ", "\t"))
    )
