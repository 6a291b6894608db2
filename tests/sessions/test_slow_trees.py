"""A tree that git takes long to read delays no hook: the look is left to a command, or left out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.stored_sessions import Scene, unsynced, work

from playbook_supervisor.drivers.claude_code.context import client_tree
from playbook_supervisor.kernel.directives import Check, Outcome, Run
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.sessions.engine import session_engine
from playbook_supervisor.sessions.store.snapshot import for_us
from playbook_supervisor.sessions.tree.session_tree import SessionTree

SLOW_GIT = """\
#!/bin/sh
case "$*" in *" add --all "*) [ -e '{held}' ] && exec sleep 600 ;; esac
exec '{git}' "$@"
"""


class SlowGit:
    """The `git` on PATH; while it is held, it never ends the command that reads the whole tree."""

    def __init__(self, folder: Path) -> None:
        self._held = folder / "held"
        program = folder / "git"
        folder.mkdir()
        program.write_text(SLOW_GIT.format(held=self._held, git=shutil.which("git")))
        program.chmod(0o755)

    def hold(self) -> None:
        self._held.touch()

    def release(self) -> None:
        self._held.unlink()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return unsynced(monkeypatch, tmp_path / "project")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowGit:
    monkeypatch.setenv("PATH", f"{tmp_path / 'slow'}:{os.environ['PATH']}")
    monkeypatch.setattr(session_engine, "_LOOKING_IN_HOOK", 0.3)
    return SlowGit(tmp_path / "slow")


def begun(scene: Scene) -> tuple[SessionTree, SessionTree]:
    """A session as the hooks of a client see it, and as a command does."""
    policy, conditions = ErrorPolicy.read("stop"), ("changes_made=**",)
    steps = [
        Step(name, "/speckit.plan", Autonomy.AUTO, policy, postconditions=conditions)
        for name in ("first", "second")
    ]
    command = scene.define(*steps)
    return client_tree(scene.store, command.id), command


def test_a_hook_leaves_the_launch_to_a_command(scene: Scene, slow: SlowGit) -> None:
    hook, command = begun(scene)
    slow.hold()
    waiting = hook.begin()
    assert isinstance(waiting.directive, Check)
    assert [attempt.id for attempt in for_us(waiting)] == ["first#1"]
    assert scene.store.journal(hook.id).entries == ()
    slow.release()
    assert isinstance(command.advance().directive, Run)


def test_a_hook_keeps_the_return_and_leaves_the_judgement_to_a_command(
    scene: Scene, slow: SlowGit
) -> None:
    hook, command = begun(scene)
    attempt = work(hook.begin())
    scene.write("made.txt")
    slow.hold()
    assert isinstance(hook.report(attempt.id, Outcome(output="made it")).directive, Check)
    (entry,) = scene.store.journal(hook.id).entries
    assert (entry.returned_at is not None, entry.settled) == (True, False)
    slow.release()
    assert work(command.advance()).id == "second#1"
