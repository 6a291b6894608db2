"""`playbook demo`."""

from __future__ import annotations

from pathlib import Path

from support.scratch_project import Project

from cli.terminal import Terminal


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


def test_at_a_terminal_a_person_answers(project: Project, tmp_path: Path) -> None:
    with Terminal(project, "demo", TMPDIR=str(tmp_path)) as terminal:
        terminal.until("✓")
        terminal.until("pr#1 waits for you")
        terminal.until("abort > ")
        terminal.type("abort\n")
        assert terminal.end() == 2
        assert "$ git log --oneline" in terminal.shown
