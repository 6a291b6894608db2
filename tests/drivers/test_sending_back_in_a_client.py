"""In a client: a person sends back in the dialog or in words, and a program undoes what failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.bound_session import Conversation
from support.directive_lines import in_text, told
from support.scratch_project import Project

BOOK = """\
name: judged
description: Change, and judge
version: "1.2"
args: []
steps:
  - {id: change, command: /speckit.plan}
  - {id: judge, command: /qa.run, postconditions: [file_exists: good]}
"""
UNDONE = """\
name: undone
description: Spoil something, and go on
version: "1.2"
args: []
steps:
  - {id: spoil, command: /speckit.plan, error_policy: continue, undo: true,
     postconditions: [file_exists: good]}
  - {id: then, command: /qa.run}
"""


@pytest.fixture
def conversation(project: Project) -> Iterator[Conversation]:
    for name, text in (("judged", BOOK), ("undone", UNDONE)):
        project.write(f".playbooks/playbooks/{name}.yaml", text)
    project.commit("Playbooks")
    with Conversation(project) as conversation:
        yield conversation


def at_the_gate(conversation: Conversation) -> dict[str, Any]:
    conversation.types("run", "judged")
    conversation.works("change#1", "speckit.plan")
    gate: dict[str, Any] = told(conversation.works("judge#1", "qa.run"))["gate"]
    return gate


def test_the_dialog_offers_the_earlier_step_among_the_four_options_that_a_client_shows(
    conversation: Conversation,
) -> None:
    gate = at_the_gate(conversation)
    assert gate["choices"] == ["continue", "retry", "accept", "back to change", "abort"]
    dialog: dict[str, Any] = {"tool_name": "AskUserQuestion", "tool_use_id": "dialog"}
    shown = conversation.hook("PreToolUse", **dialog, tool_input={"questions": []})
    (question,) = shown["hookSpecificOutput"]["updatedInput"]["questions"]
    labels = [each["label"] for each in question["options"]]
    assert labels == ["continue", "retry", "accept", "back to change"]
    answer = {"answers": {question["question"]: "back to change"}}
    due = told(conversation.hook("PostToolUse", **dialog, tool_response=answer))
    assert [step["id"] for step in due["steps"]] == ["change#2"]


def test_words_that_begin_with_it_are_an_answer_however_many_they_are(
    conversation: Conversation, project: Project
) -> None:
    at_the_gate(conversation)
    words = "back to change: greet everyone by name, and do it in the language of their country"
    due = told(conversation.hook("UserPromptSubmit", prompt=words))
    assert [step["id"] for step in due["steps"]] == ["change#2"]
    assert project.journal()[1]["human_response"] == words


def test_a_step_that_is_no_earlier_one_leaves_the_gate_open_and_is_explained(
    conversation: Conversation,
) -> None:
    at_the_gate(conversation)
    reply = conversation.hook("UserPromptSubmit", prompt="back to chnage")
    assert "'chnage' is no step before judge" in reply["systemMessage"]
    assert "Answer `back to change`." in reply["systemMessage"]


def test_a_hook_leaves_the_undo_to_a_command(conversation: Conversation, project: Project) -> None:
    due = told(conversation.types("run", "undone"))
    assert [step["id"] for step in due["steps"]] == ["spoil#1"]
    project.write("README.md", "spoilt\n")
    due = told(conversation.works("spoil#1", "speckit.plan"))
    assert (due["directive"], due["command"]) == ("wait", "playbook next --wait")
    assert project.read("README.md") == "spoilt\n"
    due = in_text(conversation.runs("next", "--wait").out)[0]
    assert [step["id"] for step in due["steps"]] == ["then#1"]
    assert project.read("README.md") == "# A project\n"
    assert project.journal()[0]["undone"].startswith("1 file put back")
