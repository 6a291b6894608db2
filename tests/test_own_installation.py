"""This repository's own installation is what `playbook init` makes, and has not drifted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.commands.install import init, update
from playbook_supervisor.project.playbooks import library

REPOSITORY = Path(__file__).parent.parent
OURS = REPOSITORY / ".playbooks"


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    """A repository with a copy of our installation."""
    project = Project(tmp_path / "copy", home)
    shutil.copytree(OURS, project.root / ".playbooks")
    shutil.copytree(REPOSITORY / ".claude", project.root / ".claude")
    project.git("init", "-q")
    return project


def test_it_is_what_init_writes_today(project: Project) -> None:
    """If this fails, run `playbook update`."""
    actions = init.plan(cwd=project.root).actions
    drifted = [each for each in actions if each.why != "up to date"]
    assert drifted == []
    assert len(actions) == 19


def test_update_finds_nothing_to_change(project: Project) -> None:
    """What `playbook update --check` would say."""
    assert update.plan(cwd=project.root).changes == ()


def test_every_playbook_of_this_repository_is_valid(tmp_path: Path) -> None:
    shutil.copytree(OURS, tmp_path / ".playbooks")
    assert [each for each in library.playbooks(tmp_path) if each.problem] == []
