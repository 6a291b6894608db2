"""What an agent writes into the repository's settings does not run when a person looks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.system.git import git_diff, tree
from playbook_supervisor.system.git.uncommitted import uncommitted

LOOKS: tuple[Callable[[Path, str], object], ...] = (
    lambda root, head: tree.stat(root, head, tree.tree_id(root)),
    lambda root, head: uncommitted(root),
    lambda root, head: git_diff.changes_of(root, head),
    lambda root, head: tree.tree_id(root),
)


@pytest.fixture
def hostile(project: Project) -> Project:
    """A repository whose own settings name programs."""
    program = project.write(".git/hostile", f"#!/bin/sh\ntouch {project.root}/ran\ncat\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "filter.x.clean", "filter.y.smudge", "filter.A.b.clean"):
        project.git("config", name, str(program))
    project.git("config", "filter.x.required", "true")
    project.write(".git/info/attributes", "* filter=x\n*.md filter=A.b\n")
    project.write("README.md", "# Changed\n")
    (project.root / "ran").unlink(missing_ok=True)
    return project


@pytest.mark.parametrize("look", LOOKS, ids=["stat", "status", "diff", "tree"])
def test_looking_runs_no_program_of_the_repositorys_own_settings(
    look: Callable[[Path, str], object], hostile: Project
) -> None:
    look(hostile.root, hostile.git("rev-parse", "HEAD"))
    assert not (hostile.root / "ran").exists()


def test_git_itself_would_run_it(hostile: Project) -> None:
    hostile.git("diff", "--stat")
    assert (hostile.root / "ran").exists()


def test_settings_that_are_included_or_of_a_worktree_count_too(hostile: Project) -> None:
    hostile.git("config", "--remove-section", "filter.x")
    hostile.write(".git/more", f'[filter "x"]\nclean = {hostile.root}/.git/hostile\n')
    hostile.git("config", "include.path", "more")
    (hostile.root / "ran").unlink(missing_ok=True)
    uncommitted(hostile.root)
    assert not (hostile.root / "ran").exists()


@pytest.mark.parametrize(
    ("program", "runs"), [("git-lfs clean -- %f", True), ("git-lfs clean -- %f; id", False)]
)
def test_git_lfs_runs_where_the_repository_itself_has_it(
    program: str, runs: bool, project: Project
) -> None:
    folder = project.root.parent / "bin"
    folder.mkdir()
    (folder / "git-lfs").write_text(f"#!/bin/sh\ntouch {project.root}/ran\ncat\n")
    (folder / "git-lfs").chmod(0o755)
    project.write(".git/info/attributes", "*.md filter=lfs\n")
    project.git("config", "filter.lfs.clean", program)
    project.write("README.md", "# Changed\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        uncommitted(project.root)
    assert (project.root / "ran").exists() == runs


def test_a_filter_of_the_user_runs(project: Project) -> None:
    project.write(".git/info/attributes", "*.md filter=mine\n")
    program = f"tee {project.root}/ran"
    project.git("config", "--global", "filter.mine.clean", program)
    project.write("README.md", "# Changed\n")
    uncommitted(project.root)
    assert (project.root / "ran").exists()
