"""Child sessions and loops in a client: agents, programs and gates by the path of an attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.bound_session import Conversation
from support.directive_lines import in_text, told
from support.scratch_project import Project

TOP = """\
name: top
description: Look twice
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: release, command: playbook below}
  - {id: last, command: /qa.plan}
"""
BELOW = """\
name: below
description: Look, build and ask
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: look, command: /qa.plan}
  - {id: build, command: cli echo built}
  - {id: ask, command: checkpoint, with: {message: "Is it right?"}}
"""
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
    command: playbook one
    for_each: {in: $list.json, as: file}
    with: {args: {file: "{{file}}"}}
"""
ONE = """\
name: one
description: Look at one
version: "1.1"
args: [{name: file, description: The file, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: look, command: "cli echo saw {{file}}"}
"""


@pytest.fixture
def tree(project: Project) -> Project:
    texts = {"top": TOP, "below": BELOW, "loop": LOOP, "each": EACH, "one": ONE}
    for name, text in texts.items():
        project.write(f".playbooks/playbooks/{name}.yaml", text)
    project.write("done", "yes\n")
    project.commit("Playbooks")
    return project


@pytest.fixture
def conversation(tree: Project) -> Iterator[Conversation]:
    with Conversation(tree) as conversation:
        yield conversation


def test_a_client_drives_a_child_as_it_drives_every_session(
    tree: Project, conversation: Conversation
) -> None:
    """cat FR-9.1: its agents, its programs behind `next --wait`, and its gate in the dialog."""
    due = told(conversation.types("run", "top"))
    assert [step["id"] for step in due["steps"]] == ["release#1/look#1"]
    assert due["playbook"] == "top"
    reply = conversation.works("release#1/look#1", "qa.plan")
    assert "release#1/look ✓" in json.dumps(reply, ensure_ascii=False)
    assert (told(reply)["directive"], told(reply)["steps"]) == (
        "wait",
        ["release#1/build#1"],
    )
    asked = in_text(conversation.runs("next", "--wait").out)[0]
    assert asked["gate"]["id"] == "release#1/ask#1?1"
    dialog: dict[str, Any] = {"tool_name": "AskUserQuestion", "tool_use_id": "dialog"}
    shown = conversation.hook("PreToolUse", **dialog, tool_input={"questions": []})
    (question,) = shown["hookSpecificOutput"]["updatedInput"]["questions"]
    assert question["question"].startswith("Is it right?")
    answer = {"answers": {question["question"]: "continue"}}
    due = told(conversation.hook("PostToolUse", **dialog, tool_response=answer))
    assert [step["id"] for step in due["steps"]] == ["last#1"]
    entries = tree.journals()
    assert [entry["status"] for entry in entries["below"]] == ["done"] * 3
    assert entries["below"][2]["gates"][0]["resolution"] == "continue"
    finished = told(conversation.works("last#1", "qa.plan"))
    assert (finished["directive"], finished["status"]) == ("finish", "completed")
    kept = list((tree.root / ".git/playbook").glob("*/logs/look#1.log"))
    assert [file.read_text().strip() for file in kept] == ["release#1/look#1 is done"]


def test_an_agent_without_the_receipt_of_its_command_fails_its_child(
    tree: Project, conversation: Conversation
) -> None:
    conversation.types("run", "top")
    finished = told(conversation.works("release#1/look#1", "qa.plan", receipt=False))
    assert (finished["directive"], finished["status"]) == ("finish", "failed")
    entry = tree.journals()["top"][0]
    assert (entry["error_code"], entry["error_cause"]) == ("PB-STEP-CHILD", "PB-AGENT-NO-RECEIPT")


def test_only_the_path_of_a_due_attempt_launches_an_agent(conversation: Conversation) -> None:
    conversation.types("run", "top")
    for wrong in ("look#1", "release#1", "release#1/build#1", "release#2/look#1"):
        called = conversation.hook(
            "PreToolUse", tool_name="Agent", tool_use_id="x", tool_input={"prompt": wrong}
        )
        assert called["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_an_interrupted_agent_of_a_child_is_due_again_in_the_same_child(
    tree: Project, conversation: Conversation
) -> None:
    conversation.types("run", "top")
    conversation.dies()
    with Conversation(tree, client="another") as other:
        due = told(other.types("resume"))
        (step,) = due["steps"]
        assert step["step"] == "look"
        assert step["id"].startswith("release#1/look#")
        other.works(step["id"], "qa.plan")
    assert len(tree.sessions) == 2


def test_a_client_without_hooks_reports_the_attempts_of_children(tree: Project) -> None:
    begun = tree.playbook("begin", "top", "--json").json
    assert [step["id"] for step in begun["steps"]] == ["release#1/look#1"]
    assert begun["steps"][0]["prompt"].startswith("Run the Skill `qa.plan`")
    reported = tree.playbook("report", "release#1/look#1", "--json").json
    assert (reported["directive"], reported["steps"]) == ("wait", ["release#1/build#1"])
    again = tree.playbook("report", "release#1/look#1", "--json").json
    assert again["steps"] == ["release#1/build#1"]
    refused = tree.playbook("report", "release#1/nothing#1")
    assert refused.code == 3
    asked = tree.process("next", "--wait", "--json").json
    assert asked["gate"]["id"] == "release#1/ask#1?1"
    assert tree.playbook("report", "release#1/build#1").code == 0


def test_the_files_of_a_child_are_repaired_by_a_person_alone(
    tree: Project, conversation: Conversation
) -> None:
    conversation.types("run", "top")
    (child,) = (
        folder
        for folder in tree.sessions
        if "parent:" in (Path(folder) / "session.yaml").read_text()
    )
    (child / "journal.yaml").write_text("schema: 1\nentries: []\n")
    for environment in ({}, {"CLAUDECODE": ""}):
        refused = conversation.runs("repair", child.name, "--take", **environment)
        assert (refused.code, "only a human" in refused.err) == (3, True), refused.err


def test_a_client_hands_out_the_items_that_run_together(
    tree: Project, conversation: Conversation
) -> None:
    due = told(conversation.types("run", "loop files='a b c'"))
    assert [step["id"] for step in due["steps"]] == ["look[1]#1", "look[2]#1"]
    assert [step["args"] for step in due["steps"]] == ["a", "b"]
    conversation.works("look[2]#1", "qa.plan", "b")
    due = told(conversation.works("look[1]#1", "qa.plan", "a"))
    assert [step["id"] for step in due["steps"]] == ["look[3]#1"]
    conversation.works("look[3]#1", "qa.plan", "c")
    conversation.runs("next", "--wait")
    entries = tree.journals()["loop"]
    assert [entry["status"] for entry in entries] == ["done"] * 4
    assert [entry.get("item") for entry in entries] == ["a", "b", "c", None]


def test_a_child_session_does_the_work_of_each_item(tree: Project) -> None:
    """cat FR-9.1: a loop over several steps is a loop over a child playbook."""
    ended = tree.playbook("run", "each")
    assert ended.code == 0, ended.err
    entries = tree.journals()["each"]
    assert [entry["step_id"] for entry in entries] == ["list", "release[1]", "release[2]"]
    assert len({entry["session"] for entry in entries[1:]}) == 2
    assert tree.journals()["one"][0]["output"].startswith("saw ")
    assert tree.playbook("audit").code == 0
