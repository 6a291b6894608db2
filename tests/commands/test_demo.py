"""The demonstration: a scratch repository in which the main job really runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.terminal import Terminal
from support.scratch_project import Project

from playbook_supervisor.commands import demo
from playbook_supervisor.errors import ArgumentError


@pytest.fixture
def prepared(tmp_path: Path) -> demo.Demo:
    return demo.prepare(tmp_path / "scratch")


def repository(prepared: demo.Demo, home: Path) -> Project:
    return Project(prepared.root, home, dict(prepared.env))


class TestTheScratchRepository:
    def test_is_committed_with_playbooks_installed(self, prepared: demo.Demo, home: Path) -> None:
        project = repository(prepared, home)
        assert project.git("branch", "--show-current") == "001-greeting"
        assert project.git("status", "--porcelain") == ""
        assert project.git("log", "--format=%s", "--reverse").splitlines() == [
            "Specify a greeting",
            "Install playbooks",
        ]
        assert "specs/001-greeting/spec.md" in project.git("ls-files")
        assert ".playbooks/install.yaml" in project.git("ls-files")

    def test_needs_no_identity_and_asks_nothing_of_the_users_settings(
        self, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hooks = home / "hooks"
        hooks.mkdir()
        (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
        (hooks / "pre-commit").chmod(0o755)
        settings = home / "gitconfig"
        settings.write_text(
            "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n"
            f"[core]\n\thooksPath = {hooks}\n\texcludesFile = {home / 'ignored'}\n"
        )
        (home / "ignored").write_text(".claude\n.playbooks\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
        project = repository(demo.prepare(tmp_path / "scratch"), home)
        assert project.git("log", "--format=%an", "-1") == "Demo"
        assert ".claude/commands/speckit.plan.md" in project.git("ls-files")

    def test_is_independent_of_a_surrounding_git_hook(
        self, project: Project, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = project.git("log", "--format=%H"), project.git("status", "--porcelain")
        with monkeypatch.context() as surrounded:
            surrounded.setenv("GIT_DIR", str(project.root / ".git"))
            surrounded.setenv("GIT_WORK_TREE", str(project.root))
            surrounded.setenv("GIT_INDEX_FILE", str(project.root / ".git/index"))
            made = demo.prepare(tmp_path / "scratch")
        assert (project.git("log", "--format=%H"), project.git("status", "--porcelain")) == before
        assert repository(made, home).git("status", "--porcelain") == ""

    def test_an_existing_folder_is_refused(self, tmp_path: Path) -> None:
        mine = tmp_path / "project/notes.md"
        mine.parent.mkdir()
        mine.write_text("mine\n")
        with pytest.raises(ArgumentError, match="already exists") as caught:
            demo.prepare(tmp_path)
        assert caught.value.code == "PB-ARG-USAGE"
        assert [path.name for path in mine.parent.iterdir()] == ["notes.md"]


def test_the_demo_answers_its_own_gate_without_a_terminal(project: Project, tmp_path: Path) -> None:
    """kai S-U1, S-B1, MVP-7: seven steps without a human, a question, and the pull request."""
    before = project.git("status", "--porcelain")
    env = {"TMPDIR": str(tmp_path), "PLAYBOOK_SESSION": "20260219-a7k"}
    done = project.playbook("demo", env=env)
    assert done.code == 0
    assert "$ playbook run auto-feature 001" in done.err
    assert "pr#1 WAITS FOR A HUMAN" in done.err
    assert "There is no terminal to ask at: the demo answers `continue` itself." in done.err
    assert "completed, 8/8 steps" in done.err
    assert "journal.yaml\nschema: 1\nentries:\n  - step_id: plan\n" in done.out
    assert done.out.splitlines()[-1].endswith(" Specify a greeting")
    (left,) = tmp_path.glob("playbook-demo-*")
    assert str(left / "project") in done.err
    assert project.git("status", "--porcelain") == before
    made = Project(left / "project", project.home)
    entries = made.journal()
    assert [entry["status"] for entry in entries if entry["step_id"] == "implement"] == [
        "failed",
        "done",
    ]
    assert entries[-1]["evidence"] == [
        "pr_created: pull request #1 is open: https://forge.example/pull/1"
    ]
    assert (made.root / "greet.py").is_file()


@pytest.mark.long
def test_at_a_terminal_a_person_answers(project: Project, tmp_path: Path) -> None:
    with Terminal(project, "demo", TMPDIR=str(tmp_path)) as terminal:
        terminal.until("✓")
        terminal.until("pr#1 waits for you")
        terminal.until("abort > ")
        terminal.type("abort\n")
        assert terminal.end() == 2
        assert "$ git log --oneline" in terminal.shown
