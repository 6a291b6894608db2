"""Loops in a client: agents and programs by the ids of items, also in child sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
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


def told(reply: Any) -> Any:
    return directive_lines.in_text(reply["hookSpecificOutput"]["additionalContext"])[0]


def journals(project: Project) -> dict[str, list[dict[str, Any]]]:
    """The entries of each session, by the playbook's name."""
    found = {}
    for folder in project.sessions:
        manifest = yaml.safe_load((folder / "session.yaml").read_bytes())
        entries = yaml.safe_load((folder / "journal.yaml").read_bytes())["entries"]
        found[manifest["playbook"]] = entries
    return found


def agent(conversation: Conversation, attempt: str, args: str) -> Any:
    """An agent runs the command with these args; what the client is told when it comes back."""
    called: dict[str, Any] = {"tool_name": "Agent", "tool_use_id": f"use of {attempt}"}
    allowed = conversation.hook("PreToolUse", **called, tool_input={"prompt": attempt})
    given = allowed["hookSpecificOutput"]["updatedInput"]
    assert given["description"] == f"{attempt} /qa.plan"
    assert f"args `{args}`" in given["prompt"]
    skill = {"skill": "qa.plan", "args": args}
    ran: dict[str, Any] = {"tool_input": skill, "tool_response": {"success": True}}
    conversation.hook("PostToolUse", agent_id=attempt, tool_name="Skill", **ran)
    back = {"status": "completed", "agentId": attempt, "content": []}
    return conversation.hook("PostToolUse", **called, tool_response=back)


def test_a_client_hands_out_the_items_that_run_together(
    looped: Project, conversation: Conversation
) -> None:
    due = told(conversation.types("run", "loop files='a b c'"))
    assert [step["id"] for step in due["steps"]] == ["look[1]#1", "look[2]#1"]
    assert [step["args"] for step in due["steps"]] == ["a", "b"]
    agent(conversation, "look[2]#1", "b")
    due = told(agent(conversation, "look[1]#1", "a"))
    assert [step["id"] for step in due["steps"]] == ["look[3]#1"]
    agent(conversation, "look[3]#1", "c")
    conversation.runs("next", "--wait")
    entries = journals(looped)["loop"]
    assert [entry["status"] for entry in entries] == ["done"] * 4
    assert [entry.get("item") for entry in entries] == ["a", "b", "c", None]


def test_a_child_session_does_the_work_of_each_item(looped: Project) -> None:
    """cat FR-9.1: a loop over several steps is a loop over a child playbook."""
    ended = looped.playbook("run", "each")
    assert ended.code == 0, ended.err
    entries = journals(looped)["each"]
    assert [entry["step_id"] for entry in entries] == ["list", "release[1]", "release[2]"]
    assert len({entry["session"] for entry in entries[1:]}) == 2
    assert journals(looped)["below"][0]["output"].startswith("saw ")
    assert looped.playbook("audit").code == 0
