"""Approvals and checkpoints of a playbook, in a real project."""

from __future__ import annotations

import time

import pytest
from support.scratch_project import Project

from cli.terminal import Terminal

RELEASE = """\
name: release
description: Write the notes, look at them, send them
version: "1.1"
args:
  - {name: topic, description: What it is about, required: true}
  - {name: token, description: The secret, required: false, secret: true, default: API_TOKEN}
defaults: {autonomy: auto, error_policy: stop}
steps:
  - id: notes
    command: cli cat notes.md
    checkpoint: true
  - id: look
    command: checkpoint
    with: {message: "Are the notes about {{topic}} right?", preview: $notes.stdout}
  - id: send
    command: cli ./send {{topic}}
    approval: required
    stdin: $notes.stdout
    with: {env: {TOKEN: "{{token}}"}}
  - {id: thank, command: cli echo thanks, when: $look.approved}
"""
SECRET = "hunter2-hunter2"


@pytest.fixture
def release(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("API_TOKEN", SECRET)
    project.write(".playbooks/playbooks/release.yaml", RELEASE)
    project.write("notes.md", "First line\nSecond line\n")
    project.write(
        "send", "#!/bin/sh\ncat >>sent\ntest -f slow && sleep 60\ntest -f online\n"
    ).chmod(0o755)
    return project


def reasons(project: Project) -> list[str]:
    return [gate["reason"] for entry in project.journal() for gate in entry.get("gates", [])]


def until_the_approval(project: Project) -> None:
    assert project.playbook("run", "release", "tea").code == 4
    for _ in range(2):
        project.playbook("answer", "continue")
        assert project.playbook("resume").code == 4


def test_a_person_looks_at_a_result_and_at_what_is_about_to_be_sent(release: Project) -> None:
    """cat FR-4.5, FR-6.1; tyr 21, 23."""
    release.write("online", "")
    run = release.playbook("run", "release", "tea")
    assert (run.code, "notes is done. Continue, retry the step, or abort?" in run.err) == (4, True)
    release.playbook("answer", "continue")
    looked = release.playbook("resume")
    assert "Are the notes about tea right? Continue, skip this checkpoint, or abort?" in looked.err
    assert looked.err.count("First line") == 1
    release.playbook("answer", "continue")
    asked = release.playbook("resume")
    assert "send needs your approval: Run cli ./send tea, as shown below." in asked.err
    assert '  env: {"TOKEN": "{{token}}"}\n  $notes.stdout:\n    First line\n' in asked.err
    assert not (release.root / "sent").exists()
    release.playbook("answer", "continue")
    assert release.playbook("resume").code == 0
    assert reasons(release) == ["checkpoint", "checkpoint", "approval"]
    assert (release.root / "sent").read_text() == "First line\nSecond line\n"
    assert [entry["status"] for entry in release.journal()] == ["done"] * 4
    assert release.playbook("audit").code == 0
    assert SECRET not in run.err + looked.err + asked.err + release.git("show", "HEAD")


def test_the_autonomous_mode_passes_checkpoints_and_no_approval(release: Project) -> None:
    """cat FR-6.3."""
    run = release.playbook("run", "release", "tea", "--mode", "autonomous")
    assert run.code == 4
    assert "send needs your approval" in run.err
    by = [gate.get("by") for entry in release.journal() for gate in entry.get("gates", [])]
    assert by == ["autonomous", "autonomous", None]


def test_an_answer_that_does_not_approve_decides_what_follows(release: Project) -> None:
    """tyr 24."""
    release.write("online", "")
    release.playbook("run", "release", "tea")
    release.playbook("answer", "continue")
    release.playbook("resume")
    release.playbook("answer", "skip: not sure")
    release.playbook("resume")
    release.playbook("answer", "continue")
    assert release.playbook("resume").code == 0
    assert release.journal()[-1]["evidence"] == ["when: $look.approved is false"]


def test_a_result_that_is_sent_back_is_made_again(release: Project) -> None:
    release.playbook("run", "release", "tea")
    release.write("notes.md", "Better\n")
    release.playbook("answer", "shorter, please: retry")
    assert release.playbook("resume").code == 4
    first, second = release.journal()
    assert (first["status"], first["error_code"]) == ("failed", "PB-COND-SENT-BACK")
    assert second["output"] == "Better"


@pytest.mark.measured
def test_a_run_killed_at_an_approval_is_asked_again_and_killed_after_it_is_not(
    release: Project,
) -> None:
    """cat FR-6.4."""
    release.write("slow", "")
    until_the_approval(release)
    with Terminal(release, "resume") as terminal:
        terminal.until("send needs your approval")
        terminal.process.kill()
    assert "WAITS FOR A HUMAN at send#1?1" in release.playbook("status").out
    release.playbook("answer", "continue")
    with release.spawn("resume") as runner:
        while not (release.root / "sent").exists():
            time.sleep(0.01)
        runner.kill()
    (release.root / "slow").unlink()
    release.write("online", "")
    assert release.playbook("resume", "--kill").code == 0
    assert reasons(release).count("approval") == 1
    assert [entry["step_id"] for entry in release.journal()].count("send") == 2


def test_a_long_or_hostile_preview_is_cut_and_harmless(release: Project) -> None:
    lines = ["\x1b[2J\u202eevil", *(f"line {number}" for number in range(2_000))]
    release.write("notes.md", "\n".join(lines))
    until_the_approval(release)
    shown = release.playbook("status").out
    assert "line 7" in shown
    assert "… 1992 more lines" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_the_plan_says_where_a_person_is_asked(release: Project) -> None:
    plan = release.playbook("run", "release", "tea", "--dry-run").out
    assert "checkpoint: asks you after it has run" in plan
    assert "checkpoint: asks you before it runs" in plan
    assert "asks   Are the notes about tea right?" in plan
    assert "approval: asks you before it runs" in plan
    alone = release.playbook("run", "release", "tea", "--dry-run", "--mode=autonomous").out
    assert alone.count("approved automatically") == 2
    assert "approval: asks you before it runs" in alone


def test_the_graph_shows_where_a_person_is_asked(release: Project) -> None:
    drawn = release.playbook("graph", "release").out
    assert "s1 --> a1" in drawn
    assert "a1 -->|continue| b2" in drawn
    assert "Are the notes about" in drawn
