"""The agent `claude` and its control protocol, with a stand-in for the client.

What the real client asks, and what it does with a reply, is tested in tests/claude/test_asking.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from playbook_supervisor.agents.protocol import (
    Agent,
    Call,
    Reply,
    Request,
    can_continue,
    carry_out,
)
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.agents.requests import answers, digest, question
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.settings.config import Claude, Config
from playbook_supervisor.records import replace
from playbook_supervisor.testing import call_for

RECORDED = Path(__file__).parents[1] / "streams/works.jsonl"

StandIn = Callable[..., None]
PROGRAM = """\
#!/usr/bin/env python3
import json, sys
argv = sys.argv[1:]
heard = open({heard!r}, "a")
print(json.dumps({{"argv": argv}}), file=heard, flush=True)
print(sys.stdin.readline(), end="", file=heard, flush=True)
for line in {asked!r}:
    print(line, flush=True)
    if {replies}:
        print(sys.stdin.readline(), end="", file=heard, flush=True)
print({result!r}, flush=True)
print(sys.stdin.read(), end="", file=heard, flush=True)
{then}
"""


def permission(tool: str, /, **given: Any) -> dict[str, Any]:
    """The request of a client for a call of a tool."""
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": "t1"}
    return {"type": "control_request", "request_id": "r1", "request": request}


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    return tmp_path / "heard"


@pytest.fixture
def stand_in(tmp_path: Path, heard: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A `claude` on PATH that asks these, one after the other, and then works."""

    def put(*asked: object, replies: object = True, then: str = "") -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        lines = [each if isinstance(each, str) else json.dumps(each) for each in asked]
        program = PROGRAM.format(
            heard=str(heard),
            asked=lines,
            replies=replies,
            result=RECORDED.read_text("utf-8").strip(),
            then=then,
        )
        (folder / "claude").write_text(program)
        (folder / "claude").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return put


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return call_for("speckit.plan", tmp_path)


def said(file: Path) -> list[dict[str, Any]]:
    """What the client was given: its argv, its prompt, and the replies."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]


def ended(call: Call, reply: Reply | None = None, **settings: Any) -> Outcome:
    agent: Agent = choose("claude", Config(claude=Claude(**settings)), Path("/"))
    asking = replace(call, ask=call.ask or (lambda request: reply))
    return carry_out(agent, asking, lambda line: None)


def response(file: Path) -> dict[str, Any]:
    """What the client was told about its request."""
    replied: dict[str, Any] = said(file)[2]["response"]
    return replied


def test_the_prompt_is_a_line_and_no_argument(stand_in: StandIn, heard: Path, call: Call) -> None:
    stand_in()
    ruled = replace(
        call,
        prompt="/speckit.plan --all\nof 'it'",
        allowed_rules=("Bash(npm test *)",),
        forbidden_rules=("Bash(git push *)",),
    )
    assert ended(ruled, allowed_tools=("Bash(ls *)",)).ok
    (started, prompt) = said(heard)
    argv = started["argv"]
    assert argv[-2:] == ["--input-format=stream-json", "--permission-prompt-tool=stdio"]
    assert "--allowedTools=Bash(npm test *)" in argv
    assert "--allowedTools=Bash(ls *)" in argv
    assert "--disallowedTools=Bash(git push *)" in argv
    assert prompt["message"] == {"role": "user", "content": "/speckit.plan --all\nof 'it'"}


def test_always_gives_the_client_the_rule(stand_in: StandIn, heard: Path, call: Call) -> None:
    stand_in(permission("Bash", command="npm test"))
    assert ended(call, Reply("always")).ok
    assert response(heard) == {
        "subtype": "success",
        "request_id": "r1",
        "response": {
            "behavior": "allow",
            "updatedInput": {"command": "npm test"},
            "updatedPermissions": [
                {
                    "type": "addRules",
                    "rules": [{"toolName": "Bash", "ruleContent": "npm test *"}],
                    "behavior": "allow",
                    "destination": "session",
                }
            ],
        },
    }


def test_always_is_once_where_no_single_rule_would_do(
    stand_in: StandIn, heard: Path, call: Call
) -> None:
    stand_in(permission("Bash", command="npm test && npm run lint"))
    assert ended(call, Reply("always")).ok
    assert "updatedPermissions" not in response(heard)["response"]


def test_a_denial_without_words_says_who_denied(stand_in: StandIn, heard: Path, call: Call) -> None:
    stand_in(permission("WebSearch", query="x"))
    assert ended(call, Reply("deny")).ok
    assert response(heard)["response"] == {
        "behavior": "deny",
        "message": "A person has denied this call.",
    }


@pytest.mark.long
def test_the_time_of_a_decision_is_not_the_clients(stand_in: StandIn, call: Call) -> None:
    """The client has more time than it needs, and less than it and the person together."""
    stand_in(permission("Bash", command="npm test"))

    def slow(request: Request) -> Reply:
        time.sleep(4.0)
        return Reply("allow")

    assert ended(replace(call, wall=3.9, idle=3.9, ask=slow)).ok


@pytest.mark.parametrize(
    "request_",
    [
        {"subtype": "hook_callback", "input": {}},
        {"subtype": "can_use_tool", "input": "text"},
        None,
    ],
)
def test_a_request_that_is_not_known_gets_an_error(
    stand_in: StandIn, heard: Path, call: Call, request_: object
) -> None:
    stand_in({"type": "control_request", "request_id": "r1", "request": request_})
    assert ended(call).ok
    assert response(heard)["subtype"] == "error"


def test_lines_that_only_look_like_requests_are_ignored(
    stand_in: StandIn, heard: Path, call: Call
) -> None:
    stand_in(
        '{"control_request" ', '["control_request"]', {"type": "control_request_x"}, replies=False
    )
    assert ended(call).ok
    assert len(said(heard)) == 2


def test_put_off_it_is_interrupted_and_no_further_request_is_shown(
    stand_in: StandIn, heard: Path, call: Call
) -> None:
    shown: list[Request] = []

    def ask(request: Request) -> None:
        shown.append(request)

    ask_twice = (permission("Bash", command="a"), permission("Bash", command="b"))
    stand_in(*ask_twice, replies=False)
    outcome = ended(replace(call, ask=ask))
    assert outcome.error is not None
    assert outcome.error.message == "claude was put off until a person decides"
    assert [request.shape["subject"] for request in shown] == ["a"]
    (_, _, interrupt) = said(heard)
    assert interrupt["request"] == {"subtype": "interrupt"}


def test_a_client_that_ignores_the_interruption_is_stopped(
    stand_in: StandIn, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.agents.conversation._INTERRUPTED", 0.1)
    stand_in(permission("Bash", command="a"), replies=False, then="import time; time.sleep(600)")
    outcome = ended(call)
    assert outcome.error is not None
    assert "put off" in outcome.error.message


def test_a_continued_conversation_is_told_that_and_what_a_person_said(
    stand_in: StandIn, heard: Path, call: Call
) -> None:
    stand_in(permission("Bash", command="npm test", description="other words"))
    key = digest("Bash", {"command": "npm test", "description": "run the tests"})
    later = replace(call, conversation="0-1", replies={key: Reply("deny", "use pnpm")})
    assert ended(later).ok
    started, prompt, replied = said(heard)
    assert "--resume=0-1" in started["argv"]
    content = prompt["message"]["content"]
    assert "Make each of these calls again" in content
    assert content.endswith("The person said: use pnpm")
    assert replied["response"]["response"]["message"] == "use pnpm"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("1", "small"),
        ("LARGE", "large"),
        ("3", "3"),
        ("neither\nof them", "neither\nof them"),
        ("", ""),
    ],
)
def test_words_that_name_no_option_are_the_answer(words: str, told: str) -> None:
    options = [{"label": "small"}, {"label": "large"}]
    assert answers({"questions": [{"question": "Which?", "options": options}]}, words) == {
        "Which?": told
    }


def test_a_missing_line_answers_nothing(call: Call) -> None:
    asked = {"questions": [{"question": "A?", "options": [{"label": "x"}]}, {"question": "B?"}]}
    assert answers(asked, "1") == {"A?": "x", "B?": ""}
    assert answers({"questions": "text"}, "1") == {}


def test_an_option_is_named_as_it_was_shown(call: Call) -> None:
    """A label without visible text has something to be named by, because the journal needs it."""
    options = [{"label": "a\n b"}, {"label": "\x1b[31m"}]
    given = {"questions": [{"question": "", "options": options, "multiSelect": True}]}
    shape = question(call, given).shape
    assert shape["questions"][0]["question"] == "…"
    assert [option["label"] for option in shape["questions"][0]["options"]] == ["a b", "…"]
    assert answers(given, "a b, 2") == {"": "a\n b, \x1b[31m"}


def test_a_question_is_answered_with_the_input_and_the_answers(
    stand_in: StandIn, heard: Path, call: Call
) -> None:
    asked = {"questions": [{"question": "Which?", "options": [{"label": "this"}]}]}
    stand_in(permission("AskUserQuestion", **asked))
    assert ended(call, Reply("answer", "1")).ok
    assert response(heard)["response"] == {
        "behavior": "allow",
        "updatedInput": {**asked, "answers": {"Which?": "this"}},
    }


def test_a_client_that_ends_without_reading_is_judged_as_ever(
    stand_in: StandIn, call: Call, tmp_path: Path
) -> None:
    stand_in()
    (tmp_path / "bin/claude").write_text("#!/bin/sh\necho no >&2; exit 3\n")
    outcome = ended(replace(call, prompt="x" * 300_000))
    assert outcome.error is not None
    assert outcome.error.message == "claude ended with exit status 3: no"


def test_its_input_stays_open_while_subagents_run(
    stand_in: StandIn, heard: Path, call: Call
) -> None:
    """A result is not the last one then, and they may ask."""
    result = RECORDED.read_text("utf-8").strip().splitlines()[-1]
    agents = {"type": "system", "subtype": "background_tasks_changed"}
    stand_in(
        {**agents, "tasks": [{"task_type": "local_agent"}]},
        result,
        permission("Bash", command="npm test"),
        {**agents, "tasks": [{"task_type": "local_bash"}]},
        replies='"request_id" in line',
    )
    assert ended(call, Reply("allow")).ok
    assert response(heard)["subtype"] == "success"


def test_a_result_before_the_prompts_own_ends_nothing(
    stand_in: StandIn, heard: Path, call: Call
) -> None:
    """A resumed client reports the subagents that it has lost, in a turn without an answer."""
    result = json.loads(RECORDED.read_text("utf-8").strip().splitlines()[-1])
    reported = {**result, "origin": {"kind": "task-notification"}, "num_turns": 0}
    asked = (reported, permission("Bash", command="npm test"))
    stand_in(*asked, replies='"request_id" in line')
    assert ended(call, Reply("allow")).ok
    assert response(heard)["subtype"] == "success"


def test_a_conversation_is_continued_where_its_transcript_is(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = choose("claude", Config(), Path("/"))
    later = replace(call, conversation="0a1b2c3d-0000-4000-8000-000000000000")
    folder = re.sub(r"[^A-Za-z0-9]", "-", str(call.cwd))
    for home, variable in ((tmp_path / "elsewhere", "CLAUDE_CONFIG_DIR"), (tmp_path, "HOME")):
        monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
        monkeypatch.setenv(variable, str(home))
        assert not can_continue(agent, later)
        projects = (home if "CONFIG" in variable else home / ".claude") / "projects" / folder
        projects.mkdir(parents=True)
        (projects / f"{later.conversation}.jsonl").touch()
        assert can_continue(agent, later)
    assert not can_continue(agent, call)
    assert not can_continue(agent, replace(call, conversation="../../../etc"))
