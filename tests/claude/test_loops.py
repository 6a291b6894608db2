"""Loops inside the real client."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from support.scratch_project import Project

from claude.conftest import Sit
from claude.obedient import Obedient
from claude.recorder import Recorder

LOOP = """\
name: loop
description: Implement each file, then release each
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: list, command: "cli echo '[\\"a\\", \\"b\\", \\"c\\"]'", output: json}
  - id: build
    command: /speckit.implement
    args: "{{file}}"
    autonomy: gate_always
    for_each: {in: $list.json, as: file, max: 5, at_once: 2}
  - id: release
    command: playbook below
    with: {args: {file: "{{file}}"}}
    for_each: {in: $list.json, as: file, max: 5}
  - {id: show, command: cli cat, stdin: $release.stdout}
"""
BELOW = """\
name: below
description: Release one file
version: "1.1"
args: [{name: file, description: The file, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: say, command: "cli echo released {{file}}"}
"""


@pytest.fixture
def project(furnished: Project) -> Project:
    furnished.write(".playbooks/playbooks/loop.yaml", LOOP)
    furnished.write(".playbooks/playbooks/below.yaml", BELOW)
    furnished.commit("Two playbooks")
    return furnished


def journals(project: Project) -> dict[str, list[list[dict[str, Any]]]]:
    """The entries of each session, by the playbook's name."""
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for folder in project.sessions:
        name = yaml.safe_load((folder / "session.yaml").read_bytes())["playbook"]
        entries = yaml.safe_load((folder / "journal.yaml").read_bytes())["entries"]
        found.setdefault(name, []).append(entries)
    return found


def test_items_have_agents_of_their_own_and_one_gate(
    project: Project, sit: Sit, recorder: Recorder
) -> None:
    """cat FR-4.8: two agents at once, then one; a child session for each item."""
    terminal = sit(Obedient())
    terminal.say("/playbook.run loop")
    terminal.wait_for("for each of 3 items", timeout=90)
    assert recorder.of("PreToolUse", tool="Agent") == []
    terminal.choose("continue")
    terminal.wait_for("loop: completed", timeout=120)
    launched = [seen["tool_input"]["prompt"] for seen in recorder.of("PreToolUse", tool="Agent")]
    assert sorted(launched) == ["build[1]#1", "build[2]#1", "build[3]#1"]
    assert launched[-1] == "build[3]#1"
    found = journals(project)
    (top,) = found["loop"]
    assert [(entry["step_id"], entry["status"]) for entry in top] == [
        ("list", "done"),
        *((f"build[{number}]", "done") for number in (1, 2, 3)),
        *((f"release[{number}]", "done") for number in (1, 2, 3)),
        ("show", "done"),
    ]
    assert [len(entry.get("gates", [])) for entry in top] == [0, 1, 0, 0, 0, 0, 0, 0]
    assert sorted(entries[0]["output"] for entries in found["below"]) == [
        "released a",
        "released b",
        "released c",
    ]
    assert top[-1]["output"].splitlines()[-1] == "released c"
