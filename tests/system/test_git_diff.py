"""All changes since a commit, in real repositories."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.git_repositories import git

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.formats.file_changes import MOST_LINES, Changes, FileChange
from playbook_supervisor.system.git import git_diff
from playbook_supervisor.system.git.git_diff import changes_of


def paths(changes: Changes) -> list[str]:
    return [file.path for file in changes.files]


def texts(file: FileChange) -> list[str]:
    signs = {"added": "+", "removed": "-", "context": " ", "remark": "\\"}
    return [signs[line.kind] + line.text for hunk in file.hunks for line in hunk.lines]


class TestWhatChanged:
    def test_committed_staged_unstaged_and_new_files_are_shown(
        self, repository: Path, head: str
    ) -> None:
        (repository / "b.txt").write_text("b\n")
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", "second")
        (repository / "c.txt").write_text("c\n")
        git(repository, "add", ".")
        (repository / "a.txt").write_text("two\n")
        (repository / "new").mkdir()
        (repository / "new" / "größe.md").write_text("x\ny")
        changes = changes_of(repository, head)
        assert changes.summary == "4 files, +5 −1"
        assert changes.exact
        assert paths(changes) == ["a.txt", "b.txt", "c.txt", "new/größe.md"]
        assert [file.kind for file in changes.files] == ["changed", "new", "new", "new"]
        assert texts(changes.files[0]) == ["-one", "+two"]
        assert texts(changes.files[3]) == ["+x", "+y", "\\No newline at end of file"]
        assert changes.files[3].hunks[0].heading == "@@ -0,0 +1,2 @@"

    def test_before_the_first_commit_everything_is_new(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "-q")
        (tmp_path / "staged").write_text("x\n")
        git(tmp_path, "add", "staged")
        (tmp_path / "new").write_text("x\n")
        changes = changes_of(tmp_path, "")
        assert paths(changes) == ["new", "staged"]
        assert changes.summary == "2 files, +2 −0"

    def test_deleted_renamed_and_binary_files_are_named(self, repository: Path, head: str) -> None:
        (repository / "long.txt").write_text("".join(f"{number}\n" for number in range(20)))
        (repository / "picture").write_bytes(b"\0")
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", "second")
        since = git(repository, "rev-parse", "HEAD")
        git(repository, "mv", "long.txt", "moved.txt")
        (repository / "a.txt").unlink()
        (repository / "picture").write_bytes(b"\0\1")
        (repository / "sound").write_bytes(b"\0")
        changes = changes_of(repository, since)
        assert [(file.path, file.former_path, file.kind, file.notes) for file in changes.files] == [
            ("a.txt", "", "deleted", ()),
            ("moved.txt", "long.txt", "renamed", ()),
            ("picture", "", "changed", ("binary",)),
            ("sound", "", "new", ("binary",)),
        ]
        assert changes.summary == "4 files, +0 −1"

    def test_sessions_and_ignored_files_are_left_out(self, repository: Path, head: str) -> None:
        session = repository / ".playbooks" / "sessions" / "20260219-a7k"
        session.mkdir(parents=True)
        (session / "journal.yaml").write_text("entries: []\n")
        (repository / ".gitignore").write_text("*.log\n")
        (repository / "x.log").write_text("")
        assert paths(changes_of(repository, head)) == [".gitignore"]

    def test_modes_and_links_are_noted(self, repository: Path, head: str) -> None:
        (repository / "a.txt").chmod(0o755)
        (repository / "run").write_text("x\n")
        (repository / "run").chmod(0o755)
        (repository / "link").symlink_to("/etc/passwd")
        changes = changes_of(repository, head)
        assert [(file.path, file.notes) for file in changes.files] == [
            ("a.txt", ("now executable",)),
            ("link", ("symbolic link",)),
            ("run", ("executable",)),
        ]
        assert texts(changes.files[1]) == ["+/etc/passwd", "\\No newline at end of file"]

    def test_a_repository_inside_is_a_folder(self, repository: Path, head: str) -> None:
        git(repository, "init", "-q", "inner")
        (repository / "inner" / "x").write_text("x\n")
        git(repository / "inner", "add", ".")
        git(repository / "inner", "commit", "-q", "-m", "x")
        (change,) = changes_of(repository, head).files
        assert (change.path, texts(change)) == ("inner/x", ["+x"])


class TestHostileFiles:
    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ('q"uote', 'q"uote'),
            ("new\nline", "new‹U+000A›line"),
            ("--output=stolen", "--output=stolen"),
            (":(top)x", ":(top)x"),
            ("tab\t", "tab"),
            ("esc\x1b[31m\u202e", "esc‹U+001B›[31m‹U+202E›"),
        ],
    )
    def test_any_name_is_shown(self, repository: Path, head: str, name: str, shown: str) -> None:
        (repository / name).write_text("x\n")
        (change,) = changes_of(repository, head).files
        assert change.path.rstrip() == shown.rstrip()
        assert (change.added, change.left_out, texts(change)) == (1, 0, ["+x"])

    def test_any_bytes_are_shown(self, repository: Path, head: str) -> None:
        (repository / "a.txt").write_bytes(b"\xff\x1b[2J\r\n")
        (repository / "new").write_bytes(b"\xff\x1b[2J\r\n")
        changed, new = changes_of(repository, head).files
        assert texts(changed) == ["-one", "+\N{REPLACEMENT CHARACTER}‹U+001B›[2J"]
        assert texts(new) == texts(changed)[1:]

    def test_a_pipe_does_not_block(self, repository: Path, head: str) -> None:
        os.mkfifo(repository / "pipe")
        assert changes_of(repository, head) == Changes()

    def test_settings_of_the_user_do_not_change_the_result(
        self, repository: Path, head: str
    ) -> None:
        git(repository, "mv", "a.txt", "b.txt")
        before = changes_of(repository, head)
        for setting in (
            "color.ui=always",
            "diff.noprefix=true",
            "diff.mnemonicPrefix=true",
            "diff.renames=false",
            "diff.orderFile=none",
            "diff.context=0",
            "diff.wsErrorHighlight=all",
            "core.quotePath=true",
        ):
            git(repository, "config", *setting.split("="))
        assert changes_of(repository, head) == before

    def test_no_program_from_the_repositorys_configuration_is_run(
        self, repository: Path, head: str
    ) -> None:
        (repository / ".gitattributes").write_text("*.txt diff=evil\n")
        for key in ("diff.evil.command", "diff.evil.textconv", "diff.external", "core.fsmonitor"):
            git(repository, "config", key, "touch stolen;")
        (repository / "a.txt").write_text("two\n")
        assert paths(changes_of(repository, head)) == ["a.txt", ".gitattributes"]
        assert not (repository / "stolen").exists()


class TestLargeChanges:
    def test_a_large_file_is_named(self, repository: Path, head: str) -> None:
        (repository / "a.txt").write_text("two\n" * 100)
        os.truncate(repository / "a.txt", 1 << 24)
        (repository / "new").touch()
        os.truncate(repository / "new", 1 << 24)
        (repository / "z.txt").write_text("z\n")
        changes = changes_of(repository, head)
        assert changes.summary == "3 files, +1 −0"
        assert [file.notes for file in changes.files] == [
            ("too large to compare",),
            ("too large to compare",),
            (),
        ]

    def test_git_is_ended_once_there_is_enough_text(self, repository: Path, head: str) -> None:
        for number in range(20):
            (repository / f"f{number:02}").write_text("".join(f"{n}\n" for n in range(5_000)))
        git(repository, "add", ".")
        changes = changes_of(repository, head)
        lines = [line for file in changes.files for hunk in file.hunks for line in hunk.lines]
        assert len(lines) == MOST_LINES
        assert changes.summary == "20 files, +100000 −0"
        assert [file.left_out for file in changes.files] == [3_000] * 5 + [5_000] * 15

    @pytest.mark.parametrize(
        ("slow", "summary", "shown"),
        [
            ("--numstat", "at least 2 files, +1 −1", ["-one", "+two"]),
            (" add ", "at least 0 files, +0 −0", None),
        ],
    )
    def test_what_git_cannot_tell_in_time_is_not_exact(
        self,
        repository: Path,
        head: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        slow: str,
        summary: str,
        shown: list[str] | None,
    ) -> None:
        for limit in ("_READING", "_COUNTING"):
            monkeypatch.setattr(git_diff, limit, 1.0)
        program = tmp_path / "slow" / "git"
        program.parent.mkdir()
        real = shutil.which("git")
        text = f'#!/bin/sh\ncase " $* " in *"{slow}"*) exec sleep 60 ;; esac\nexec {real} "$@"\n'
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        (repository / "a.txt").write_text("two\n")
        (repository / "b.txt").write_text("x\n")
        changes = changes_of(repository, head)
        assert changes.summary.partition(",")[0] == summary.partition(",")[0]
        assert not changes.exact
        if shown:
            assert changes.files[0].notes == ("not counted",)
            assert texts(changes.files[0]) == shown


class TestFailures:
    @pytest.mark.parametrize("since", ["--output=stolen", "no-such-commit"])
    def test_an_invalid_commit_is_an_error(self, repository: Path, since: str) -> None:
        with pytest.raises(GitError) as raised:
            changes_of(repository, since)
        assert raised.value.code == "PB-GIT-FAILED"
        assert sorted(path.name for path in repository.iterdir()) == [".git", "a.txt"]

    def test_a_commit_with_a_nul_and_a_folder_that_is_gone_are_errors(
        self, repository: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(PlaybookError):
            changes_of(repository, "nul\0")
        with pytest.raises(PlaybookError):
            changes_of(tmp_path / "gone", "HEAD")
