"""What a checkout has that HEAD does not, in real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.git_repositories import git, put, with_a_commit

from playbook_supervisor.system.git.uncommitted import uncommitted


def test_what_is_edited_new_deleted_or_staged_is_not_committed(root: Path) -> None:
    assert uncommitted(root).paths == ()
    put(root, "a.txt", "edited\n")
    put(root, "new/b.txt")
    (root / ".gitignore").unlink()
    put(root, ".playbooks/sessions/20260219-a7k/journal.yaml")
    assert uncommitted(root).paths == (".gitignore", "a.txt", "new/b.txt")
    git(root, "add", "--all")
    git(root, "restore", "--worktree", "--source=HEAD", ".")
    (root / "new/b.txt").unlink(missing_ok=True)
    assert uncommitted(root).paths == (".gitignore", "a.txt", "new/b.txt")


HIDING = {
    "skip-worktree": "git update-index --skip-worktree a.txt",
    "assume-unchanged": "git update-index --assume-unchanged a.txt",
    "ignoreStat": "git config core.ignoreStat true; git update-index --really-refresh",
    "untracked": "git config status.showUntrackedFiles no",
    "filter": "mkdir -p .git/info; git config filter.x.clean 'echo one'; "
    "echo '* filter=x' >.git/info/attributes",
}


FLAGS = ("skip-worktree", "assume-unchanged", "ignoreStat")


@pytest.mark.parametrize("how", HIDING)
def test_no_flag_or_setting_hides_an_edit(root: Path, how: str) -> None:
    subprocess.run(["sh", "-c", HIDING[how]], cwd=root, check=True)
    put(root, "a.txt", "edited\n")
    put(root, "b.txt")
    index = (root / ".git/index").read_bytes()
    found = uncommitted(root)
    assert found.paths == ("a.txt", "b.txt")
    assert found.hidden == (("a.txt",) if how in FLAGS else ())
    assert (root / ".git/index").read_bytes() == index
    assert not list((root / ".git").glob(".playbook-tmp-*"))


def test_what_a_filter_or_line_ends_explain_is_committed(root: Path) -> None:
    """As git-lfs does: the repository has something else than the disk."""
    git(root, "config", "--global", "filter.big.clean", "tr a-z A-Z")
    git(root, "config", "--global", "filter.big.smudge", "tr A-Z a-z")
    put(root, ".gitattributes", "*.big filter=big\n*.crlf text eol=crlf\n")
    put(root, "x.big", "content\n")
    put(root, "y.crlf", "one\r\n")
    os.utime(root / "x.big", (1e9, 1e9))  # git does not read it again: its filter may not run
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "big")
    assert git(root, "show", "HEAD:x.big") == "CONTENT"
    assert uncommitted(root).paths == ()
    put(root, "x.big", "other\n")
    put(root, "y.crlf", "two\r\n")
    assert uncommitted(root).paths == ("x.big", "y.crlf")
    git(root, "config", "--global", "--remove-section", "filter.big")


def test_a_rule_that_appears_later_hides_nothing_that_is_tracked(root: Path) -> None:
    put(root, ".git/info/exclude", "*.txt\n")
    git(root, "rm", "-q", "--cached", "a.txt")
    assert uncommitted(root).paths == ("a.txt",)


def test_a_submodule_counts_by_its_commit_and_its_files(root: Path, tmp_path: Path) -> None:
    with_a_commit(tmp_path / "lib")
    local = ("-c", "protocol.file.allow=always")
    git(root, *local, "submodule", "--quiet", "add", str(tmp_path / "lib"), "lib")
    git(root, "config", "submodule.lib.ignore", "all")
    git(root, "commit", "-q", "-a", "-m", "a submodule")
    assert uncommitted(root).paths == ()
    put(root, "lib/a.txt", "edited\n")
    put(root, "lib/b.txt")
    assert uncommitted(root).paths == ("lib/a.txt", "lib/b.txt")
    git(root / "lib", "add", "--all")
    git(root / "lib", "commit", "-q", "-m", "hidden in a commit")
    assert uncommitted(root).paths == ("lib",)
    git(root, "submodule", "deinit", "--force", "--quiet", "lib")
    assert uncommitted(root).paths == ()


def test_a_nested_repository_is_not_committed(root: Path) -> None:
    git(root, "init", "-q", "sub")
    put(root, "sub/x.txt")
    assert uncommitted(root).paths == ("sub/x.txt",)
