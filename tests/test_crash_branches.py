"""SIGKILL at every write of a session that is ended, moved or brought home between branches."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from cli.test_session_branch import begun
from support.crash_points import ended, forked, some_writes
from support.scratch_project import FEATURE, Project

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.views import queries
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.sessions.files.manifest import Manifest

ASKS = "  - {id: ask, command: checkpoint, with: {message: Go?}}\n"


def playbook(name: str, command: str) -> str:
    """A playbook with one step."""
    return f"""\
name: {name}
description: One step
version: "1.1"
args: []
defaults: {{autonomy: auto, error_policy: stop}}
steps:
  - {{id: only, command: {command}}}
"""


@pytest.fixture
def away(project: Project) -> Project:
    """A session whose files are committed on the feature's branch; main is checked out."""
    begun(project)
    project.git("switch", "-q", "main")
    return project


def killed(project: Project, work: Callable[[Path], object]) -> Iterator[tuple[int, Project]]:
    """A copy of the project for each write of the work, at which it was killed."""
    for point in some_writes():
        copy = Project(project.root.with_name(f"killed-{point}"), project.home)
        shutil.copytree(project.root, copy.root, symlinks=True)
        code = ended(forked(partial(work, copy.root), point))
        if code == 0:
            assert point > 5
            return
        assert code == -signal.SIGKILL
        yield point, copy
        shutil.rmtree(copy.root)


def known(project: Project) -> Manifest:
    store = locate.store(project.root)
    (name,) = store.found()
    return store.manifest(name)


def abort(root: Path) -> None:
    driving.abort(cwd=root)


def move(root: Path) -> None:
    assert driving.resume(on_this_branch=True, cwd=root).why == "waiting"


def look(root: Path) -> None:
    queries.show(cwd=root)


def test_an_end_on_another_branch_is_whole_or_not_there(away: Project) -> None:
    for point, copy in killed(away, abort):
        assert copy.git("status", "--porcelain") == "", point
        copy.git("switch", "-q", FEATURE)
        if known(copy).status is not SessionStatus.ABORTED:
            abort(copy.root)
        look(copy.root)
        assert copy.journal()[-1]["resolution"] == "abort", point
        assert copy.playbook("audit").code == 0, point


def test_what_was_written_elsewhere_comes_home_in_spite_of_kills(away: Project) -> None:
    abort(away.root)
    away.git("switch", "-q", FEATURE)
    for point, copy in killed(away, look):
        look(copy.root)
        assert copy.journal()[-1]["resolution"] == "abort", point
        assert copy.manifest()["status"] == "aborted"
        assert copy.playbook("audit").code == 0, point


@pytest.mark.long
def test_children_that_have_ended_come_along_in_spite_of_kills(project: Project) -> None:
    """Also the child of a child: the journals name them on the branch that the session moves to."""
    project.write(".playbooks/playbooks/outer.yaml", playbook("outer", "playbook middle") + ASKS)
    project.write(".playbooks/playbooks/middle.yaml", playbook("middle", "playbook inner"))
    project.write(".playbooks/playbooks/inner.yaml", playbook("inner", "cli touch in.txt"))
    project.write(".playbooks/config.yaml", "commit_sessions: step\n")
    project.commit("Playbooks")
    project.git("branch", "-f", "main")
    assert project.playbook("run", "outer").code == 4
    project.commit("The session as it is")
    project.git("switch", "-q", "main")
    for point, copy in killed(project, move):
        move(copy.root)
        assert len(copy.sessions) == 3, point
        assert copy.playbook("audit", "--all").code == 0, point


@pytest.mark.long
def test_a_session_is_moved_to_a_branch_or_is_not(away: Project) -> None:
    """Until it is, nothing is in the way of the branch to which it belongs."""
    for point, copy in killed(away, move):
        if known(copy).branch == FEATURE:
            copy.git("switch", "-q", FEATURE)
            copy.git("switch", "-q", "main")
        move(copy.root)
        assert copy.manifest()["branch"] == "main", point
        assert len(copy.manifest()["confirmed"]) == 1, point
        assert copy.playbook("answer", "continue").code == 0, point
