"""What is read of an agent's end in the client's transcripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from playbook_supervisor.agents.claude.transcripts import (
    Ending,
    conversation_file,
    ending,
    subagent_file,
)

CALL = {"type": "tool_use", "name": "Write", "input": {}}
SKILL = {"type": "tool_use", "name": "Skill", "input": {"skill": "plan"}}
RESULT = {"type": "tool_result", "content": "ok"}
NUDGE = {"type": "text", "text": "Please continue."}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": list(blocks)}}


def told(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"content": list(blocks)}, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def stop(event: str, message: str = "policy stop") -> dict[str, Any]:
    mark = {"type": "hook_stopped_continuation", "hookEvent": event, "message": message}
    return {"type": "attachment", "attachment": {**mark, "hookName": f"{event}:Write"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent-a1.jsonl"


def write(file: Path, *entries: object) -> Path:
    dense = [json.dumps(entry, separators=(",", ":")) for entry in entries]
    file.write_text("\n".join(dense))
    return file


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([said(CALL), told(RESULT), said(text("done"))], Ending()),
        ([said(CALL), told(RESULT), stop("PostToolUse")], Ending("PostToolUse:Write: policy stop")),
        (
            [said(CALL), told(RESULT), stop("PostToolUse"), told(NUDGE), said(text("done"))],
            Ending(),
        ),
        ([said(text("done")), stop("Stop")], Ending()),
        ([said(text("done")), stop("SubagentStop")], Ending()),
        ([said(CALL), told(RESULT)], Ending(unsettled=True)),
        ([said(CALL)], Ending(unsettled=True)),
        ([said(SKILL), told(RESULT), told(text("Do it.")), said(text("  "))], Ending(silent=True)),
        ([said(SKILL), told(RESULT), said(CALL), told(RESULT), said()], Ending()),
        ([told(text("go"))], Ending()),
        ([], Ending()),
        (["no mapping", {"type": "assistant"}, {"type": "assistant", "message": 7}], Ending()),
        ([stop("PreToolUse", "x\ny\u001b[31m")], Ending("PreToolUse:Write: x")),
    ],
)
def test_the_end_of_an_agent(entries: list[object], expected: Ending, file: Path) -> None:
    assert ending(write(file, *entries)) == expected


def test_a_command_in_a_context_of_its_own_ends_as_its_own_transcript_says(file: Path) -> None:
    forked = told(RESULT, toolUseResult={"status": "forked", "agentId": "b2"})
    write(file, said(SKILL), forked, said(text("It is done.")))
    own = file.with_name("agent-b2.jsonl")
    write(own, said(CALL), told(RESULT), stop("PostToolUse"))
    assert ending(file).hook == "PostToolUse:Write: policy stop"
    write(file, said(SKILL), forked, said())
    write(own, said(CALL), told(RESULT), said(text("done")))
    assert ending(file) == Ending()
    write(own, told(text("go")), said(text("")))
    assert ending(file).silent


def test_what_is_not_there_is_not_known(tmp_path: Path) -> None:
    assert ending(tmp_path / "none.jsonl") == Ending()
    outside = told(RESULT, toolUseResult={"status": "forked", "agentId": "../../x"})
    assert ending(write(tmp_path / "a.jsonl", said(SKILL), outside, said(text("x")))) == Ending()


def test_where_the_client_keeps_them(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    own = conversation_file(env, tmp_path, "5-6")
    assert own.parent.parent == tmp_path / ".claude/projects"
    assert own.name == "5-6.jsonl"
    assert subagent_file(own, "a1") == own.parent / "5-6/subagents/agent-a1.jsonl"
    moved = conversation_file(env | {"CLAUDE_CONFIG_DIR": "/conf"}, tmp_path, "5-6")
    assert moved.is_relative_to("/conf/projects")
