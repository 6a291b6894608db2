"""Changes as lines for a terminal: bounded, and harmless."""

from __future__ import annotations

from playbook_supervisor.cli.render.prompt import diff_lines
from playbook_supervisor.formats.file_changes import Changes, DiffLine, FileChange, Hunk


def hunk(lines: int) -> Hunk:
    return Hunk(
        "@@ -1 +1 @@",
        tuple(DiffLine("added", 0, each + 1, f"line {each}") for each in range(lines)),
    )


def test_what_is_left_out_is_counted() -> None:
    file = FileChange("a\x1b.py", added=5, hunks=(hunk(2),), left_out=3, notes=("binary",))
    shown = list(diff_lines(Changes((file,), added=5)))
    assert shown[1:4] == ["@@ -1 +1 @@", "+line 0", "+line 1"]
    assert shown[4] == "\u2026 3 more lines"
    assert "\x1b" not in shown[0]


def test_at_most_400_lines_are_shown() -> None:
    shown = list(diff_lines(Changes((FileChange("a.py", added=500, hunks=(hunk(500),)),))))
    assert len(shown) == 402
    assert shown[400] == "\u2026 and more: `git diff` and `git status` show all"


def test_nothing_and_not_known_are_not_the_same() -> None:
    assert list(diff_lines(Changes())) == ["nothing has changed"]
    assert list(diff_lines(Changes(exact=False))) == ["not known; `git status` may tell"]
