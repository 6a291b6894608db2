"""What `start` prints, typed into the real client."""

from __future__ import annotations

import pytest
from support.scratch_project import Project

from claude.conftest import Start
from claude.scripts import obey
from playbook_supervisor.commands.worktrees import start as starting


@pytest.fixture
def project(installed: Project) -> Project:
    """The project in which clients are started, unless they are told another."""
    return installed


def test_the_session_that_waits_in_a_new_worktree_is_adopted(
    installed: Project, start: Start
) -> None:
    """kai FR33, FR35: no second session begins, and the main checkout hears nothing of it."""
    started = starting.start("auto-validate", ["013"], cwd=installed.root, branch="013-again")
    tree = Project(started.root, installed.home, installed.env)
    start(obey, tree).run(started.typed, "--permission-mode", "acceptEdits")
    assert tree.session.name == started.session_id
    assert [entry["status"] for entry in tree.journal()] == ["done", "done"]
    assert tree.manifest()["status"] == "completed"
    assert (installed.sessions, installed.git("status", "--porcelain")) == ([], "")
