"""Two copies of a session's folder become one, with every entry and every note."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from playbook_supervisor.sessions.files.journal import HEADER, emit_entry, parse_journal
from playbook_supervisor.sessions.files.merging import Files, merge

JOURNALS = Path(__file__).parent.parent / "journals"
OURS = JOURNALS / "ours/journal.yaml"
EACH = [each for each in sorted(JOURNALS.glob("**/journal.yaml")) if "broken" not in each.parts]


def unknown(file: str, content: bytes) -> bool:
    """No version was ever committed."""
    del file, content
    return False


def plain(path: Path) -> bytes:
    """The journal's entries as this version writes them."""
    entries = parse_journal(path.read_bytes(), "journal.yaml").entries
    return HEADER + b"".join(map(emit_entry, entries))


def merged(ours: bytes, theirs: bytes) -> bytes:
    found = merge({"journal.yaml": ours}, {"journal.yaml": theirs}, unknown)
    assert found.conflicts == ()
    return found.writes.get("journal.yaml", theirs)


def test_a_note_on_any_line_of_an_older_copy_is_kept() -> None:
    newer = plain(OURS)
    parsed = parse_journal(newer, "journal.yaml")
    for start, _ in parsed.spans:
        older = newer[:start] if start > len(HEADER) else b"schema: 1\nentries: []\n"
        lines = older.splitlines(keepends=True)
        for at in range(0, len(lines) + 1, 9):
            noted = b"".join((*lines[:at], b"# a note\n", *lines[at:]))
            for one, other in ((newer, noted), (noted, newer)):
                result = merged(one, other)
                assert parse_journal(result, "journal.yaml").entries == parsed.entries
                assert result.replace(b"# a note\n", b"", 1) == newer


@pytest.mark.parametrize("path", EACH, ids=lambda path: path.parent.name)
def test_an_older_copy_without_notes_is_continued(path: Path) -> None:
    newer = path.read_bytes()
    parsed = parse_journal(newer, "journal.yaml")
    for (start, _), _ in pairwise(parsed.spans):
        older = newer[:start]
        if len(older) > parsed.spans[0][0]:
            assert merged(newer, older) == newer
            assert merged(older, newer) == newer


def conflicts(ours: Files, theirs: Files) -> tuple[str, ...]:
    return merge(ours, theirs, unknown).conflicts


def test_files_that_contradict_each_other_are_named() -> None:
    one = plain(OURS)
    other = one.replace(b"status: done", b"status: failed", 1)
    (told,) = conflicts({"journal.yaml": one}, {"journal.yaml": other})
    assert told.startswith("journal.yaml: the entry ")
    same = {"journal.yaml": one}
    (told,) = conflicts({**same, "notes.md": b"a\n"}, {**same, "notes.md": b"b\n"})
    assert told == "notes.md: it differs"


def test_what_this_program_alone_writes_comes_from_the_newer_copy() -> None:
    newer = plain(OURS)
    older = newer[: parse_journal(newer, "journal.yaml").spans[-1][0]]
    ours = {"journal.yaml": newer, "records.yaml": b"new\n", "outputs/plan.json": b"new\n"}
    theirs = {"journal.yaml": older, "records.yaml": b"old\n", "outputs/plan.json": b"old\n"}
    assert merge(ours, theirs, unknown).writes == ours
    assert merge(theirs, ours, unknown).empty
