"""The id of a working tree and the changes between two of them, in real repositories."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.git_repositories import git, put, with_a_commit

from playbook_supervisor.errors import GitError, StateError
from playbook_supervisor.system.git.tree import (
    Changed,
    Tree,
    TreeChanges,
    changes,
    pinned_now,
    short,
    tree_id,
    tree_of,
)

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


@pytest.mark.parametrize("file", ["index", "known.json", "config", "HEAD", "info/attributes"])
@pytest.mark.parametrize("damage", [b"", b"not what it was"])
def test_damage_to_our_own_files_changes_nothing(root: Path, file: str, damage: bytes) -> None:
    before = tree_id(root)
    (own,) = (root / ".git/playbook/tree").glob(f"*/{file}")
    own.write_bytes(damage)
    assert tree_id(root) == before
    put(root, "b.txt")
    assert tree_id(root) != before


def test_objects_that_are_gone_cost_no_tree(root: Path) -> None:
    put(root, "b.txt")
    before = tree_id(root)
    shutil.rmtree(root / ".git/playbook/tree/objects")
    put(root, "c.txt")
    (root / "c.txt").unlink()
    assert tree_id(root) == before


def test_outside_a_repository_there_is_no_tree(tmp_path: Path) -> None:
    with pytest.raises(StateError):
        tree_id(tmp_path)


def test_the_index_of_a_killed_process_is_removed_in_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_id(root)
    (own,) = (root / ".git/playbook/tree").glob("*/index")
    left = [own.with_name(f".playbook-tmp-0123{end}") for end in ("", ".lock")]
    for file in left:
        file.touch()
    assert tree_id(root) == before
    later = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: later)
    tree_id(root)
    assert not any(file.exists() for file in left)


def test_processes_at_the_same_time_agree(root: Path) -> None:
    for number in range(300):
        put(root, f"src/{number}.txt", f"{number}\n")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: tree_id(root), range(8)))
    assert found == [tree_id(root)] * 8
    assert not list((root / ".git/playbook/tree").glob("*/.playbook-tmp-*"))


def test_a_process_that_is_killed_leaves_no_lock(root: Path) -> None:
    for number in range(300):
        put(root, f"src/{number}.txt", f"{number}\n" * 100)
    code = f"from pathlib import Path; from {tree_id.__module__} import tree_id as i; "
    argv = [sys.executable, "-c", f"{code}print(1, flush=True); i(Path({str(root)!r}))"]
    for delay in (0.0, 0.02, 0.05):
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "everything")
    assert tree_id(root) == git(root, "rev-parse", "HEAD^{tree}")


# ── nothing hides content ───────────────────────────────────────────────────────────────────


HIDING = {
    "skip-worktree": "git update-index --skip-worktree a.txt",
    "assume-unchanged": "git update-index --assume-unchanged a.txt",
    "ignoreStat": "git config core.ignoreStat true; git update-index --really-refresh",
    "sparse": "git sparse-checkout init --cone; git sparse-checkout set nowhere; git show :a.txt "
    ">a.txt",
    "split index": "git update-index --split-index; git update-index --skip-worktree a.txt",
    "monitor": "git config core.fsmonitor true; git update-index --fsmonitor-valid a.txt",
    "filter": "git config filter.x.clean 'echo one'; echo '* filter=x' >.git/info/attributes",
    "line ends": "git config core.autocrlf input; echo '* text=auto' >.gitattributes",
    "ident": "echo '* ident' >.git/info/attributes",
    "exclude": "echo a.txt >>.git/info/exclude; git rm -q --cached a.txt",
    "ignored": "echo a.txt >>.gitignore; git rm -q --cached a.txt",
    "ignored by a commit": "echo a.txt >>.gitignore; git rm -q --cached a.txt; "
    "git commit -q -a -m gone",
    "fake index": "rm .git/index; mkdir .git/index",
    "replaced": "git replace $(git rev-parse :a.txt) $(git hash-object -w --stdin </dev/null)",
}


@pytest.mark.parametrize("how", HIDING)
@pytest.mark.parametrize("known", [True, False])
def test_what_hides_an_edit_from_git_does_not_hide_it_here(
    root: Path, how: str, *, known: bool
) -> None:
    """Whether a tree was taken before, or our index is new."""
    pinned = pinned_now(root)
    if known:
        tree_id(root, pinned)
    subprocess.run(["sh", "-c", HIDING[how]], cwd=root, check=False, capture_output=True)
    before = tree_id(root, pinned)
    at = (root / "a.txt").stat().st_mtime_ns
    put(root, "a.txt", "ONE\r\n" if how == "line ends" else "ONE\n")
    os.utime(root / "a.txt", ns=(at, at))
    after = tree_id(root, pinned)
    assert changes(root, before, after).paths == ("a.txt",)


def test_line_ends_and_filters_do_not_count(root: Path) -> None:
    put(root, ".gitattributes", "* text=auto eol=crlf ident filter=lfs working-tree-encoding=x\n")
    put(root, "b.txt", "one\n$Id$\n")
    before = tree_id(root)
    put(root, "b.txt", "one\r\n$Id: x$\r\n")
    assert changes(root, before, tree_id(root)).paths == ("b.txt",)


def test_the_mode_of_a_file_counts_whatever_the_settings_say(root: Path) -> None:
    git(root, "config", "core.fileMode", "false")
    before = tree_id(root)
    (root / "a.txt").chmod(0o755)
    assert changes(root, before, tree_id(root)).paths == ("a.txt",)


@pytest.mark.parametrize("where", ["info/exclude", "core.excludesFile", "the home"])
def test_a_rule_that_appears_later_hides_nothing(
    root: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    put(root, ".git/info/exclude", "old.txt\n")
    put(root, "old.txt")
    pinned = pinned_now(root)
    before = tree_id(root, pinned)
    if where == "info/exclude":
        put(root, ".git/info/exclude", "*.txt\n")
    elif where == "core.excludesFile":
        put(tmp_path, "ignore", "*.txt\n")
        git(root, "config", "core.excludesFile", str(tmp_path / "ignore"))
    else:
        put(tmp_path, "config/git/ignore", "*.txt\n")
    put(root, "new.txt")
    assert changes(root, before, tree_id(root, pinned)).paths == ("new.txt",)
    assert changes(root, before, tree_id(root)).paths == ()
    assert tree_id(root, pinned) != before


def test_pinned_rules_that_are_gone_are_an_error(root: Path) -> None:
    put(root, ".git/info/exclude", "old.txt\n")
    pinned = pinned_now(root)
    put(root, ".git/info/exclude", "new.txt\n")
    tree_id(root, pinned)
    (kept,) = (root / f".git/playbook/tree/{pinned.rules}/info").glob("exclude")
    kept.write_text("*\n")
    with pytest.raises(GitError, match="the ignore rules that held when the session began"):
        tree_id(root, pinned)


def test_a_rule_that_hides_itself_is_seen_beside_files_that_count(root: Path) -> None:
    put(root, "src/a.py")
    put(root, ".cache/.gitignore", "*\n")
    put(root, ".cache/data")
    before = tree_id(root)
    put(root, "src/.gitignore", "*\n")
    put(root, "src/conftest.py")
    after = tree_id(root)
    assert changes(root, before, after).paths == ("src/.gitignore",)
    assert tree_id(root) == after
    (root / "src/.gitignore").unlink()
    assert changes(root, before, tree_id(root)).paths == ("src/conftest.py",)


def test_the_id_follows_from_the_files_and_not_from_their_history(root: Path) -> None:
    put(root, "out.log")
    put(root, "kept.log")
    git(root, "add", "kept.log")
    git(root, "commit", "-q", "-m", "a log")
    pinned = pinned_now(root)
    tree_id(root, pinned)
    put(root, ".gitignore", "build/\n*.log\n")
    after = tree_id(root, pinned)
    shutil.rmtree(root / ".git/playbook")
    assert tree_id(root) == after
    (root / "kept.log").unlink()
    without = tree_id(root)
    assert changes(root, without, after).paths == ("kept.log",)
    put(root, "kept.log")
    assert tree_id(root) == after


def test_variables_of_git_have_no_say(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "b.txt")
    before = tree_id(root)
    for name, value in {
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OBJECT_DIRECTORY": "/nowhere",
        "GIT_DIR": "/nowhere",
        "GIT_INDEX_FILE": "/nowhere",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.excludesFile",
        "GIT_CONFIG_VALUE_0": "/nowhere",
        "GIT_QUARANTINE_PATH": "/nowhere",
        "GIT_ATTR_SOURCE": "HEAD",
    }.items():
        monkeypatch.setenv(name, value)
    assert tree_id(root) == before


# ── repositories in the repository ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("commits", [True, False])
def test_a_nested_repository_is_a_folder(root: Path, *, commits: bool) -> None:
    before = tree_id(root)
    for nested in ("sub", "sub/deep", "sub/deep/er"):
        put(root, f"{nested}/x.txt")
        git(root / nested, "init", "-q")
    if commits:
        for nested in ("sub/deep/er", "sub"):
            git(root / nested, "add", "x.txt")
            git(root / nested, "commit", "-q", "-m", "nested")
    after = tree_id(root)
    paths = ("sub/deep/er/x.txt", "sub/deep/x.txt", "sub/x.txt")
    assert changes(root, before, after).paths == paths
    assert tree_id(root) == after
    put(root, "sub/deep/x.txt", "edited\n")
    git(root / "sub", "config", "core.fsmonitor", "touch ran")
    assert changes(root, after, tree_id(root)).paths == ("sub/deep/x.txt",)


def test_an_empty_nested_repository_is_nothing(root: Path) -> None:
    before = tree_id(root)
    git(root, "init", "-q", "sub")
    assert tree_id(root) == tree_id(root) == before
    put(root, "b.txt")
    assert changes(root, before, tree_id(root)).paths == ("b.txt",)


@pytest.mark.parametrize("ignore", ["none", "untracked", "dirty", "all"])
def test_an_edit_in_a_submodule_is_seen(root: Path, tmp_path: Path, ignore: str) -> None:
    with_a_commit(tmp_path / "lib")
    local = ("-c", "protocol.file.allow=always")
    git(root, *local, "submodule", "--quiet", "add", str(tmp_path / "lib"), "lib")
    git(root, "config", "-f", ".gitmodules", "submodule.lib.ignore", ignore)
    git(root, "commit", "-q", "-a", "-m", "a submodule")
    before = tree_id(root)
    put(root, "lib/a.txt", "edited\n")
    put(root, "lib/b.txt")
    assert changes(root, before, tree_id(root)).paths == ("lib/a.txt", "lib/b.txt")
    git(root / "lib", "add", "--all")
    git(root / "lib", "commit", "-q", "-m", "hidden in a commit")
    assert changes(root, before, tree_id(root)).paths == ("lib/a.txt", "lib/b.txt")
    git(root, "submodule", "deinit", "--force", "--quiet", "lib")
    assert not [each for each in changes(root, before, tree_id(root)).files if each.added]


def test_a_worktree_inside_is_a_folder(root: Path) -> None:
    before = tree_id(root)
    git(root, "worktree", "add", "-q", "-b", "other", "trees/other")
    assert changes(root, before, tree_id(root)).paths == (
        "trees/other/.gitignore",
        "trees/other/a.txt",
    )


# ── what cannot be read ─────────────────────────────────────────────────────────────────────


def unprivileged(root: Path, code: str) -> str:
    """What a process prints that cannot read what its owner may not read, as root can."""
    argv = [sys.executable, "-c", f"from {tree_id.__module__} import *\n{code}"]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root reads everything, and there is no setpriv")
        without = "-dac_override,-dac_read_search"
        argv = [setpriv, f"--bounding-set={without}", "--inh-caps=-all", *argv]
    return subprocess.run(argv, cwd=root, check=True, capture_output=True, text=True).stdout


def test_what_cannot_be_read_is_named_and_costs_nothing_else(root: Path) -> None:
    look = "t = tree_of(Path('.')); print(t.id, *sorted(u.path for u in t.unreadable), sep='|')"
    put(root, "data/1")
    put(root, "secret é.txt")
    before = unprivileged(root, look).strip()
    for name in ("data", "secret é.txt"):
        (root / name).chmod(0)
    put(root, "b.txt")
    tree, *paths = unprivileged(root, look).strip().split("|")
    assert paths == ["data/", "secret é.txt"]
    assert changes(root, before, tree).paths == ("b.txt",)
    said = unprivileged(root, "print(*(u.sentence for u in tree_of(Path('.')).unreadable))")
    cure = "make it readable, remove it, or name it in .gitignore"
    assert f"data/ cannot be read (Permission denied); {cure}" in said
    for name in ("data", "secret é.txt"):
        (root / name).chmod(0o755)


def test_a_name_that_git_does_not_allow_is_named(root: Path) -> None:
    put(root, "src/.GIT/x")
    put(root, "b.txt")
    found = tree_of(root)
    assert [(each.path, each.why) for each in found.unreadable] == [
        ("src/.GIT/x", "git allows no such name")
    ]
    (root / "src/.GIT/x").unlink()
    assert tree_of(root) == Tree(found.id)


@pytest.mark.parametrize("where", [".gitignore", ".git/info/exclude", ".playbooks/.gitignore"])
def test_sessions_that_are_ignored_cost_nothing(root: Path, where: str) -> None:
    put(root, ".playbooks/config.yaml", "{}")
    put(root, where, "sessions/\n")
    before = tree_id(root)
    put(root, ".playbooks/sessions/20260219-a7k/journal.yaml")
    assert tree_of(root) == Tree(before)
    put(root, "b.txt")
    assert changes(root, before, tree_id(root)).paths == ("b.txt",)


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
