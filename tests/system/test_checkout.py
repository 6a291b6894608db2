"""The checkout is found as git finds it, without asking git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.system.git.checkout import (
    Checkout,
    find,
    lost_worktrees,
    refreshed,
    worktrees,
)


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(
        argv, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


def agrees_with_git(folder: Path) -> Checkout:
    """The message of `find`, after checking that git refuses, too."""
    found = find(folder)
    options = ("--show-toplevel", "--absolute-git-dir")
    toplevel, git_dir = git(folder, "rev-parse", *options).splitlines()
    assert (str(found.root), str(found.git_dir)) == (toplevel, git_dir)
    common = folder / git(folder, "rev-parse", "--git-common-dir")
    assert found.common_dir == common.resolve()
    assert found.branch == git(folder, "branch", "--show-current")
    head = subprocess.run(
        ["git", "rev-parse", "--verify", "-q", "HEAD"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.head == head.stdout.strip()
    return found


def test_the_main_checkout_is_found_from_its_root_and_from_any_folder_below(
    repository: Path,
) -> None:
    (repository / "a" / "b").mkdir(parents=True)
    found = agrees_with_git(repository)
    assert found == agrees_with_git(repository / "a" / "b")
    assert found.branch == "main"
    assert found.main_root == found.root == repository
    assert found.runtime == repository / ".git" / "playbook"
    assert found.ids == repository / ".git" / "playbook" / "ids"


def test_a_symbolic_link_to_a_folder_is_resolved(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repository)
    assert agrees_with_git(tmp_path / "link").root == repository


def test_a_relative_folder_is_taken_from_the_current_one(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    assert find(Path()).root == repository


def test_a_linked_worktree_has_its_own_runtime_and_shares_the_ids(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", "-b", "013-x", "../beside")
    found = agrees_with_git(tmp_path / "beside")
    assert (found.root, found.branch) == (tmp_path / "beside", "013-x")
    assert found.runtime == repository / ".git" / "worktrees" / "beside" / "playbook"
    assert found.ids == find(repository).ids
    assert found.main_root == repository


def test_all_worktrees_of_a_repository_share_its_key(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "013-x", "../beside")
    key = find(repository).key
    assert len(key) == 12
    assert find(repository.with_name("beside")).key == key == find(repository).key
    shutil.copytree(repository, tmp_path / "copy", symlinks=True)
    assert find(tmp_path / "copy").key != key


def test_a_worktree_inside_the_main_checkout_is_found_before_it(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "inner", "inner")
    assert agrees_with_git(repository / "inner").root == repository / "inner"


def test_a_submodule_and_its_worktrees_are_checkouts_of_their_own(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "submodule", "--quiet", "add", str(repository), "sub")
    found = agrees_with_git(repository / "sub")
    assert found.git_dir == repository / ".git" / "modules" / "sub"
    assert found.main_root == found.root == repository / "sub"
    git(repository / "sub", "worktree", "add", "-q", "-b", "x", str(tmp_path / "of-sub"))
    assert agrees_with_git(tmp_path / "of-sub").main_root == repository / "sub"


def test_a_git_directory_kept_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    git(tmp_path / "project", "init", "-q", f"--separate-git-dir={tmp_path / 'store'}")
    found = agrees_with_git(tmp_path / "project")
    assert (found.git_dir, found.main_root) == (tmp_path / "store", tmp_path / "project")


def test_a_main_checkout_whose_settings_are_elsewhere_is_refused(repository: Path) -> None:
    """Git obeys such a file, and never makes one there."""
    git(repository, "clone", "-q", "--bare", ".", "../elsewhere.git")
    (repository / ".git" / "commondir").write_text("../../elsewhere.git\n")
    with pytest.raises(StateError) as caught:
        find(repository)
    assert caught.value.code == "PB-STATE-TAMPERED"
    assert caught.value.where == str(repository / ".git" / "commondir")


def test_before_the_first_commit_there_is_a_branch_and_no_head(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    found = agrees_with_git(tmp_path)
    assert (found.branch, found.head) == ("main", "")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "pack-refs", "--all")
    git(tmp_path, "checkout", "-q", "--orphan", "fresh")
    found = agrees_with_git(tmp_path)
    assert (found.branch, found.head) == ("fresh", "")


def test_detached_there_is_a_head_and_no_branch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    found = agrees_with_git(repository)
    assert found.branch == ""
    assert found.head


def test_packed_references_are_read_and_loose_ones_win(repository: Path) -> None:
    git(repository, "branch", "main-two")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git" / "refs" / "heads" / "main").exists()
    packed = agrees_with_git(repository)
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    assert agrees_with_git(repository).head != packed.head


def test_an_empty_folder_in_place_of_a_reference_is_ignored(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    (repository / ".git" / "refs" / "heads" / "main").mkdir()
    assert agrees_with_git(repository).head


@pytest.mark.parametrize("branch", ["013-feature/with-slashes", "größe", "a.b@c"])
def test_branch_names_are_read_whole(repository: Path, branch: str) -> None:
    git(repository, "checkout", "-q", "-b", branch)
    assert agrees_with_git(repository).branch == branch
    git(repository, "pack-refs", "--all")
    assert agrees_with_git(repository).branch == branch


def test_symbolic_references_are_followed_to_the_branch_they_mean(repository: Path) -> None:
    git(repository, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repository, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert agrees_with_git(repository).branch == "main"


def test_references_that_go_round_in_circles_end(repository: Path) -> None:
    for name, target in (("a", "b"), ("b", "a")):
        (repository / ".git" / "refs" / "heads" / name).write_text(f"ref: refs/heads/{target}\n")
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/a\n")
    assert find(repository).head == ""


def test_a_reference_outside_the_branches_is_no_branch(repository: Path) -> None:
    git(repository, "update-ref", "refs/notes/x", "HEAD")
    (repository / ".git" / "HEAD").write_text("ref: refs/notes/x\n")
    found = find(repository)
    assert (found.branch, found.head) == ("", git(repository, "rev-parse", "refs/notes/x"))


@pytest.mark.parametrize(
    "content",
    [
        "ref: refs/heads/../../../outside\n",
        "ref: refs/heads/\x1b[31m\n",
        "ref: /etc/passwd\n",
        "ref: refs/heads/x y\n",
        "0123\n",
        "",
    ],
)
def test_an_invalid_head_has_no_branch_and_no_commit(repository: Path, content: str) -> None:
    (repository / "outside").write_text("a" * 40)
    (repository / ".git" / "HEAD").write_text(content)
    found = find(repository)
    assert (found.branch, found.head) == ("", "")


def test_a_reftable_is_left_to_git(repository: Path) -> None:
    """The placeholder that git writes into HEAD is ignored."""
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
    found = find(repository)
    assert (found.branch, found.head) == ("", "")


def test_the_environment_has_no_effect(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert find(repository).root == repository


def test_no_process_is_started(repository: Path, mocker: MockerFixture) -> None:
    started = mocker.patch("subprocess.Popen")
    assert find(repository).branch == "main"
    started.assert_not_called()


# ── refreshing ───────────────────────────────────────────────────────────────────────────────


def test_a_refreshed_checkout_has_the_present_branch_and_commit(repository: Path) -> None:
    known = find(repository)
    git(repository, "switch", "-q", "-c", "feature/x")
    git(repository, "commit", "-q", "--allow-empty", "-m", "more")
    now = refreshed(known)
    assert now == agrees_with_git(repository) == find(repository)
    assert (now.branch, now.head != known.head) == ("feature/x", True)


def test_a_worktree_that_has_vanished_is_an_error_when_it_is_refreshed(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"))
    known = find(tmp_path / "linked")
    (tmp_path / "linked").rename(tmp_path / "elsewhere")
    with pytest.raises(StateError) as caught:
        refreshed(known)
    assert caught.value.code == "PB-STATE-NO-REPOSITORY"


def test_a_head_that_has_vanished_is_an_error_when_it_is_refreshed(repository: Path) -> None:
    known = find(repository)
    (repository / ".git" / "HEAD").unlink()
    with pytest.raises(StateError):
        refreshed(known)


def test_a_head_that_cannot_be_read_again_is_a_storage_error(
    repository: Path, mocker: MockerFixture
) -> None:
    known = find(repository)
    mocker.patch("pathlib.Path.is_dir", side_effect=PermissionError(13, "Permission denied"))
    with pytest.raises(StorageError) as caught:
        refreshed(known)
    assert caught.value.code == "PB-IO-READ"


# ── where there is nothing to find ──────────────────────────────────────────────────────────


def refused(folder: Path) -> str:
    with pytest.raises(StateError) as caught:
        find(folder)
    assert caught.value.code == "PB-STATE-NO-REPOSITORY"
    return caught.value.message


def test_outside_of_a_repository_is_an_error(tmp_path: Path) -> None:
    assert "not in a git repository" in refused(tmp_path)


def test_a_missing_folder_is_an_error_even_inside_a_repository(repository: Path) -> None:
    assert "there is no folder" in refused(repository / "gone")
    assert "there is no folder" in refused(repository / "nul\0")


def test_inside_a_git_directory_nothing_is_checked_out(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "x", "../beside")
    for inside in ("", "refs/heads", "worktrees/beside"):
        assert "is inside a git directory" in refused(repository / ".git" / inside)


def test_a_bare_repository_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    assert "is inside a git directory" in refused(tmp_path / "bare.git")


@pytest.mark.parametrize(
    "setting", ["[core]\n\tbare = true\n", "[core] bare\n", '[CORE]\nBare = "Yes" # so\n']
)
def test_a_bare_repository_behind_a_git_file_is_refused_and_its_worktrees_are_not(
    tmp_path: Path, repository: Path, setting: str
) -> None:
    project = tmp_path / "layout"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(project / ".bare"))
    (project / ".git").write_text("gitdir: ./.bare\n")
    (project / ".bare" / "config").write_text(f"[core]\nbare = false\n; bare = true\n{setting}")
    assert "bare repository" in refused(project)
    git(project / ".bare", "worktree", "add", "-q", "../main", "main")
    found = agrees_with_git(project / "main")
    assert found.main_root == project / ".bare"


@pytest.mark.parametrize("setting", ["", "[core]\nbare = no\n", '[other "core"]\nbare = true\n'])
def test_other_settings_do_not_make_a_repository_bare(repository: Path, setting: str) -> None:
    (repository / ".git" / "config").write_text(setting)
    assert find(repository).root == repository


def test_a_repository_without_a_config_is_found(repository: Path) -> None:
    (repository / ".git" / "config").unlink()
    assert find(repository).root == repository


@pytest.mark.parametrize(
    "content", ["gitdir: ../gone\n", "gitdir:\n", "", "nonsense", "gitdir: \0\n", "gitdir: /tmp\n"]
)
def test_a_git_file_that_points_nowhere_is_an_error(repository: Path, content: str) -> None:
    sub = repository / "sub"
    sub.mkdir()
    (sub / ".git").write_text(content)
    refused(sub)


def test_an_empty_git_folder_is_ignored_as_by_git(repository: Path) -> None:
    (repository / "sub" / ".git").mkdir(parents=True)
    assert agrees_with_git(repository / "sub").root == repository


def test_a_giant_pointer_is_not_read(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / ".git").write_text("gitdir: " + "x" * 10_000_000)
    with pytest.raises(StorageError) as caught:
        find(repository / "sub")
    assert caught.value.code == "PB-IO-READ"


def test_a_path_too_long_for_the_system_is_a_storage_error() -> None:
    with pytest.raises(StorageError) as caught:
        find(Path("/" + "x" * 5000))
    assert caught.value.code == "PB-IO-READ"


def test_a_reference_packed_while_it_is_looked_for_is_found(
    repository: Path, mocker: MockerFixture
) -> None:
    real = os.open

    def packing(path: str | Path, *arguments: int) -> int:
        if str(path).endswith("refs/heads/main"):
            git(repository, "pack-refs", "--all")
        return real(path, *arguments)

    mocker.patch("playbook_supervisor.system.disk.files.os.open", packing)
    assert find(repository).head


def test_worktrees_are_found_where_git_keeps_them(repository: Path, tmp_path: Path) -> None:
    """The main one first, from any of them, and including a removed one."""
    assert worktrees(find(repository)) == (repository,)
    git(repository, "worktree", "add", "-q", "-b", "b", "../be side")
    git(repository, "worktree", "add", "-q", "-b", "a", "../a")
    listed = (repository, tmp_path / "a", tmp_path / "be side")
    assert worktrees(find(repository)) == worktrees(find(tmp_path / "a")) == listed
    shutil.rmtree(tmp_path / "a")
    (repository / ".git/worktrees/be-side/gitdir").write_text("../../../../be side/.git\n")
    (repository / ".git/worktrees/empty").mkdir()
    (repository / ".git/worktrees/file").touch()
    assert worktrees(find(repository)) == listed
    shutil.rmtree(repository / ".git/worktrees")
    (repository / ".git/worktrees").touch()
    with pytest.raises(StorageError):
        worktrees(find(repository))


def test_git_still_knows_the_folder_and_branch_of_a_removed_worktree(
    repository: Path, tmp_path: Path
) -> None:
    """Existing worktrees are not listed, and a damaged one does not hide the others."""
    for name in ("a", "b", "c"):
        git(repository, "worktree", "add", "-q", "-b", name, f"../{name}")
    known = find(tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "b")
    (repository / ".git/worktrees/b/HEAD").write_bytes(b"\0")
    assert lost_worktrees(find(repository)) == lost_worktrees(find(tmp_path / "c")) == (known,)
