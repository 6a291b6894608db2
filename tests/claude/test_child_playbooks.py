"""Playbooks that run playbooks, inside the real client."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from support.scratch_project import Project

from claude.conftest import Sit
from claude.obedient import Obedient
from claude.recorder import Recorder

TOP = """\
name: top
description: Plan in a child, twice at once, then build
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: one, command: playbook below, with: {args: {what: one}}, parallel_group: both}
  - {id: two, command: playbook below, with: {args: {what: two}}, parallel_group: both}
  - {id: show, command: cli cat, stdin: $two.stdout}
"""
BELOW = """\
name: below
description: An agent, a person, a program
version: "1.1"
args: [{name: what, description: What it is about, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: implement, command: /speckit.implement, args: "{{what}}"}
  - {id: ask, command: checkpoint, with: {message: "Is {{what}} right?"}}
  - {id: say, command: "cli echo {{what}} is right"}
"""


@pytest.fixture
def project(furnished: Project) -> Project:
    furnished.write(".playbooks/playbooks/top.yaml", TOP)
    furnished.write(".playbooks/playbooks/below.yaml", BELOW)
    furnished.commit("Two playbooks")
    return furnished


def manifests(project: Project) -> list[dict[str, Any]]:
    return [yaml.safe_load((each / "session.yaml").read_bytes()) for each in project.sessions]


def test_two_children_work_at_once_and_ask_one_after_the_other(
    project: Project, sit: Sit, recorder: Recorder
) -> None:
    """cat FR-9.1: agents by the paths of their attempts, gates in the client's own dialog."""
    terminal = sit(Obedient())
    terminal.say("/playbook.run top")
    terminal.wait_for(r"Is one right\?", timeout=90)
    launched = [seen["tool_input"]["prompt"] for seen in recorder.of("PreToolUse", tool="Agent")]
    assert sorted(launched) == ["one#1/implement#1", "two#1/implement#1"]
    terminal.choose("continue")
    terminal.wait_for(r"Is two right\?", timeout=90)
    terminal.choose("continue")
    terminal.wait_for("top: completed", timeout=90)
    assert [each["status"] for each in manifests(project)] == ["completed"] * 3
    (top,) = (each for each in manifests(project) if "parent" not in each)
    journal = project.read(f".playbooks/sessions/{top['session_id']}/journal.yaml")
    assert yaml.safe_load(journal)["entries"][-1]["output"] == "two is right"
