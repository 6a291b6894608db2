"""A session whose agent asked a runner, taken up in a client: the gate is asked as any other."""

from __future__ import annotations

from typing import Any

import pytest
from support.hook_calls import Hooked
from support.scratch_project import Project

BOOK = """\
name: ask
description: Build it
version: "1.0"
args: []
steps:
  - {id: build, command: /do.build, args: "", autonomy: auto, error_policy: stop}
"""
CALL = "{permission: {tool: Bash, input: {command: npm test}}}"
SHELL = (
    "{question: {question: Which shell?, options: [bash, {label: zsh, description: the other}]}}"
)
OPEN = "{question: {question: Which port?}}"


def put_off(project: Project, asked: str) -> Hooked:
    """A runner has put the gate off, and a person takes the session up in the client."""
    project.write(".playbooks/playbooks/ask.yaml", BOOK)
    project.write(".claude/commands/do.build.md", "Do it.\n")
    script = project.script(f"steps:\n  build:\n    ask: {asked}\n")
    assert project.playbook("run", "ask", "--agent", script).code == 4
    hooked = Hooked(project)
    hooked.types("/playbook.resume")
    return hooked


def dialog(hooked: Hooked) -> dict[str, Any]:
    reply = hooked.calls("AskUserQuestion", questions=[])
    shown: dict[str, Any] = reply.given["questions"][0]
    return shown


def chooses(hooked: Hooked, words: str) -> Any:
    """The person chooses or types that in the gate's dialog."""
    answers = {dialog(hooked)["question"]: words}
    return hooked(
        "PostToolUse",
        tool_name="AskUserQuestion",
        tool_use_id="use of AskUserQuestion",
        tool_response={"answers": answers},
    )


def test_a_permission_is_asked_in_the_dialog_and_a_new_attempt_begins(project: Project) -> None:
    hooked = put_off(project, CALL)
    shown = dialog(hooked)
    assert "wants to run `npm test` (build#1)" in shown["question"]
    labels = [each["label"] for each in shown["options"]]
    assert labels == ["allow", "always", "deny", "abort"]
    chooses(hooked, "allow")
    assert hooked.steps == ["build#1 failed", "build#2 in_progress"]
    first = project.journal()[0]
    assert (first["error_code"], first["gates"][0]["resolution"]) == (
        "PB-STATE-INTERRUPTED",
        "allow",
    )
    hooked.does("build#2", "do.build")
    assert hooked.steps == ["build#1 failed", "build#2 done"]
    assert project.playbook("audit").code == 0


@pytest.mark.parametrize(
    ("asked", "labels"),
    [(SHELL, ["bash", "zsh", "abort"]), (OPEN, ["You decide", "abort"])],
    ids=["options", "words"],
)
def test_a_question_offers_its_options_and_takes_words(
    project: Project, asked: str, labels: list[str]
) -> None:
    hooked = put_off(project, asked)
    assert [each["label"] for each in dialog(hooked)["options"]] == labels
    chooses(hooked, "whatever is there")
    gate = project.journal()[0]["gates"][0]
    assert (gate["resolution"], gate["text"]) == ("answer", "whatever is there")
    assert hooked.steps == ["build#1 failed", "build#2 in_progress"]


def test_a_question_is_also_answered_at_the_prompt(project: Project) -> None:
    hooked = put_off(project, SHELL)
    hooked.says("let me think")
    assert hooked.stops().shown.endswith("Type your answer here, as `answer: your words`.")
    hooked.says("answer: zsh")
    assert project.journal()[0]["gates"][0]["text"] == "answer: zsh"
