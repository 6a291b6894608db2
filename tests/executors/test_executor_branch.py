"""`branch` steps create branches and switch to them, and lose nothing (cat FR-4.3)."""

from __future__ import annotations

from typing import Any

import pytest
from support.scratch_project import FEATURE, Project, remote
from support.task_run import Bench, task

from playbook_supervisor.executors.branch import BranchExecutor
from playbook_supervisor.kernel.directives import Failure, Outcome

BRANCH = BranchExecutor()


def outcome(project: Project, name: str, **options: Any) -> Outcome:
    made = task(name, namespace="branch", options=options)
    return Bench(project.root).outcome(BRANCH, made)


def switched(project: Project, name: str, **options: Any) -> str:
    """The line that says what was done; the branch is the one that was asked for."""
    bench = Bench(project.root)
    done = bench.outcome(BRANCH, task(name, namespace="branch", options=options))
    assert done.error is None, done.error
    assert (done.output, done.data) == (name, {"branch": name})
    assert project.git("symbolic-ref", "HEAD") == f"refs/heads/{name}"
    *_, line = bench.shown  # git may have warned
    return line


def refusal(project: Project, *words: str, **options: Any) -> Failure:
    """The failure, after which HEAD, index and working tree are what they were."""
    before = state(project)
    error = Bench(project.root).error(BRANCH, task(*words, namespace="branch", options=options))
    assert state(project) == before
    assert error.code in ("PB-STEP-GIT", "PB-STEP-INPUT")
    return error


def state(project: Project) -> tuple[str, ...]:
    asked = ("status", "--porcelain=v2", "--branch", "--untracked-files=all")
    return (project.git(*asked), project.git("diff", "HEAD"), project.git("branch", "--list"))


def test_a_new_branch_starts_at_head(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    assert switched(project, "fix/login") == f"created fix/login at {head[:7]}"
    assert project.git("rev-parse", "HEAD") == head


def test_a_new_branch_starts_at_its_base_and_follows_nothing(project: Project) -> None:
    remote(project)
    project.write("later.txt", "later\n")
    project.commit("Later")
    base = f"origin/{FEATURE}"
    line = switched(project, "fix", base=base)
    assert line == f"created fix from {base} at {project.git('rev-parse', base)[:7]}"
    assert not (project.root / "later.txt").exists()
    assert "branch.fix" not in project.git("config", "--local", "--list")


def test_a_branch_that_exists_is_switched_to_and_stays_where_it_is(project: Project) -> None:
    main = project.git("rev-parse", "main")
    project.write("later.txt", "later\n")
    project.commit("Later")
    assert switched(project, "main", base=FEATURE) == "switched to main"
    assert project.git("rev-parse", "main") == main


def test_a_branch_of_the_remote_is_followed(project: Project) -> None:
    """It may have been begun on another machine."""
    remote(project)
    project.git("switch", "-q", "main")
    project.git("branch", "-q", "-D", FEATURE)
    line = switched(project, FEATURE, create="never")
    assert line == f"switched to {FEATURE}, which follows origin/{FEATURE}"
    assert project.git("rev-parse", "--abbrev-ref", "@{upstream}") == f"origin/{FEATURE}"


def test_a_tag_with_the_name_of_a_branch_is_not_meant(project: Project) -> None:
    project.git("tag", "main", FEATURE)
    assert switched(project, "main") == "switched to main"


# ── what is required ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["main", FEATURE])
def test_a_required_creation_refuses_a_branch_that_exists(project: Project, name: str) -> None:
    error = refusal(project, name, create="required")
    assert error.message.startswith(f"the branch {name} exists already")


def test_a_required_creation_refuses_a_branch_of_the_remote(project: Project) -> None:
    remote(project)
    project.git("switch", "-q", "main")
    project.git("branch", "-q", "-D", FEATURE)
    assert "exists already" in refusal(project, FEATURE, create="required").message


def test_a_forbidden_creation_refuses_a_branch_that_is_missing(project: Project) -> None:
    assert refusal(project, "fix", create="never").message.startswith("there is no branch fix")


@pytest.mark.parametrize("base", ["no-such", "--all", "HEAD^{tree}"])
def test_a_base_has_to_be_a_commit(project: Project, base: str) -> None:
    error = refusal(project, "fix", base=base)
    assert error.message.startswith("there is no commit ")
    assert "`base`" in error.guidance


@pytest.mark.parametrize("name", ["-f", "HEAD", "a..b", "@{-1}"])
def test_only_valid_names_reach_git(project: Project, name: str) -> None:
    assert refusal(project, name).message.endswith("is not a valid name of a branch")


@pytest.mark.parametrize("words", [()])
def test_it_takes_one_name(project: Project, words: tuple[str, ...]) -> None:
    assert refusal(project, *words).message == "a `branch` step takes one name"


# ── nothing is lost ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def elsewhere(project: Project) -> Project:
    """On the feature's branch; on main, `notes.txt` and README.md are different."""
    project.git("switch", "-q", "main")
    project.write("README.md", "# Main\n")
    project.write("notes.txt", "of main\n")
    project.commit("Notes")
    project.git("switch", "-q", FEATURE)
    return project


def test_changes_that_would_be_overwritten_stay(elsewhere: Project) -> None:
    elsewhere.write("README.md", "mine\n")
    error = refusal(elsewhere, "main")
    assert error.message == ("switching to main would overwrite what is not committed: README.md")
    assert error.guidance == "Commit, stash or move these files; nothing was changed."


def test_ignored_files_that_would_be_overwritten_stay(elsewhere: Project) -> None:
    """Git itself would overwrite them without a word."""
    elsewhere.write(".gitignore", "notes.txt\n")
    elsewhere.write("notes.txt", "mine\n")
    assert "notes.txt" in refusal(elsewhere, "main").message
    assert elsewhere.read("notes.txt") == "mine\n"


def test_a_merge_that_a_person_has_begun_is_not_left(elsewhere: Project) -> None:
    elsewhere.write("README.md", "mine\n")
    elsewhere.commit("Mine")
    with pytest.raises(AssertionError):  # there are conflicts
        elsewhere.git("merge", "-q", "main")
    before = elsewhere.git("status", "--porcelain")
    failed = outcome(elsewhere, "main").error
    assert failed is not None
    assert failed.message.startswith("git switch was refused: ")
    assert elsewhere.git("status", "--porcelain") == before


def test_a_branch_of_another_worktree_is_left_to_it(project: Project) -> None:
    project.git("worktree", "add", "-q", str(project.root.with_name("other")), "main")
    assert "main" in refusal(project, "main").message
