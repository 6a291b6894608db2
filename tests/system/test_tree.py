"""The id of a working tree and the changes between two of them, in real repositories."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from repositories import git, with_a_commit

from playbook_supervisor.errors import GitError, StateError, StorageError
from playbook_supervisor.system.tree import Changed, TreeChanges, changes, short, tree_id


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return with_a_commit(tmp_path / "project", ignore="build/\n")


def put(root: Path, path: str, text: str = "new\n") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# ── the id ──────────────────────────────────────────────────────────────────────────────────


def test_a_clean_checkout_has_the_tree_of_its_commit(root: Path) -> None:
    assert tree_id(root) == git(root, "rev-parse", "HEAD^{tree}")


@pytest.mark.parametrize("what", ["edited", "untracked", "deleted", "staged", "executable", "link"])
def test_every_change_that_git_could_commit_is_another_tree(root: Path, what: str) -> None:
    before = tree_id(root)
    if what == "edited":
        put(root, "a.txt", "two\n")
    elif what == "untracked":
        put(root, "src/new file.py")
    elif what == "deleted":
        (root / "a.txt").unlink()
    elif what == "staged":
        put(root, "b.txt")
        git(root, "add", "b.txt")
    elif what == "executable":
        (root / "a.txt").chmod(0o755)
    else:
        (root / "link").symlink_to("/nowhere")
    after = tree_id(root)
    assert after != before
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "second")
    assert tree_id(root) == after == git(root, "rev-parse", "HEAD^{tree}")


def test_ignored_files_and_sessions_do_not_count(root: Path) -> None:
    before = tree_id(root)
    put(root, "build/out.o")
    put(root, ".playbooks/sessions/20260219-a7k/journal.yaml")
    assert tree_id(root) == before
    git(root, "add", ".playbooks")
    assert tree_id(root) == before
    git(root, "commit", "-q", "-m", "the journal")
    assert tree_id(root) == before
    put(root, ".playbooks/playbooks/own.yaml")
    assert tree_id(root) != before


def test_the_users_index_is_not_touched(root: Path) -> None:
    put(root, "a.txt", "two\n")
    put(root, "b.txt")
    index = root / ".git/index"
    before, status = index.read_bytes(), index.stat()
    tree_id(root)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == (before, status.st_mtime_ns)
    assert git(root, "status", "--porcelain") == "M a.txt\n?? b.txt"
    assert not list((root / ".git").glob(".playbook-tmp-*"))


def test_an_edit_within_the_tick_of_the_index_is_seen(root: Path) -> None:
    """Size and time are those of the index: only the content differs."""
    index, file = root / ".git/index", root / "a.txt"
    before = tree_id(root)
    at = file.stat().st_mtime_ns
    file.write_text("two\n")
    os.utime(file, ns=(at, at))
    os.utime(index, ns=(at, at))
    assert tree_id(root) != before


def test_a_repository_without_a_commit_has_a_tree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    empty = git(tmp_path, "hash-object", "-t", "tree", "/dev/null")
    assert tree_id(tmp_path) == empty
    put(tmp_path, "a.txt")
    assert tree_id(tmp_path) != empty


def test_a_worktree_has_a_tree_of_its_own(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", "-b", "other", "../other")
    put(tmp_path / "other", "b.txt")
    assert tree_id(tmp_path / "other") != tree_id(root)


def test_an_unresolved_conflict_has_a_tree(root: Path) -> None:
    git(root, "switch", "-q", "-c", "other")
    put(root, "a.txt", "theirs\n")
    git(root, "commit", "-q", "-a", "-m", "theirs")
    git(root, "switch", "-q", "-")
    put(root, "a.txt", "ours\n")
    git(root, "commit", "-q", "-a", "-m", "ours")
    subprocess.run(["git", "merge", "other"], cwd=root, check=False, capture_output=True)
    assert len(tree_id(root)) == 40
    assert git(root, "status", "--porcelain") == "UU a.txt"


def test_no_hook_of_the_user_runs(root: Path, tmp_path: Path) -> None:
    hook = root / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    put(root, "b.txt")
    tree_id(root)
    assert not (tmp_path / "ran").exists()


def test_a_repository_that_git_refuses_is_an_error(root: Path) -> None:
    (root / ".git/index").write_bytes(b"not an index")
    with pytest.raises(GitError, match="index") as caught:
        tree_id(root)
    assert caught.value.code == "PB-GIT-FAILED"
    assert not list((root / ".git").glob(".playbook-tmp-*"))


def test_an_index_that_cannot_be_copied_is_an_error(root: Path) -> None:
    (root / ".git/index").unlink()
    (root / ".git/index").mkdir()
    with pytest.raises(StorageError, match="not a regular file") as caught:
        tree_id(root)
    assert caught.value.code == "PB-IO-READ"


def test_outside_a_repository_there_is_no_tree(tmp_path: Path) -> None:
    with pytest.raises(StateError):
        tree_id(tmp_path)


def test_the_index_of_a_killed_process_is_removed_in_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = root / ".git/.playbook-tmp-index-0123"
    left.touch()
    tree_id(root)
    assert left.exists()
    later = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: later)
    tree_id(root)
    assert not left.exists()


# ── changes ─────────────────────────────────────────────────────────────────────────────────


def test_changes_name_the_files_and_count_their_lines(root: Path) -> None:
    before = tree_id(root)
    put(root, "a.txt", "one\ntwo\n")
    put(root, "größe\t1.txt", "1\n2\n")
    (root / "data.bin").write_bytes(b"\0\1\2")
    (root / ".gitignore").unlink()
    found = changes(root, before, tree_id(root))
    assert found.files == (
        Changed(".gitignore", 0, 1),
        Changed("a.txt", 1, 0),
        Changed("data.bin", 0, 0),
        Changed("größe\t1.txt", 2, 0),
    )
    assert found.paths == (".gitignore", "a.txt", "data.bin", "größe\t1.txt")
    assert found.summary == "4 files, +3 −1"
    assert found.those(lambda path: path == "a.txt").summary == "1 file, +1 −0"


def test_a_renamed_file_is_two_changes(root: Path) -> None:
    before = tree_id(root)
    (root / "a.txt").rename(root / "b.txt")
    assert changes(root, before, tree_id(root)).paths == ("a.txt", "b.txt")


def test_equal_trees_have_no_changes(root: Path) -> None:
    assert changes(root, tree_id(root), tree_id(root)) == TreeChanges()


@pytest.mark.parametrize(
    "tree", ["", "--output=/tmp/x", "HEAD", "a" * 40, "A" * 40, "a" * 40 + "\n"]
)
def test_what_is_no_tree_of_the_repository_is_an_error(root: Path, tree: str) -> None:
    with pytest.raises(GitError) as caught:
        changes(root, tree, tree_id(root))
    assert caught.value.code == "PB-GIT-FAILED"


def test_people_read_seven_digits() -> None:
    assert short("9f31c2a" + "0" * 33) == "9f31c2a"
