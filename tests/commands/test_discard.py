"""`abort --clean`: a session that came to nothing is taken away; everything else is kept."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.scripts import GATED
from support import crash_points
from support.in_process import Result
from support.scratch_project import FEATURE, Project

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.commands.worktrees import finish, worktree
from playbook_supervisor.commands.worktrees import start as starting
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.system.git import checkout

NEW = "014-new-thing"


def traces(project: Project) -> list[object]:
    """Everything that a session leaves, as far as it exists."""
    here = checkout.find(project.root)
    runtime = [each.name for each in here.runtime.glob("2*")] if here.runtime.exists() else []
    ids = sorted(each.name for each in here.ids.iterdir()) if here.ids.exists() else []
    worktrees = len(project.git("worktree", "list").splitlines())
    status = project.git("status", "--porcelain")
    return [runtime, ids, worktrees, status, sorted(worktree.heads(project.root))]


def kept(project: Project, *words: str) -> Result:
    """The refusal of `abort --clean`, which changes nothing."""
    before = traces(project)
    refused = project.playbook("abort", "--clean", *words)
    assert (refused.code, "PB-STATE-KEPT" in refused.err) == (3, True), refused.err
    assert traces(project) == before
    return refused


# ── in a worktree of its own ────────────────────────────────────────────────────────────────


def pending(tree: Project) -> None:
    """Nothing has begun."""


def failed(tree: Project) -> None:
    """A precondition did not hold."""
    tree.write("specs/014-new-thing/spec.md", "")
    done = driving.run("auto-feature", ["014"], cwd=tree.root, drive=scripted(tree))
    assert done.why == "failed"
    tree.git("checkout", "-q", "--", "specs")


def scripted(project: Project) -> DriveOptions:
    return DriveOptions(agent=project.script("default: {say: done}\n"))


@pytest.mark.parametrize("so_far", [pending, failed])
def test_worktree_branch_and_session_go(
    installed: Project, so_far: Callable[[Project], None]
) -> None:
    before = traces(installed)
    started = starting.start("auto-feature", ["014"], cwd=installed.root)
    so_far(Project(started.root, installed.home))
    done = installed.playbook("abort", "--clean", started.session_id)
    assert done.out.splitlines() == [
        f"✓ Session {started.session_id} removed: none of its steps ran",
        f"✓ Worktree ../{started.root.name} removed",
        f"✓ Branch {NEW} removed: merged into main",
    ]
    assert traces(installed) == before
    assert installed.playbook("status", "--all").out == ""


def test_a_branch_with_work_stays(installed: Project) -> None:
    installed.git("switch", "-q", "-c", "015-later")
    installed.write("specs/015-later/spec.md", "# Later\n")
    installed.commit("Specify")
    installed.git("switch", "-q", "main")
    started = starting.start("auto-feature", ["015"], cwd=installed.root)
    done = installed.playbook("abort", "--clean", started.session_id)
    assert done.out.splitlines()[-1] == "Branch 015-later stays"
    assert "015-later" in worktree.heads(installed.root)
    assert not started.root.exists()


def test_work_in_the_worktree_keeps_it(installed: Project) -> None:
    started = starting.start("auto-feature", ["014"], cwd=installed.root)
    Project(started.root, installed.home).write("made.txt", "x\n")
    assert kept(installed, started.session_id).out == "not committed: ?? made.txt\n"


def test_a_worktree_that_a_person_created_stays(installed: Project) -> None:
    installed.git("worktree", "add", "-q", "-b", NEW, "../mine")
    mine = Project(installed.root.with_name("mine"), installed.home)
    mine.write(".playbooks/playbooks/gated.yaml", GATED)
    driving.run("gated", cwd=mine.root, drive=scripted(mine))
    assert mine.playbook("abort", "--clean").code == 0
    assert (mine.root.exists(), mine.sessions) == (True, [])


@pytest.mark.parametrize("worktree", [True, False])
def test_killed_at_any_write_it_is_whole_or_gone_and_the_next_call_removes_it(
    installed: Project, tmp_path: Path, worktree: bool
) -> None:
    before = traces(installed)
    if worktree:
        started = starting.start("auto-feature", ["014"], cwd=installed.root)
        session_id, trees = started.session_id, [installed.root, started.root]
    else:
        installed.write(".playbooks/playbooks/gated.yaml", GATED)
        installed.commit("A gate")
        driving.run("gated", cwd=installed.root, drive=scripted(installed))
        session_id, trees = installed.session.name, [installed.root]
    for root in trees:
        shutil.copytree(root, tmp_path / "copy" / root.name, symlinks=True)
    for point in crash_points.some_writes(2):
        code = crash_points.ended(
            crash_points.forked(partial(finish.discard, session_id, cwd=trees[0]), point)
        )
        if code == 0:
            break
        assert code == -signal.SIGKILL
        listed = installed.playbook("status", "--all").out
        whole = trees[-1].exists() and bool(Project(trees[-1], installed.home).sessions)
        assert whole is (session_id in listed and "worktree is gone" not in listed), point
        gone = traces(installed) == before
        again = installed.playbook("abort", "--clean", session_id)
        assert again.code == 0 or gone, (point, again.err)
        assert traces(installed) == before, point
        for root in trees:
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(tmp_path / "copy" / root.name, root, symlinks=True)
    assert point > 8
    assert traces(installed) == before


# ── in the main checkout ────────────────────────────────────────────────────────────────────


@pytest.fixture
def waiting(project: Project) -> Project:
    """A session that waits at the gate before its first step."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.commit("A gate")
    driving.run("gated", cwd=project.root, drive=scripted(project))
    return project


def test_only_the_session_goes(waiting: Project) -> None:
    name = waiting.session.name
    done = waiting.playbook("abort", "--clean")
    assert done.out.splitlines() == [
        f"✓ Session {name} removed: none of its steps ran",
        f"✓ Folder .playbooks/sessions/{name} removed",
    ]
    assert traces(waiting) == [[], [], 1, "", [FEATURE, "main"]]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("commit", "it is in a commit: "),
        ("stage", "it is staged for a commit\n"),
        ("file", "notes.md is in its folder\n"),
        ("step", "publish#1 ran\n"),
    ],
)
def test_what_is_worth_keeping_is_named(waiting: Project, what: str, why: str) -> None:
    if what == "file":
        (waiting.session / "notes.md").write_text("mine\n")
    elif what == "step":
        assert waiting.playbook("answer", "continue").code == 0
        waiting.playbook("resume")
    else:
        waiting.git("add", "--all")
    if what == "commit":
        waiting.git("commit", "-qm", "With the session")
    refused = kept(waiting, waiting.session.name)
    assert refused.out.startswith(why)
    assert "playbook abort" in refused.err


def test_while_a_runner_drives_it_it_is_kept(waiting: Project) -> None:
    private = locate.store(waiting.root).runtime(waiting.session.name)
    with driver_lock.driving(private, "script"):
        refused = waiting.playbook("abort", "--clean")
    assert "PB-STATE-DRIVEN" in refused.err
    assert waiting.session.exists()
