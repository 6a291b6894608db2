"""The bytes of a journal, split into what is settled and what may still change.

Settled phases are one block of bytes that is never parsed again, so a write takes as long at 1,000
entries as at ten, except for copying the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.files.journal import (
    EMPTY,
    ParsedJournal,
    emit_entry,
    entry_mapping,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class JournalText(Record):
    """`due` is the text of each entry of the due phase; `past` is all before, `rest` all after.

    `indent` is the column of an entry's dash; `hollow` is where in `past` an empty journal has its
    value (`[]`), which is removed with the first entry.
    """

    past: bytes = EMPTY
    due: tuple[bytes, ...] = ()
    rest: bytes = b""
    indent: int = 2
    hollow: tuple[int, int] = (len(EMPTY) - 4, len(EMPTY) - 1)

    @property
    def data(self) -> bytes:
        return b"".join((self.past, *self.due, self.rest))

    @classmethod
    def parsed(cls, data: bytes, parsed: ParsedJournal, due: int) -> JournalText:
        """The text of a journal just parsed, whose last `due` entries may still change."""
        spans = parsed.spans[len(parsed.spans) - due :]
        begin = spans[0][0] if spans else parsed.end
        return cls(
            past=data[:begin],
            due=tuple(data[start:stop] for start, stop in spans),
            rest=data[parsed.end :],
            indent=parsed.indent,
            hollow=parsed.hollow,
        )

    def with_entry(self, index: int, before: Entry, after: Entry) -> JournalText:
        """Change the entry at `index` of the due phase; a person's notes in it are kept."""
        text = self.due[index]
        untouched = emit_entry(before, indent=self.indent)
        if text.startswith(untouched):
            changed = emit_entry(after, indent=self.indent) + text[len(untouched) :]
        else:
            from playbook_supervisor.formats.yaml_edit import edit_entry

            changed = edit_entry(text, entry_mapping(before), entry_mapping(after))
        return replace(self, due=(*self.due[:index], changed, *self.due[index + 1 :]))

    def with_new(self, entry: Entry) -> JournalText:
        """Add an entry at the end; all earlier bytes are kept."""
        new = emit_entry(entry, indent=self.indent)
        if self.due:
            *earlier, last = self.due
            return replace(self, due=(*earlier, _ended(last), new))
        start, stop = self.hollow
        past = self.past[:start] + self.past[stop:] if stop else self.past
        return replace(self, past=_ended(past), due=(new,), hollow=(0, 0))

    def settled(self) -> JournalText:
        """The same bytes with all entries settled."""
        return replace(self, past=b"".join((self.past, *self.due)), due=())

    def places(self) -> dict[str, Any]:
        """The lengths and places as JSON, for the runtime state."""
        return {
            "past": len(self.past),
            "due": [len(text) for text in self.due],
            "indent": self.indent,
            "hollow": self.hollow,
        }

    @classmethod
    def placed(cls, data: bytes, places: Mapping[str, Any]) -> JournalText:
        """The inverse of `places`."""
        at: int = places["past"]
        past, due = data[:at], []
        for length in places["due"]:
            due.append(data[at : at + length])
            at += length
        start, stop = places["hollow"]
        return cls(past, tuple(due), data[at:], places["indent"], (start, stop))


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"
