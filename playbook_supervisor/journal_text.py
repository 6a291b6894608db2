"""The bytes of a journal, and where the entries that may still change stand in them.

A write is the old bytes plus what changed: settled phases are never looked at again, so settling
the last of 1,000 entries costs what it costs in a journal of ten, give or take the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from playbook_supervisor.journal import EMPTY, Parsed, emit_entry, entry_mapping
from playbook_supervisor.kernel.state import Entry

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class JournalText:
    """`spans` are the byte offsets of the due phase's entries, in order; the rest is the past.

    `end` is where the next entry is to be put, `indent` the column of its dash, `hollow` what an
    empty journal has for a value (`[]`) and loses with its first entry.
    """

    data: bytes
    spans: tuple[Span, ...] = ()
    end: int = len(EMPTY)
    indent: int = 2
    hollow: Span = (len(EMPTY) - 4, len(EMPTY) - 1)

    @classmethod
    def parsed(cls, data: bytes, parsed: Parsed, due: int) -> JournalText:
        """The text of a journal just read, of whose entries the last `due` may still change."""
        spans = parsed.spans[len(parsed.spans) - due :]
        return cls(data, spans, parsed.end, parsed.indent, parsed.hollow)

    def with_entry(self, index: int, before: Entry, after: Entry) -> JournalText:
        """The entry at `index` of the due phase changed; what a person put into it survives."""
        start, stop = self.spans[index]
        fragment = self.data[start:stop]
        untouched = emit_entry(before, indent=self.indent)
        if fragment.startswith(untouched):
            changed = emit_entry(after, indent=self.indent) + fragment[len(untouched) :]
        else:
            from playbook_supervisor.roundtrip import edit_entry

            changed = edit_entry(fragment, entry_mapping(before), entry_mapping(after))
        moved = len(changed) - len(fragment)
        later = tuple((a + moved, b + moved) for a, b in self.spans[index + 1 :])
        return replace(
            self,
            data=self.data[:start] + changed + self.data[stop:],
            spans=(*self.spans[:index], (start, stop + moved), *later),
            end=self.end + moved,
        )

    def with_new(self, entry: Entry) -> JournalText:
        """One more entry at the end; every byte that was there before is there."""
        hole, hole_end = self.hollow
        head = self.data[:hole] + self.data[hole_end : self.end]
        if not head.endswith(b"\n"):
            head += b"\n"
        new = head + emit_entry(entry, indent=self.indent)
        return replace(
            self,
            data=new + self.data[self.end :],
            spans=(*self.spans, (len(head), len(new))),
            end=len(new),
            hollow=(0, 0),
        )

    def settled(self) -> JournalText:
        """The same bytes, all of whose entries are past."""
        return replace(self, spans=())

    def places(self) -> dict[str, Any]:
        """Everything but the bytes, as JSON, for the runtime state."""
        return {
            "spans": self.spans,
            "end": self.end,
            "indent": self.indent,
            "hollow": self.hollow,
        }

    @classmethod
    def placed(cls, data: bytes, places: Mapping[str, Any]) -> JournalText:
        """The inverse of `places`."""
        spans = tuple((start, stop) for start, stop in places["spans"])
        start, stop = places["hollow"]
        return cls(data, spans, places["end"], places["indent"], (start, stop))
