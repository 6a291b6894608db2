"""Changes of files as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from playbook_supervisor.formats.file_changes import Changes, FileChange, visible
from playbook_supervisor.formats.sanitize import counted

_MOST = 400  # lines
_SIGNS = {"added": "+", "removed": "-", "context": " ", "remark": " "}


def lines(changes: Changes) -> Iterator[str]:
    """The first lines of the changes, harmless, and how many more there are."""
    if not changes.files:
        yield "nothing has changed" if changes.exact else "not known; `git status` may tell"
        return
    shown = (line for file in changes.files for line in _file(file))
    yield from islice(shown, _MOST)
    if next(shown, None) is not None:
        yield "… and more: `git diff` and `git status` show all"
    yield changes.summary


def _file(file: FileChange) -> Iterator[str]:
    yield f"── {visible(', '.join([f'{file.path} ({file.kind})', *file.notes]))}"
    for hunk in file.hunks:
        yield visible(hunk.heading)
        yield from (f"{_SIGNS[line.kind]}{visible(line.text)}" for line in hunk.lines)
    if file.left_out:
        yield f"… {counted(file.left_out, 'more line')}"
