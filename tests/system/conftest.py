"""`repository` with one commit, and its `head`; `root`, which ignores a folder too."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.git_repositories import git, with_a_commit


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return with_a_commit(tmp_path / "project")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return with_a_commit(tmp_path / "project", ignore="build/\n")


@pytest.fixture
def head(repository: Path) -> str:
    return git(repository, "rev-parse", "HEAD")
