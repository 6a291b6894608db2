"""The session that a command without a name applies to, and short names of sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scratch_project import FEATURE, Project

from cli.scripts import GATED, WORKS
from cli.test_sessions import legacy


@pytest.fixture
def waiting(project: Project) -> Project:
    """A session that waits at a gate, and is committed."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.playbook("run", "gated", "--agent", project.script(WORKS))
    project.commit("So far")
    return project


def cloned(project: Project, place: Path, *branch: str) -> Project:
    project.git("clone", "-q", *branch, str(project.root), str(place))
    return Project(place, project.home)


class TestInAFreshClone:
    @pytest.mark.parametrize("command", [("answer", "continue"), ("status",)])
    def test_a_session_is_found_on_its_branch(
        self, waiting: Project, tmp_path: Path, command: tuple[str, ...]
    ) -> None:
        """kai FR16; own L-7."""
        clone = cloned(waiting, tmp_path / "clone")
        done = clone.playbook(*command)
        assert done.code == 0, done.err
        assert waiting.session.name in done.out or "publish#1" in done.out
        if command[0] == "answer":
            ended = clone.playbook("resume", "--agent", waiting.script(WORKS))
            assert (ended.code, clone.manifest()["status"]) == (0, "completed"), ended.err

    def test_so_is_one_of_a_worktree_whose_path_is_something_else_there(
        self, project: Project, tmp_path: Path
    ) -> None:
        """`worktree` leads from the clone to a checkout of another repository."""
        tree = Project(tmp_path / "tree", project.home)
        project.git("worktree", "add", "-q", str(tree.root), "-b", "014-other")
        tree.write(".playbooks/playbooks/gated.yaml", GATED)
        tree.playbook("run", "gated", "--agent", tree.script(WORKS))
        assert tree.manifest()["worktree"] == "../tree"
        tree.commit("So far")
        clone = cloned(project, tmp_path / "clone", "--branch", "014-other")
        answered = clone.playbook("answer", "continue")
        assert answered.code == 0, answered.err

    def test_so_is_one_in_a_worktree_of_the_clone_and_where_no_branch_is_checked_out(
        self, waiting: Project, tmp_path: Path
    ) -> None:
        clone = cloned(waiting, tmp_path / "clone", "--branch", "main")
        tree = Project(tmp_path / "tree", waiting.home)
        clone.git("worktree", "add", "-q", str(tree.root), FEATURE)
        assert "no session belongs" in clone.playbook("show").err
        assert "publish#1" in tree.playbook("show").out
        clone.git("worktree", "remove", str(tree.root))
        clone.git("checkout", "-q", "--detach", f"origin/{FEATURE}")
        assert clone.playbook("answer", "continue").code == 0

    def test_on_another_branch_the_error_says_what_there_is(
        self, waiting: Project, tmp_path: Path
    ) -> None:
        clone = cloned(waiting, tmp_path / "clone")
        clone.git("switch", "-q", "-c", "015-more")
        lost = clone.playbook("resume")
        assert (lost.code, len(lost.err.splitlines())) == (3, 2)
        assert f"{waiting.session.name} (gated {FEATURE}, waits for an answer" in lost.err
        begun = clone.playbook("begin", "auto-validate", "013")
        assert begun.code == 0, "a session of another branch is not open here"


class TestASessionOfKai:
    def test_is_resumed_by_its_short_name_and_neither_chosen_nor_in_the_way(
        self, project: Project
    ) -> None:
        legacy(project)
        for command in ("resume", "abort", "pause"):
            refused = project.playbook(command)
            assert (refused.code, "20260219-a7k" in refused.err) == (3, True)
        assert project.playbook("begin", "auto-validate", "013").code == 0
        taken_up = project.playbook("resume", "a7k", "--agent", project.script(WORKS))
        assert "qa-run#1 WAITS FOR A HUMAN" in taken_up.err


class TestAShortName:
    def test_is_taken_wherever_an_id_is(self, waiting: Project) -> None:
        short = waiting.session.name[-5:]  # with a digit, which the rest need not have
        commands = [
            ["status", short],
            ["show", short],
            ["audit", short],
            ["graph", "--session", short],
            ["metrics", "--session", short],
            ["repair", short],
            ["next", "--session", short],
            ["pause", short],
            ["answer", short, "skip"],
        ]
        for command in commands:
            done = waiting.playbook(*command)
            assert done.code in (0, 1), (command, done.err)
            assert "PB-STATE-NO-SESSION" not in done.err, command
        assert waiting.playbook("show", env={"PLAYBOOK_SESSION": short}).code == 0
        assert waiting.journal()[-1]["human_response"] == "skip"


def test_a_session_without_a_feature_is_listed_with_its_arguments(project: Project) -> None:
    text = GATED.replace("args: []", "args:\n  - {name: topic, description: t, required: true}")
    project.write(".playbooks/playbooks/gated.yaml", text)
    project.playbook("run", "gated", "release notes", "--agent", project.script(WORKS))
    for command in ("status", "show"):
        assert "gated  topic=release notes" in project.playbook(command).out
    refused = project.playbook("run", "auto-validate", "013")
    assert "gated on topic=release notes" in refused.err
