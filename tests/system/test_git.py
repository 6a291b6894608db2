"""Git as a plain process and through GitPython, in real repositories."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_mock import MockerFixture
from support.git_repositories import git

from playbook_supervisor.errors import GitError, PlaybookError, StorageError
from playbook_supervisor.system.git.git_process import ask, change, identity
from playbook_supervisor.system.git.gitpython import Worktree, contents, worktrees
from playbook_supervisor.system.git.gitpython import repository as open_repository
from playbook_supervisor.system.git.tree import stat, tree_id

# ── worktrees ───────────────────────────────────────────────────────────────────────────────


def test_all_worktrees_are_listed_the_main_one_first(
    repository: Path, head: str, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", "-b", "013-größe", "../be side\nbranch x")
    git(repository, "worktree", "add", "-q", "--detach", "../detached")
    expected = (
        Worktree(repository, "main", head),
        Worktree(tmp_path / "be side\nbranch x", "013-größe", head),
        Worktree(tmp_path / "detached", "", head),
    )
    assert worktrees(repository) == expected
    assert worktrees(tmp_path / "detached") == expected


def test_a_bare_repository_is_no_worktree(repository: Path, head: str, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree", "main")
    assert worktrees(tmp_path / "bare.git") == (Worktree(tmp_path / "tree", "main", head),)


def test_a_git_without_nul_separated_lists_is_understood(
    repository: Path, head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git before 2.36 knows no `worktree list -z`."""
    git(repository, "worktree", "add", "-q", "-b", "x", "../beside")
    real = subprocess.run(["which", "git"], check=True, capture_output=True, text=True).stdout
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(
        f'#!/bin/sh\nfor a; do [ "$a" = -z ] && exit 129; done\nexec {real.strip()} "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=":")
    assert worktrees(repository) == (
        Worktree(repository, "main", head),
        Worktree(tmp_path / "beside", "x", head),
    )


def test_a_missing_folder_is_not_replaced_by_the_current_one(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    gone = repository / "gone"
    with pytest.raises(GitError, match="is gone"):
        worktrees(gone)
    assert identity(gone) == ""


def test_variables_of_a_surrounding_git_are_ignored(
    repository: Path, head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a hook, git points its children at the repository of the hook."""
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    assert worktrees(repository) == (Worktree(repository, "main", head),)
    (repository / "a.txt").write_text("two\n")
    assert diff_stat(repository, head)[0].startswith(" a.txt | 2 +-")


# ── differences ─────────────────────────────────────────────────────────────────────────────


def diff_stat(root: Path, since: str) -> tuple[str, ...]:
    lines = stat(root, since, tree_id(root))
    return tuple(re.sub(r" +\|", " |", line) for line in lines)


def test_changes_are_listed_committed_or_not(repository: Path, head: str) -> None:
    (repository / "b.txt").write_text("b\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "second")
    (repository / "a.txt").write_text("one\ntwo\n")
    (repository / "specs" / "x").mkdir(parents=True)
    (repository / "specs" / "x" / "plan größe.md").write_text("plan\n")
    assert diff_stat(repository, head) == (
        " a.txt | 1 +",
        " b.txt (new) | 1 +",
        " specs/x/plan größe.md (new) | 1 +",
        " 3 files changed, 3 insertions(+)",
    )


def test_a_long_list_is_cut_to_twelve_lines_that_say_what_is_missing(
    repository: Path, head: str
) -> None:
    for number in range(20):
        (repository / f"changed-{number:02}").write_text("")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "many")
    head = git(repository, "rev-parse", "HEAD")
    for number in range(20):
        (repository / f"changed-{number:02}").write_text("x\n")
    for number in range(30):
        (repository / f"new-{number:02}").write_text("x\n")
    lines = diff_stat(repository, head)
    assert len(lines) == 12
    assert [line.split("|")[0].strip() for line in lines[9:]] == [
        "changed-09",
        "… and 40 more",
        "50 files changed, 50 insertions(+)",
    ]


@pytest.mark.parametrize("since", ["--output=stolen", "no-such-commit", "nul\0"])
def test_an_invalid_commit_is_an_error(repository: Path, since: str) -> None:
    (repository / "new").write_text("")
    with pytest.raises(PlaybookError):
        diff_stat(repository, since)
    assert sorted(path.name for path in repository.iterdir()) == [".git", "a.txt", "new"]


# ── identity ────────────────────────────────────────────────────────────────────────────────


def test_the_identity_is_gits(repository: Path) -> None:
    assert identity(repository) == "Ada Example <ada@example.org>"
    git(repository, "config", "user.name", "Bob\x1b[31m Größe")
    assert identity(repository) == "Bob Größe <ada@example.org>"


def test_an_incomplete_identity_is_returned_as_it_is(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    assert identity(repository) == ""
    git(repository, "config", "user.name", "Bob")
    assert identity(repository) == "Bob"
    git(repository, "config", "--unset", "user.name")
    git(repository, "config", "user.email", "bob@example.org")
    assert identity(repository) == "<bob@example.org>"


# ── without git ─────────────────────────────────────────────────────────────────────────────


def test_without_git_the_error_says_what_to_install(repository: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from playbook_supervisor.errors import StorageError\n"
        "from playbook_supervisor.system.git.gitpython import worktrees\n"
        "from playbook_supervisor.system.git.git_process import identity\n"
        "root = Path(sys.argv[1])\n"
        "try: worktrees(root)\n"
        "except StorageError as error: print(error.code, error.message)\n"
        "print(repr(identity(root)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(repository)],
        env={"PATH": str(tmp_path / "empty")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "PB-IO-PROGRAM git is not installed\n''\n"


def test_a_gitpython_that_cannot_be_imported_is_a_storage_error(
    repository: Path, mocker: MockerFixture
) -> None:
    mocker.patch.dict(sys.modules, {"git": None})
    with pytest.raises(StorageError) as caught:
        worktrees(repository)
    assert caught.value.code == "PB-IO-PROGRAM"


# ── asking git ──────────────────────────────────────────────────────────────────────────────


def test_contents_come_in_the_order_of_their_names(repository: Path) -> None:
    (repository / "b.bin").write_bytes(b"\0\xff\n\n")
    names = [git(repository, "hash-object", "-w", name) for name in ("b.bin", "a.txt")]
    odd, plain = b"\0\xff\n\n", b"one\n"
    with open_repository(repository) as repo:
        assert list(contents(repo, [*names, names[0]])) == [odd, plain, odd]
        assert list(contents(repo, [])) == []
        with pytest.raises(GitError, match="git has no object"):
            list(contents(repo, ["f" * 40]))


def test_a_change_is_made_or_refused_in_git_s_words(repository: Path) -> None:
    change(repository, "branch", "made")
    assert ask(repository, "branch", "--list", "made").strip() == "made"
    with pytest.raises(GitError) as caught:
        change(repository, "branch", "made")
    assert "already exists" in caught.value.cause


def test_a_git_that_does_not_end_is_ended_with_all_that_it_started(repository: Path) -> None:
    git(repository, "config", "alias.hang", "!flock lock sleep 60")
    with pytest.raises(GitError, match=r"it took longer than 0\.5 seconds"):
        ask(repository, "hang", seconds=0.5)
    git(repository, "config", "alias.held", "!flock --timeout 10 lock true")
    assert ask(repository, "held") == ""


def test_what_git_says_is_bounded(repository: Path, mocker: MockerFixture) -> None:
    mocker.patch("playbook_supervisor.system.git.git_process._MAX_OUTPUT", 10)
    with pytest.raises(GitError, match="its output is larger than 10 bytes"):
        ask(repository, "--version", "--build-options")


def test_a_folder_that_is_gone_is_not_the_fault_of_git(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is gone") as caught:
        ask(tmp_path / "gone", "status")
    assert caught.value.code == "PB-IO-READ"
