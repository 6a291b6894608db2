"""Strict YAML: data with positions, no hostile or ambiguous text.

UTF-8, one document, scalars kept as typed; no tags, anchors, aliases, merge keys, directives,
complex or duplicate keys, tabs as indentation. The size is checked first, the depth at each event
of the parser: nothing here recurses, and libyaml looks ahead by one line only.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from playbook_supervisor.errors import CheckError, StateError
from playbook_supervisor.formats.located import Builder, Document, Plain, refuse, refuse_conflict
from playbook_supervisor.formats.sanitize import printable

MAX_BYTES = 1024 * 1024
# People write more bytes per value; a file of nothing but brackets would take 200 MiB.
_BYTES_PER_VALUE = 8

# Patterns are compiled at their first use: most of them only when something is wrong.
_CONTROL = "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
_TAB_INDENT = r"[ \-?]*+\t[ \t\-?]*\Z"
_LINE_END = r"\r\n?|\n"
_QUOTE = "Put the text in quotes."
_EXPLANATIONS = (
    (
        "simple key",
        "this is neither `key: value` nor an item of a list",
        "Put `: ` after the key, or quote the text.",
        "context",
    ),
    (
        "mapping values are not allowed",
        "there is one `:` too many, or the line is indented wrongly",
        "Quote a text that contains `: `, or correct the indentation.",
        "problem",
    ),
    ("end of stream", "this quotation mark is never closed", "Close it.", "context"),
    ("document indicator", "there is a `---` or `...` line within quotes", "Indent it.", "problem"),
    ("document separator", "there is a `---` or `...` line within quotes", "Indent it.", "problem"),
    (
        "escape",
        "this text in double quotes has an escape that YAML does not know",
        "Write `\\\\` for a backslash, or use single quotes.",
        "problem",
    ),
    ("an alias", "an unquoted text cannot begin with `*`", _QUOTE, "context"),
    ("an anchor", "an unquoted text cannot begin with `&`", _QUOTE, "context"),
    ("a tag", "an unquoted text cannot begin with `!`", _QUOTE, "context"),
    ("cannot start any token", "an unquoted text cannot begin with `{found}`", _QUOTE, "problem"),
    (
        "block scalar",
        "there is unexpected text after `|` or `>`",
        "Begin the text on the next line.",
        "problem",
    ),
    (
        "flow",
        "this bracket is not closed, or a `,` is missing after it",
        "Correct the text between the brackets.",
        "context",
    ),
    (
        "block",
        "this does not fit the list or mapping around it",
        "Align items that belong together, and quote a text as a whole.",
        "problem",
    ),
    ("document start", "there is more text after the end of the document", "Remove it.", "problem"),
)
"""Words of the parser → our message and cure, and whose place is to be corrected."""


def load(data: bytes, source: str, *, limit: int = MAX_BYTES) -> Document:
    """The one document of a file; an empty file is the empty `Plain`.

    `source` is its name in messages; one that ends in `.json` is read as JSON. `limit` is the most
    bytes, and limits the values. CheckError PB-CHECK-YAML or PB-CHECK-HOSTILE, with the position.
    """
    text = decode(data, source, limit)
    if source.endswith(".json"):
        from playbook_supervisor.formats.strict_json import read_json

        return read_json(text, source, limit // _BYTES_PER_VALUE)
    return read_yaml(text, source, limit // _BYTES_PER_VALUE)


def load_of_session(data: bytes, source: str, *, limit: int = MAX_BYTES) -> Document:
    """Load a session's file, which `repair` mends: StateError PB-STATE-CORRUPT for a CheckError."""
    try:
        return load(data, source, limit=limit)
    except CheckError as error:
        raise StateError(
            "PB-STATE-CORRUPT",
            error.message,
            where=error.source,
            position=error.position,
            cause=error.guidance,
        ) from error


def decode(data: bytes, source: str, limit: int) -> str:
    """The text of a file without its byte order mark; CheckError as `load`."""
    if len(data) > limit:
        said = f"{len(data):,} bytes; at most {limit:,} are read"
        refuse(source, 1, 1, said, "Split it; move long text to other files.", hostile=True)
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as fault:
        before = data[: fault.start].decode("utf-8", "replace").removeprefix("\ufeff")
        said = f"the byte 0x{data[fault.start]:02x} is not UTF-8"
        refuse(source, *_end_of(before), said, "Save the file as UTF-8.")
    if control := re.search(_CONTROL, text):
        said = f"the character U+{ord(control[0]):04X} is not allowed"
        cure = "Remove it; it is invisible, and YAML readers disagree on its meaning."
        refuse(source, *_end_of(text[: control.start()]), said, cure, hostile=True)
    return text


def _end_of(text: str) -> tuple[int, int]:
    lines = re.split(_LINE_END, text)
    return len(lines), len(lines[-1]) + 1


def read_yaml(text: str, source: str, max_values: int) -> Document:
    """The one document of a text that was decoded; CheckError as `load`."""
    import yaml
    from yaml import events

    scalar, alias, document = events.ScalarEvent, events.AliasEvent, events.DocumentStartEvent
    begins = (events.MappingStartEvent, events.SequenceStartEvent)
    ends = (events.MappingEndEvent, events.SequenceEndEvent)
    builder = Builder(source, max_values)
    strictness = _Strictness(text, source)
    line = col = 1
    # The pure-Python parser gives the same events, only slower. We never reach its node
    # constructor, which recurses.
    parser: Any = (yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)(text)
    try:
        while (event := parser.get_event()) is not None:
            mark = event.start_mark
            line, col = mark.line + 1, mark.column + 1
            if isinstance(event, scalar):
                strictness.examine_node(event, line, col)
                builder.scalar(event.value if event.style else Plain(event.value), line, col)
            elif isinstance(event, begins):
                strictness.examine_node(event, line, col)
                builder.begin(line, col, mapping=isinstance(event, begins[0]))
            elif isinstance(event, ends):
                builder.end()
            elif isinstance(event, alias):
                strictness.refuse_anchor(line, col)
            elif isinstance(event, document):
                strictness.examine_document(event, line, col)
    except yaml.MarkedYAMLError as fault:
        strictness.explain(fault)
    except (ValueError, OverflowError):
        # Only the pure-Python parser: an escape beyond Unicode, a version of 5,000 digits.
        refuse(source, line, col, "the text after this is not well formed", "Correct it.")
    finally:
        parser.dispose()
    return builder.document


class _Strictness:
    """Refuses what YAML allows and we do not, and explains the parser's errors."""

    def __init__(self, text: str, source: str) -> None:
        self._text, self._source = text, source
        self._tabbed = re.split(_LINE_END, text) if "\t" in text else []
        self._documents = 0

    def examine_node(self, event: Any, line: int, col: int) -> None:
        if event.anchor is not None:
            self.refuse_anchor(line, col)
        if event.tag is not None or self._text.startswith("!", event.start_mark.index):
            cure = "Remove the tag, or quote a text that begins with `!`."
            self._refuse_hostile(line, col, "tags (`!…`) are not allowed", cure)
        if self._tabbed and re.match(_TAB_INDENT, self._tabbed[line - 1][: col - 1]):
            self._refuse_tab(line, col)

    def examine_document(self, event: Any, line: int, col: int) -> None:
        self._documents += 1
        if self._documents > 1:
            cure = "Write one document per file."
            refuse(self._source, line, col, "a second document begins", cure)
        if event.explicit:
            before = re.split(_LINE_END, self._text[: event.end_mark.index])
            for number, written in enumerate(before, start=1):
                if written.startswith("%"):
                    self._refuse_directive(number)

    def refuse_anchor(self, line: int, col: int) -> NoReturn:
        message = "anchors and aliases (`&…`, `*…`) are not allowed"
        cure = "Write the value out, or quote a text that begins with `&` or `*`."
        self._refuse_hostile(line, col, message, cure)

    def explain(self, fault: Any) -> NoReturn:
        """Raise the parser's error in plain words, at the place to correct."""
        refuse_conflict(self._text, self._source)
        mark = fault.problem_mark
        found = self._text[mark.index : mark.index + 1]
        problem, context = fault.problem or "", fault.context or ""
        if "tab character" in problem or found == "\t":
            self._refuse_tab(mark.line + 1, mark.column + 1)
        if "directive" in context:
            self._refuse_directive(mark.line + 1)
        said, message, guidance = f"{context}; {problem}", problem, ""
        for words, ours, cure, where in _EXPLANATIONS:
            if words in said:
                message, guidance = ours.replace("{found}", printable(found)), cure
                mark = fault.context_mark if where == "context" and fault.context_mark else mark
                break
        refuse(self._source, mark.line + 1, mark.column + 1, message, guidance)

    def _refuse_tab(self, line: int, col: int) -> NoReturn:
        message = "a tab is used as indentation"
        refuse(self._source, line, col, message, "Indent with spaces, as YAML requires.")

    def _refuse_directive(self, line: int) -> NoReturn:
        cure = "Remove the line; YAML 1.2 is always assumed."
        self._refuse_hostile(line, 1, "directives (`%…`) are not allowed", cure)

    def _refuse_hostile(self, line: int, col: int, message: str, guidance: str) -> NoReturn:
        refuse(self._source, line, col, message, guidance, hostile=True)
