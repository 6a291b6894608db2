"""Edits of a YAML text that keep the author's layout: only the changed values are replaced.

ruamel.yaml gives the position of each value. Comments, key order, quoting, unknown keys and blank
lines outside the changed values stay byte for byte. (A comment *inside* a removed value is removed
with it.) The strict reader has read the text before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from playbook_supervisor.formats.yaml_writer import flow, pair

_REST_OF_LINE = re.compile(r"[^\r\n]*")
_WHOLE_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)?")
_TABS = re.compile(r"(?<=\S)[ \t]*\t[ \t]*")
_BLANKS = re.compile(r"[ \t]*")
_COLON = re.compile(r"[ \t]*:")
_DASH = re.compile(r"(?:\s|(?<=\s)#[^\r\n]*)*+-")
_BLOCK_HEADER = re.compile(r"[|>][-+0-9]*")
_COMMA = re.compile(r"(?:\s|(?<=\s)#[^\r\n]*)*+(?P<comma>,[ \t]*)")


def edit_mapping(text: bytes, before: Mapping[str, object], after: Mapping[str, object]) -> bytes:
    """Edit a file whose top level is the mapping `before`, so that it becomes `after`.

    New keys come in the order of `after`. Keys that are in neither are a person's notes.
    """
    editor = _Editor(text.decode())
    editor.mapping(editor.root, before, after)
    return editor.result()


def edit_entry(fragment: bytes, before: Mapping[str, object], after: Mapping[str, object]) -> bytes:
    """Edit one entry of a journal in the same way: `  - step_id: …` up to the next dash."""
    editor = _Editor(fragment.decode())
    editor.mapping(editor.root.value[0], before, after)
    return editor.result()


class _Editor:
    def __init__(self, text: str) -> None:
        self._bom = "\ufeff" if text.startswith("\ufeff") else ""
        self._text = text.removeprefix("\ufeff")
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._splices: list[tuple[int, int, str]] = []
        # libyaml accepts tabs between tokens, ruamel does not; blanks keep the positions
        blanks = _TABS.sub(lambda match: " " * len(match[0]), self._text)
        self.root: Any = YAML(typ="safe", pure=True).compose(blanks)
        self._empty: dict[Node, int] = {}
        self._find_empty(self.root)

    def result(self) -> bytes:
        pieces, at = [self._bom], 0
        for start, end, new in sorted(self._splices, key=lambda splice: splice[:2]):
            pieces += [self._text[at:start], new.replace("\n", self._newline)]
            at = end
        return "".join([*pieces, self._text[at:]]).encode()

    def mapping(
        self, node: MappingNode, before: Mapping[str, object], after: Mapping[str, object]
    ) -> None:
        at = {key.value: (key, value) for key, value in node.value}
        gone = [key for key in before if key not in after and key in at]
        if len(gone) == len(at):  # no key is left as an anchor for new ones
            self._replace(node, flow(after))
            return
        above = None
        for key, (name, value) in at.items():
            if key in gone:
                self._remove(node, name, value, above)
            else:
                above = value
        anchor = next(key for key in reversed(at) if key not in gone)
        for key, value in after.items():
            if key in at:
                anchor = key
                if before.get(key) != value:
                    self._value(at[key][1], before.get(key), value)
            elif before.get(key) != value:
                self._add(node, at[anchor][1], key, value)

    def _value(self, node: Node, before: object, after: object) -> None:
        if isinstance(node, MappingNode) and _both(Mapping, before, after):
            self.mapping(node, before, after)  # type: ignore[arg-type]
        elif isinstance(node, SequenceNode) and _both(list, before, after):
            self._sequence(node, before, after)  # type: ignore[arg-type]
        else:
            self._replace(node, flow(after))

    def _sequence(
        self, node: SequenceNode, before: Sequence[object], after: Sequence[object]
    ) -> None:
        if len(after) < len(before) or not node.value:
            self._replace(node, flow(after))
            return
        for item, old, new in zip(node.value, before, after, strict=False):
            if old != new:
                self._value(item, old, new)
        last = node.value[-1]
        for item in after[len(before) :]:
            if node.flow_style:
                self._insert(self._tail(last), f", {flow(item)}")
            else:
                margin = " " * node.start_mark.column
                self._insert(self._line_end(last), f"\n{margin}- {flow(item)}")

    def _replace(self, node: Node, new: str) -> None:
        end = self._tail(node)
        start = end if node in self._empty else node.start_mark.index
        if node in self._empty:
            new = f" {new}"
        elif _is_block_scalar(node):
            new += self._rest_of_line(self._header_end(node))
        elif _is_block(node):
            new = f"  {new}"  # its dashes may be at the column of its key
        self._splices.append((start, end, new))

    def _remove(self, node: MappingNode, key: Node, value: Node, above: Node | None) -> None:
        """Remove a pair; a comment after it stays, a line that becomes blank is removed."""
        start, end = key.start_mark.index, self._tail(value)
        new = ""
        if node.flow_style:
            if comma := _COMMA.match(self._text, end):
                self._splices.append((*comma.span("comma"), ""))
        else:
            end = _span_end(_BLANKS, self._text, end)  # so that the line does not begin with a tab
            line = self._line_start(start)
            if not (self._text[line:start].strip() or self._rest_of_line(end)):
                if above and _is_block_scalar(_last(above)):
                    new = "#"  # else the next lines could become part of the text above
                else:
                    start = line
                    end = _span_end(_WHOLE_LINE, self._text, end)
        self._splices.append((start, end, new))

    def _add(self, node: MappingNode, anchor: Node, key: str, value: object) -> None:
        if node.flow_style:
            # after a key without a value (`{a:}`) a comma would become part of the key
            comma = " ," if anchor in self._empty else ","
            self._insert(self._tail(anchor), f"{comma} {flow({key: value})[1:-1]}")
        else:
            column = node.value[0][0].start_mark.column
            self._insert(self._line_end(anchor), "\n" + pair(key, value, column).rstrip("\n"))

    def _insert(self, at: int, new: str) -> None:
        self._splices.append((at, at, new))

    def _find_empty(self, node: Node) -> None:
        """Find the positions of missing values (`error:`), which ruamel places too late."""
        if not isinstance(node.value, list):
            return
        at = node.start_mark.index
        for member in node.value:
            if isinstance(member, tuple):
                key, value = member
                at = _span_end(_COLON, self._text, key.end_mark.index)
            else:
                value = member
                at = _span_end(_DASH, self._text, at)
            if value.start_mark.index == value.end_mark.index:
                self._empty[value] = at
            else:
                self._find_empty(value)
                at = self._tail(value)

    def _tail(self, node: Node) -> int:
        """The end of a value's text, before blanks, comments and the line end."""
        if node in self._empty:
            return self._empty[node]
        end: int = node.end_mark.index
        if _is_block(node):
            return self._tail(_last(node))
        if _is_block_scalar(node):
            line = self._line_start(end)
            if not self._text[line:end].strip():
                end = line
            # `|+` keeps the blank lines after it as part of its value, except the last break
            text = self._text[:end]
            keeps = "+" in self._text[node.start_mark.index : self._header_end(node)]
            end = len(text.removesuffix("\n").removesuffix("\r") if keeps else text.rstrip())
        return end

    def _header_end(self, node: Node) -> int:
        return _span_end(_BLOCK_HEADER, self._text, node.start_mark.index)

    def _line_start(self, at: int) -> int:
        return max(self._text.rfind(end, 0, at) for end in "\r\n") + 1

    def _rest_of_line(self, at: int) -> str:
        return self._text[at : _span_end(_REST_OF_LINE, self._text, at)]

    def _line_end(self, node: Node) -> int:
        end = self._tail(node)
        return end + len(self._rest_of_line(end))


def _span_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _last(node: Node) -> Node:
    while _is_block(node):
        member = node.value[-1]
        node = member[1] if isinstance(member, tuple) else member
    return node


def _is_block(node: Node) -> bool:
    return isinstance(node.value, list) and not getattr(node, "flow_style", False)


def _is_block_scalar(node: Node) -> bool:
    return getattr(node, "style", None) in ("|", ">")


def _both(kind: type, before: object, after: object) -> bool:
    return isinstance(before, kind) and isinstance(after, kind)
