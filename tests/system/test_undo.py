"""What a failed step has changed is put back, whenever the process that does so ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.git_repositories import git

from playbook_supervisor.errors import GitError
from playbook_supervisor.system.git import checkout, tree
from playbook_supervisor.system.git.git_plumbing import Plumbing
from playbook_supervisor.system.git.tree_git import TreeGit
from playbook_supervisor.system.git.undo import undo


class KilledError(Exception):
    """Stands for a process that is killed."""


@pytest.fixture
def before(repository: Path) -> tuple[str, str]:
    """The tree and the commit at the launch of a step that then adds, changes, removes, commits."""
    (repository / "kept").write_bytes(b"as it was\r\n")
    (repository / "gone").write_text("soon\n")
    git(repository, "add", "kept", "gone")
    git(repository, "commit", "-q", "-m", "Begin")
    (repository / "untracked").write_text("mine\n")
    (repository / ".gitignore").write_text("ignored\n")
    launched = tree.tree_id(repository), checkout.find(repository).head
    (repository / "kept").write_bytes(b"changed\n")
    (repository / "gone").unlink()
    (repository / "a/b").mkdir(parents=True)
    (repository / "a/b/new").write_text("new\n")
    git(repository, "add", "--all")
    git(repository, "commit", "-q", "-m", "Work")
    (repository / "untracked").write_text("spoilt\n")
    (repository / "ignored").write_text("built\n")
    (repository / "kept").chmod(0o755)
    return launched


def assert_undone(repository: Path, before: tuple[str, str]) -> None:
    assert (tree.tree_id(repository), checkout.find(repository).head) == before
    assert (repository / "kept").read_bytes() == b"as it was\r\n"
    assert (repository / "ignored").read_text() == "built\n"
    assert not (repository / "a").exists()
    assert git(repository, "status", "--short").splitlines() == ["?? .gitignore", "?? untracked"]
    assert git(repository, "show", "refs/playbook/undone/x:untracked") == "spoilt"
    assert git(repository, "log", "-1", "--format=%s", "refs/playbook/undone/x^") == "Work"


def test_files_and_commits_are_put_back_and_what_stood_there_is_kept(
    repository: Path, before: tuple[str, str]
) -> None:
    said = undo(repository, *before, "x").said
    assert said == "4 files and 1 commit put back; what stood there is kept: refs/playbook/undone/x"
    assert_undone(repository, before)
    assert undo(repository, *before, "y").said == "nothing had changed"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_undo_that_was_cut_short_anywhere_is_finished_by_the_next(
    repository: Path, before: tuple[str, str], after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies before or after its first, second, … command of git, again and again."""
    deadline, seen = 0, 0

    def dying(run: Callable[..., Any]) -> Callable[..., Any]:
        def until(*arguments: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == deadline and not after:
                raise KilledError
            done = run(*arguments, **options)
            if seen == deadline:
                raise KilledError
            return done

        return until

    monkeypatch.setattr(Plumbing, "__call__", dying(Plumbing.__call__))
    monkeypatch.setattr(TreeGit, "run", dying(TreeGit.run))
    kills = 0
    while True:
        deadline, seen = kills + 1, 0
        try:
            undo(repository, *before, "x")
        except KilledError:
            kills += 1
        else:
            break
    monkeypatch.undo()
    assert kills > 8
    assert_undone(repository, before)


@pytest.mark.parametrize(
    ("known", "said"),
    [("", "what was there at its launch is not known"), ("f" * 40, "is not known to git")],
)
def test_a_tree_that_is_not_known_is_not_guessed(
    repository: Path, before: tuple[str, str], known: str, said: str
) -> None:
    with pytest.raises(GitError, match=said):
        undo(repository, known, before[1], "x")
    assert (repository / "untracked").read_text() == "spoilt\n"


def test_a_branch_that_was_rewritten_is_left_alone(
    repository: Path, before: tuple[str, str]
) -> None:
    git(repository, "checkout", "-q", "--orphan", "other")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Elsewhere")
    with pytest.raises(GitError, match="no longer has the commit"):
        undo(repository, *before, "x")
