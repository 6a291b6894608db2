"""Git's unified diff as records, and the records as part of a page."""

from __future__ import annotations

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.formats.file_changes import (
    LONGEST_LINE,
    MOST_LINES,
    MOST_LINES_OF_A_FILE,
    Changes,
    DiffLine,
    FileChange,
    Hunk,
    parse,
    visible,
)
from playbook_supervisor.system.disk import templates

CHANGED = """\
diff --git a/greet.py b/greet.py
index 1111111..2222222 100644
--- a/greet.py
+++ b/greet.py
@@ -1,3 +1,3 @@ def greet():
 def greet():
-    return "Hello"
+    return "Hi"
 # end
\\ No newline at end of file
"""


def read(text: str, listed: tuple[FileChange, ...] | None = None) -> Changes:
    return parse(text.split("\n"), listed)


def added(path: str, lines: int, text: str = "x") -> str:
    header = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return header + f"@@ -0,0 +1,{lines} @@\n" + f"+{text}\n" * lines


def shown_lines(changes: Changes) -> list[DiffLine]:
    return [line for file in changes.files for hunk in file.hunks for line in hunk.lines]


class TestReading:
    def test_a_changed_file_has_its_lines_with_their_numbers(self) -> None:
        changes = read(CHANGED)
        lines = (
            DiffLine("context", 1, 1, "def greet():"),
            DiffLine("removed", 2, 0, '    return "Hello"'),
            DiffLine("added", 0, 2, '    return "Hi"'),
            DiffLine("context", 3, 3, "# end"),
            DiffLine("remark", 0, 0, "No newline at end of file"),
        )
        hunk = Hunk("@@ -1,3 +1,3 @@ def greet():", lines)
        file = FileChange("greet.py", added=1, removed=1, hunks=(hunk,))
        assert changes == Changes((file,), added=1, removed=1)
        assert changes.summary == "1 file, +1 −1"

    def test_lines_that_look_like_headers_are_lines(self) -> None:
        text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n"
        (file,) = read(text + "--- a/evil\n-@@ -1 +1 @@\n+++ b/evil\n+diff --git a/y b/y\n").files
        assert (file.path, file.added, file.removed) == ("x", 2, 2)
        assert [line.text for line in file.hunks[0].lines] == [
            "-- a/evil",
            "@@ -1 +1 @@",
            "++ b/evil",
            "diff --git a/y b/y",
        ]

    @pytest.mark.parametrize(
        ("header", "change"),
        [
            ("new file mode 100755", FileChange("x y", kind="new", notes=("executable",))),
            ("deleted file mode 100644", FileChange("x y", kind="deleted")),
            ("old mode 100644\nnew mode 100755", FileChange("x y", notes=("now executable",))),
            ("index 1..2 120000", FileChange("x y", notes=("symbolic link",))),
            ("Binary files a/x y and b/x y differ", FileChange("x y", notes=("binary",))),
        ],
    )
    def test_a_file_without_lines_says_what_happened(self, header: str, change: FileChange) -> None:
        assert read(f"diff --git a/x y b/x y\n{header}\n").files == (change,)

    def test_a_renamed_file_has_both_paths(self) -> None:
        text = "diff --git a/a b b/c d\nsimilarity index 100%\nrename from a b\nrename to c d\n"
        assert read(text).files == (FileChange("c d", "a b", "renamed"),)

    def test_a_file_that_became_a_link_is_one_file(self) -> None:
        removed = "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n"
        link = added("x", 1, "target").replace("100644", "120000")
        (file,) = read(removed + "@@ -1 +0,0 @@\n-old\n" + link).files
        assert (file.kind, file.added, file.removed) == ("changed", 1, 1)
        assert file.notes == ("symbolic link",)

    def test_quoted_paths_are_unquoted(self) -> None:
        name = r"\"q\"\\\303\266\001"
        text = f'diff --git "a/{name}" "b/{name}"\nold mode 100644\nnew mode 100755\n'
        assert read(text).files[0].path == '"q"\\ö‹U+0001›'
        header = f'diff --git "a/{name}" "b/{name}"\n--- "a/{name}"\n+++ "b/{name}"\n'
        assert read(header).files[0].path == '"q"\\ö‹U+0001›'

    def test_an_empty_line_may_lack_its_blank(self) -> None:
        text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n\n-a\n+b\n"
        assert [line.kind for line in shown_lines(read(text))] == ["context", "removed", "added"]

    @given(
        st.lists(
            st.sampled_from([*CHANGED.splitlines(), "", "+", "-", '"', "@@ -0 +9,99 @@"])
            | st.text(max_size=9)
            | st.builds("{}{}".format, st.sampled_from(["--- ", "rename to ", "\\"]), st.text())
        )
    )
    def test_any_damaged_diff_keeps_its_promises(self, lines: list[str]) -> None:
        changes = parse(lines)
        for file in changes.files:
            kinds = [line.kind for hunk in file.hunks for line in hunk.lines]
            assert kinds.count("added") == file.added
            assert kinds.count("removed") == file.removed
            assert not file.left_out
            assert "\n" not in file.path


class TestLimits:
    def test_a_long_file_is_cut_and_its_lines_are_counted(self) -> None:
        (file,) = read(added("x", MOST_LINES_OF_A_FILE + 312)).files
        assert len(file.hunks[0].lines) == MOST_LINES_OF_A_FILE
        assert (file.added, file.left_out) == (MOST_LINES_OF_A_FILE + 312, 312)

    def test_all_files_together_have_at_most_so_many_lines(self) -> None:
        changes = read("".join(added(f"f{number}", 1_900) for number in range(7)))
        assert len(shown_lines(changes)) == MOST_LINES
        assert [file.left_out for file in changes.files[-2:]] == [1_400, 1_900]
        assert changes.added == 7 * 1_900

    def test_nothing_is_read_that_would_not_be_shown(self) -> None:
        def text() -> list[str]:
            return [line for n in range(6) for line in added(f"f{n}", 2_000).splitlines()]

        def lines() -> object:
            yield from text()
            raise AssertionError("read to the end")

        listed = tuple(FileChange(f"f{number}", added=2_000) for number in range(9))
        changes = parse(lines(), listed)  # type: ignore[arg-type]
        assert changes.summary == "9 files, +18000 −0"
        assert [file.left_out for file in changes.files] == [0] * 5 + [2_000] * 4

    def test_many_empty_hunks_are_no_content(self) -> None:
        """Quadratic time would exceed the limit of a test."""
        text = "diff --git a/x b/x\n" + "@@ -1,0 +1,0 @@\n" * 200_000
        assert read(text).files == (FileChange("x"),)


class TestVisibleText:
    @pytest.mark.parametrize(
        ("hostile", "seen"),
        [
            ("plain – naïve ✓", "plain – naïve ✓"),
            ("\ttab\tstop", "    tab stop"),
            ("\x1b]0;hidden\x07", "‹U+001B›]0;hidden‹U+0007›"),
            ("user\u202etxt.exe", "user‹U+202E›txt.exe"),
            ("zero\u200bwidth\ufeff", "zero‹U+200B›width‹U+FEFF›"),
            ("\x7f\x9b\r", "‹U+007F›‹U+009B›‹U+000D›"),
            ("half \ud800", "half ‹U+D800›"),
        ],
    )
    def test_what_hides_text_is_shown(self, hostile: str, seen: str) -> None:
        assert visible(hostile) == seen

    def test_a_line_of_ten_megabytes_is_cut(self) -> None:
        assert visible("x" * 10_000_000) == "x" * (LONGEST_LINE - 1) + "…"
        assert visible("x" * LONGEST_LINE) == "x" * LONGEST_LINE
        assert len(visible("\u202e" * 10_000_000)) == LONGEST_LINE


class TestPage:
    def render(self, changes: Changes) -> str:
        folder = templates.folder() / "pages"
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
        )
        template = "{% import 'diff.html' as differences %}{{ differences.diff(changes) }}"
        return environment.from_string(template).render(changes=changes)

    def test_a_line_has_its_numbers_and_a_sign(self) -> None:
        page = self.render(read(CHANGED))
        assert "<p>1 file, +1 −1</p>" in page
        assert "<tr class=line-removed><td>2<td><td>-    return &#34;Hello&#34;" in page
        assert "<tr class=line-added><td><td>2<td>+    return &#34;Hi&#34;" in page
        assert "<tr><td>1<td>1<td> def greet():" in page

    def test_a_file_says_what_kind_of_change_it_is(self) -> None:
        files = (
            FileChange("new.png", kind="new", notes=("binary",)),
            FileChange("now", "then", "renamed"),
            FileChange("far", added=9, left_out=9),
        )
        page = self.render(Changes(files, added=9, left_out_files=40))
        assert '<span class="note">new, binary</span>' in page
        assert 'renamed from <span class="path">then</span>' in page
        assert '<span class="note">too much to show</span> <span class="plus">+9</span>' in page
        assert "… and 40 more files" in page

    def test_hostile_text_is_escaped(self) -> None:
        page = self.render(read(added('"><script>alert(1)</script>', 1, "</table><img src=x>")))
        assert "<script" not in page
        assert "<img" not in page

    def test_without_changes_there_is_no_list(self) -> None:
        assert self.render(Changes()).strip() == "<p>Nothing has changed.</p>"
        assert "at least 0 files" in self.render(Changes(exact=False))
