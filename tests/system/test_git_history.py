"""The history of a file, in real repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.formats.timestamps import from_time
from playbook_supervisor.system.git import git_history

NOON = "2026-02-19T12:00:00+00:00"
EVENING = "2026-02-19T18:00:00+00:00"
FILE = ".playbooks/sessions/20260219-a7k/journal.yaml"


def ms(text: str) -> int:
    return from_time(text) or 0


def commit_at(project: Project, when: str, message: str = "Go on") -> None:
    project.env |= {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when}
    project.commit(message)
    for name in ("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"):
        del project.env[name]


class TestLineTimes:
    def test_each_line_has_the_time_of_its_commit_and_a_new_line_has_none(
        self, project: Project
    ) -> None:
        file = project.write(FILE, "one\n\ttwo\n")
        commit_at(project, NOON)
        project.write(FILE, "one\n\ttwo\nthree\n")
        commit_at(project, EVENING)
        project.write(FILE, "one\n\ttwo\nthree\nfour\n")
        noon, evening = ms(NOON), ms(EVENING)
        assert git_history.line_times(file.parent, file.name) == (noon, noon, evening, 0)


class TestMergedInto:
    def test_a_main_branch_has_it_after_any_kind_of_merge(self, project: Project) -> None:
        """After a squash, main has the file but no commit of the branch."""
        branch = project.git("branch", "--show-current")
        file = project.write(FILE, "one\n")
        project.commit("Begin")

        def merged() -> str:
            return git_history.merged_into(file.parent, file.name, branch)

        assert merged() == ""
        main = project.git("for-each-ref", "--format=%(refname:short)", "refs/heads/ma*")
        project.git("switch", "-q", main)
        project.git("merge", "-q", "--squash", branch)
        project.commit("All of it")
        assert merged() == main
        assert git_history.merged_into(file.parent, file.name, main) == ""

    def test_a_remote_names_its_main_branch_itself(self, project: Project, tmp_path: Path) -> None:
        file = project.write(FILE, "one\n")
        project.commit("Begin")
        project.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
        project.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
        assert git_history.merged_into(file.parent, file.name, "013-x") == "trunk"
        assert git_history.merged_into(tmp_path, file.name, "013-x") == ""


class TestEarlierContent:
    def test_the_last_commit_before_that_time_counts(self, project: Project) -> None:
        project.write("plan.yaml", "at noon\n")
        commit_at(project, NOON)
        project.write("plan.yaml", "in the evening\n")
        commit_at(project, EVENING)
        root = project.root
        assert git_history.as_of(root, "plan.yaml", ms(NOON) - 1000) is None
        assert git_history.as_of(root, "plan.yaml", ms(NOON)) == b"at noon\n"
        assert git_history.as_of(root, "plan.yaml", ms(EVENING) + 1) == b"in the evening\n"
        assert git_history.as_of(root, "none.yaml", ms(EVENING)) is None

    @pytest.mark.parametrize("when", [0, -1, 253_402_300_799_000])
    def test_every_time_is_accepted(self, project: Project, when: int) -> None:
        known = git_history.as_of(project.root, "README.md", when)
        assert (known is not None) == (when > 0)

    def test_without_git_nothing_is_known(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", os.fspath(project.home))
        assert git_history.as_of(project.root, "README.md", 10**12) is None
