"""Where a policy names people, another person's answer passes no gate in the real client."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scratch_project import Project

from claude import playbooks
from claude.conftest import Sit
from claude.obedient import Obedient
from claude.recorder import Recorder

PLAN = r"Run /speckit\.plan \(step plan\) now"
REFUSED = r"continue\s[^❯]*may not answer for `plan`[^❯]*\[PB-POLICY-ANSWER\]"


@pytest.fixture
def project(pristine: Path, tmp_path: Path, home: Path) -> Project:
    """Its release team answers before `straight` begins, and no member is here."""
    root = playbooks.furnished(pristine, tmp_path)
    made = Project(root=root, home=home)
    made.write(
        ".playbooks/policies/release.yaml",
        "match: {playbook: straight, step: plan}\n"
        "autonomy: gate_always\n"
        "answered_by: ['*@release.example.org']\n",
    )
    return made


def test_an_answer_of_another_person_is_refused_and_one_of_a_named_person_counts(
    project: Project, sit: Sit, recorder: Recorder
) -> None:
    """By the dialog's key and by typing: the person reads why, and the gate stays open."""
    terminal = sit(Obedient())
    terminal.say("/playbook.run straight 013")
    terminal.wait_for(PLAN)
    terminal.choose("continue")
    recorder.wait_for("Stop", count=1)
    terminal.wait_for(f"→ {REFUSED}")
    terminal.say("continue")
    recorder.wait_for("Stop", count=2)
    terminal.wait_for(f"❯ {REFUSED}")
    (gate,) = project.journal()[-1]["gates"]
    assert "resolution" not in gate
    assert project.manifest()["gate"]["id"] == gate["id"] == "plan#1?1"
    project.git("config", "user.email", "rita@release.example.org")
    terminal.say("continue")
    terminal.wait_for(r"Agent\(plan#1\)")
    (gate,) = project.journal()[0]["gates"]
    assert gate["resolution"] == "continue"
    assert gate["by"].endswith("<rita@release.example.org>")
