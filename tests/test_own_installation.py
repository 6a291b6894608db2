"""This repository's own installation is what `playbook init` makes, and has not drifted."""

from __future__ import annotations

import shutil
from pathlib import Path

import generate_plugin
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


def test_the_plugin_is_what_the_program_would_install() -> None:
    """If this fails, run `python tools/generate_plugin.py`."""
    assert generate_plugin.main(check=True) == 0
    icon = generate_plugin.ICON.read_bytes()
    assert icon.startswith(b"\x89PNG")
    assert [int.from_bytes(icon[at : at + 4]) for at in (16, 20)] == [generate_plugin.SIZE] * 2


def test_other_clients_find_the_plugins_skill() -> None:
    skill = "skills/playbook-authoring/SKILL.md"
    other = REPOSITORY / ".agents" / skill
    assert other.read_bytes() == (REPOSITORY / "templates" / skill).read_bytes()
    assert len(other.read_text("utf-8").splitlines()) <= 120


def test_every_playbook_of_this_repository_is_valid(tmp_path: Path) -> None:
    shutil.copytree(OURS, tmp_path / ".playbooks")
    assert [each for each in library.playbooks(tmp_path) if each.problem] == []
