"""Loops in a client: agents and programs by the ids of items, also in child sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import directive_lines
from support.bound_session import Conversation
from support.scratch_project import Project

LOOP = """\
name: loop
description: Look at each
version: "1.1"
args: [{name: files, description: The files, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - id: look
    command: /qa.plan
    args: "{{file}}"
    for_each: {in: $files, as: file, at_once: 2}
  - {id: build, command: cli echo built, until: {conditions: [file_exists: done], max: 2}}
"""
EACH = """\
name: each
description: Run a playbook for each
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: list, command: "cli echo '[\\"a\\", \\"b\\"]'", output: json}
  - id: release
    command: playbook below
    for_each: {in: $list.json, as: file}
    with: {args: {file: "{{file}}"}}
"""
BELOW = """\
name: below
description: Look at one
version: "1.1"
args: [{name: file, description: The file, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: look, command: "cli echo saw {{file}}"}
"""


@pytest.fixture
def looped(project: Project) -> Project:
    project.write("done", "yes\n")
    for name, text in (("loop", LOOP), ("each", EACH), ("below", BELOW)):
        project.write(f".playbooks/playbooks/{name}.yaml", text)
    project.commit("Three playbooks")
    return project


@pytest.fixture
def conversation(looped: Project) -> Iterator[Conversation]:
    with Conversation(looped) as conversation:
        yield conversation


def test_a_client_hands_out_the_items_that_run_together(
    looped: Project, conversation: Conversation
) -> None:
    due = directive_lines.told(conversation.types("run", "loop files='a b c'"))
    assert [step["id"] for step in due["steps"]] == ["look[1]#1", "look[2]#1"]
    assert [step["args"] for step in due["steps"]] == ["a", "b"]
    conversation.works("look[2]#1", "qa.plan", "b")
    due = directive_lines.told(conversation.works("look[1]#1", "qa.plan", "a"))
    assert [step["id"] for step in due["steps"]] == ["look[3]#1"]
    conversation.works("look[3]#1", "qa.plan", "c")
    conversation.runs("next", "--wait")
    entries = looped.journals()["loop"]
    assert [entry["status"] for entry in entries] == ["done"] * 4
    assert [entry.get("item") for entry in entries] == ["a", "b", "c", None]


def test_a_child_session_does_the_work_of_each_item(looped: Project) -> None:
    """cat FR-9.1: a loop over several steps is a loop over a child playbook."""
    ended = looped.playbook("run", "each")
    assert ended.code == 0, ended.err
    entries = looped.journals()["each"]
    assert [entry["step_id"] for entry in entries] == ["list", "release[1]", "release[2]"]
    assert len({entry["session"] for entry in entries[1:]}) == 2
    assert looped.journals()["below"][0]["output"].startswith("saw ")
    assert looped.playbook("audit").code == 0
