"""The agent `codex`, with a scripted app-server: what it is told, and how its end is judged.

What the real client says was recorded; it is tested itself in tests/clients.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import agent_calls, codex_agent
from support.agent_calls import prompted
from support.bubblewrap import needs_bubblewrap
from support.controlled_time import shorten_grace

from playbook_supervisor.agents import conversation
from playbook_supervisor.agents.protocol import (
    Agent,
    Call,
    Reply,
    Request,
    can_continue,
    carry_out,
)
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.settings.config import AgentSettings, Config, Isolation
from playbook_supervisor.project.settings.isolation import of_step
from playbook_supervisor.records import replace
from playbook_supervisor.testing import ASKING_CHECKS, AgentCheck, call_for

RECORDED = Path(__file__).parent / "recorded/codex"
PROGRAM = f'#!/bin/sh\nexec {sys.executable} {codex_agent.__file__} "$@"\n'

Recorded = Callable[[str], None]


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `codex` on PATH, and a home for it."""
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "codex").write_text(PROGRAM)
    (folder / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("CODEX_HOME", str(folder / "home"))
    monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return folder


@pytest.fixture
def recorded(client: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Lets the client say again what it once said."""
    monkeypatch.setattr(conversation, "PAUSES", ())
    monkeypatch.setenv("CODEX_TOLD", str(client / "told"))

    def use(name: str) -> None:
        monkeypatch.setenv("CODEX_REPLAY", str(RECORDED / f"{name}.jsonl"))

    return use


def agent(**settings: Any) -> Agent:
    return choose(
        "codex", Config(agents={"codex": AgentSettings(profile="codex", **settings)}), Path("/")
    )


def ended(call: Call, **settings: Any) -> Outcome:
    return agent_calls.ended(agent(**settings), call)


def error_of(call: Call, **settings: Any) -> Failure:
    return agent_calls.error_of(agent(**settings), call)


def told(client: Path, method: str) -> dict[str, Any]:
    """The parameters of the first such message."""
    messages = [json.loads(line) for line in (client / "told").read_text().splitlines()]
    return next(dict(each["params"]) for each in messages if each.get("method") == method)


def replies(client: Path) -> list[Any]:
    messages = [json.loads(line) for line in (client / "told").read_text().splitlines()]
    return [each["result"] for each in messages if "result" in each]


@pytest.mark.parametrize("check", agent_calls.SAMPLE, ids=lambda check: check.__name__)
def test_it_passes_the_conformance_checks(
    check: AgentCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    check(agent(), tmp_path)


@pytest.mark.parametrize("check", ASKING_CHECKS, ids=lambda check: check.__name__)
def test_it_asks_as_an_agent_must(check: AgentCheck, tmp_path: Path) -> None:
    check(agent(), tmp_path)


def test_the_command_is_sent_as_the_skill_that_the_client_offers(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("works")
    call = replace(call_for("speckit.plan", tmp_path), args="013", feedback="It failed.")
    heard: list[str] = []
    outcome = carry_out(agent(), call, heard.append)
    assert heard[:2] == ["I run it.", "Bash echo hi > out.txt; cat out.txt"]
    assert outcome.error is None
    assert outcome.output.startswith("Done: ")
    conversation_id = outcome.agent["id"]
    assert outcome.agent == {
        "name": "codex",
        "id": conversation_id,
        "version": "0.169.0",
        "model": "scripted",
        "input_tokens": 200,
        "output_tokens": 40,
        "turns": 2,
    }
    assert told(client, "turn/start")["input"] == [
        {"type": "text", "text": "$speckit-plan 013", "text_elements": []},
        {"type": "text", "text": "It failed.", "text_elements": []},
        {
            "type": "skill",
            "name": "speckit-plan",
            "path": "/repo/.agents/skills/speckit-plan/SKILL.md",
        },
    ]


def test_a_command_that_the_client_does_not_offer_is_never_sent(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("unknown-command")
    error = error_of(call_for("speckit.nothing", tmp_path))
    assert error.code == "PB-AGENT-COMMAND"
    assert "it offers speckit-plan" in error.message
    assert "thread/start" not in (client / "told").read_text()


@pytest.mark.parametrize(
    ("stream", "code", "words", "lasts"),
    [
        ("bad-request", "PB-AGENT-API", "could not be reached: bad request here", True),
        ("logged-out", "PB-AGENT-LOGIN", "401 Unauthorized", True),
        ("rate", "PB-AGENT-RATE", "429 Too Many Requests", False),
        ("server-error", "PB-AGENT-API", "high demand", False),
        ("cut", "PB-AGENT-API", "stream disconnected", False),
        ("limit", "PB-AGENT-LIMIT", "which ends at 2031-10-17T10:40:00Z", True),
    ],
)
def test_a_failed_turn_is_called_by_what_went_wrong(
    stream: str, code: str, words: str, lasts: bool, recorded: Recorded, tmp_path: Path
) -> None:
    recorded(stream)
    error = error_of(prompted(tmp_path))
    assert (error.code, error.lasts) == (code, lasts)
    assert words in error.message


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ("contextWindowExceeded", "PB-AGENT-CONTEXT"),
        ("serverOverloaded", "PB-AGENT-API"),
        ({"somethingNew": {"httpStatusCode": 429}}, "PB-AGENT-RATE"),
        ({"responseStreamConnectionFailed": {}}, "PB-AGENT-API"),
        (None, "PB-AGENT-API"),
    ],
)
def test_each_name_of_a_failure_has_its_code(
    info: object, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "PAUSES", ())
    monkeypatch.setenv("CODEX_FAULT", json.dumps({"message": "so it is", "codexErrorInfo": info}))
    assert error_of(call_for("fails", tmp_path)).code == code


def test_an_answer_that_reached_its_length_is_no_failure_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {"message": "Incomplete response returned, reason: max_output_tokens"}
    monkeypatch.setenv("CODEX_FAULT", json.dumps({**fault, "codexErrorInfo": "other"}))
    assert error_of(call_for("fails", tmp_path)).code == "PB-AGENT-OUTPUT"


def test_a_server_that_fails_is_tried_again_before_the_first_call_of_a_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "PAUSES", (0.01, 0.01))
    fault = {"message": "busy", "codexErrorInfo": "serverOverloaded"}
    monkeypatch.setenv("CODEX_FAULT", json.dumps(fault))
    call = call_for("fails", tmp_path)
    assert ended(call).agent["retries"] == 2
    monkeypatch.setenv("CODEX_WORKED", "1")  # a call that its sandbox refused is told by no event
    assert "retries" not in ended(call).agent


def test_a_turn_without_a_word_and_a_call_is_empty(recorded: Recorded, tmp_path: Path) -> None:
    assert error_of(call_for("empty", tmp_path)).code == "PB-AGENT-EMPTY"
    recorded("empty")  # with tokens: they prove no work
    assert error_of(prompted(tmp_path)).code == "PB-AGENT-EMPTY"


def test_an_interrupted_turn_is_not_done(tmp_path: Path) -> None:
    assert error_of(call_for("cancelled", tmp_path)).code == "PB-AGENT-ENDED"


def test_what_no_rule_allows_fails_the_step_where_no_person_is_asked(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("refused")
    error = error_of(prompted(tmp_path), allowed_tools=("Bash(npm test)",))
    assert error.code == "PB-AGENT-PERMISSION"
    assert "codex was not permitted: Bash curl -s" in error.message
    assert '`codex:`, write `allowed_tools: ["Bash(npm test)", "Bash(curl *)"]`' in error.guidance
    assert replies(client) == [{"decision": "decline"}]
    (client / "told").unlink()
    assert ended(prompted(tmp_path), allowed_tools=("Bash(curl *)",)).error is None
    assert replies(client) == [{"decision": "accept"}]


def test_a_person_s_words_reach_the_model_in_the_same_turn(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("asked")
    asked: list[Request] = []

    def ask(request: Request) -> Reply:
        asked.append(request)
        return Reply("deny", "use wget")

    assert ended(prompted(tmp_path, ask=ask)).error is None
    assert asked[0].shape["subject"] == "curl -s http://127.0.0.1:9/"
    assert asked[0].shape["description"] == "Fetch?"
    assert "They said: use wget" in told(client, "turn/steer")["input"][0]["text"]


def test_a_call_that_is_put_off_ends_the_turn(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("put-off")
    assert error_of(prompted(tmp_path, ask=lambda request: None)).code == "PB-AGENT-PERMISSION"
    assert replies(client) == [{"decision": "cancel"}]


def test_a_question_is_answered_by_a_person(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("question")
    call = prompted(tmp_path, ask=lambda request: Reply("answer", "2"))
    assert ended(call).error is None
    assert replies(client) == [{"answers": {"q1": {"answers": ["SQLite"]}}}]
    features = told(client, "thread/start")["config"]["features"]
    assert features == {"default_mode_request_user_input": True}


def test_a_change_outside_of_the_repository_is_asked_about(
    recorded: Recorded, tmp_path: Path
) -> None:
    recorded("patch")
    asked: list[Request] = []

    def ask(request: Request) -> Reply:
        asked.append(request)
        return Reply("allow")

    assert ended(prompted(tmp_path, ask=ask)).error is None
    assert asked[0].shape["tool"] == "Write"
    assert asked[0].shape["subject"] == "/elsewhere/out.txt"


@pytest.mark.parametrize(
    ("rule", "action"), [("mcp__t__poke", "accept"), ("mcp__t__other", "decline")]
)
def test_a_tool_of_a_server_needs_a_rule(
    rule: str, action: str, recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("mcp")
    error = ended(prompted(tmp_path), allowed_tools=(rule,)).error
    assert replies(client) == [{"action": action, "content": {}}]
    assert (error is None) == (action == "accept")


def test_in_read_only_mode_no_change_is_allowed(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("patch")
    ended(prompted(tmp_path), mode="read-only", allowed_tools=("Edit",))
    assert replies(client) == [{"decision": "decline"}]


# ── what it may do by itself ────────────────────────────────────────────────────────────────


def test_it_may_commit_but_not_change_what_git_obeys(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("empty")
    call = prompted(tmp_path, model="large")
    subprocess.run(["git", "init", "-q", call.cwd], check=True)
    ended(call)
    begun = told(client, "thread/start")
    assert (begun["sandbox"], begun["approvalPolicy"]) == ("read-only", "on-request")
    assert begun["model"] == "large"
    places = begun["config"]["permissions"]["playbook"]["filesystem"]
    git = call.cwd / ".git"
    assert places[":workspace_roots"] == {".": "write"}
    assert places[str(git)] == "write"
    assert {places[str(git / name)] for name in ("hooks", "config", "info")} == {"read"}
    assert told(client, "turn/start")["permissions"] == "playbook"


@pytest.mark.parametrize(
    ("tools", "mode", "policy"),
    [
        (("Read", "Bash(git log *)"), "", {"type": "readOnly", "networkAccess": False}),
        (None, "read-only", {"type": "readOnly", "networkAccess": False}),
        (("Read", "Write"), "", None),
        (None, "danger-full-access", {"type": "dangerFullAccess"}),
    ],
)
def test_a_step_s_tools_and_the_settings_choose_its_sandbox(
    tools: tuple[str, ...] | None,
    mode: str,
    policy: object,
    recorded: Recorded,
    client: Path,
    tmp_path: Path,
) -> None:
    recorded("empty")
    ended(prompted(tmp_path, tools=tools), mode=mode)
    assert told(client, "turn/start").get("sandboxPolicy") == policy
    free = mode == "danger-full-access"  # then each command is decided
    wanted = "untrusted" if free else "on-request"
    assert told(client, "thread/start")["approvalPolicy"] == wanted


def isolated(call: Call, client: Path) -> Call:
    """The call in isolation, in which the scripted client is seen, too."""
    subprocess.run(["git", "init", "-q", call.cwd], check=True)
    shown = Isolation(mode="required", show=(str(client), str(Path(__file__).parents[1])))
    return replace(call, isolation=of_step(Config(isolation=shown), call.cwd))


@needs_bubblewrap
def test_in_our_isolation_its_own_sandbox_is_off(
    recorded: Recorded, client: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded("empty")
    call = isolated(prompted(tmp_path), client)
    monkeypatch.setenv("CODEX_TOLD", str(call.cwd / "told"))
    ended(call)
    begun = told(call.cwd, "turn/start")
    assert begun["sandboxPolicy"] == {"type": "externalSandbox", "networkAccess": "enabled"}


@needs_bubblewrap
def test_in_our_isolation_a_step_that_only_reads_can_write_nothing(
    client: Path, tmp_path: Path
) -> None:
    call = isolated(call_for("works", tmp_path), client)
    assert ended(replace(call, tools=("Read",))).error is not None
    assert not (call.cwd / "works.txt").exists()
    outcome = ended(call)
    assert outcome.error is None
    assert (call.cwd / "works.txt").exists()
    id_ = str(outcome.agent["id"])
    assert can_continue(agent(), replace(call, conversation=id_))


def test_a_home_in_which_its_sandbox_cannot_start_is_refused(
    client: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(client))
    error = error_of(call_for("works", tmp_path))
    assert "its sandbox cannot start" in error.message
    assert ended(call_for("works", tmp_path), mode="danger-full-access").error is None


# ── a client that cannot be spoken to ───────────────────────────────────────────────────────


def test_a_client_without_an_app_server_is_too_old(client: Path, tmp_path: Path) -> None:
    (client / "codex").write_text(
        "#!/bin/sh\necho \"unexpected argument 'app-server'\" >&2\nexit 2\n"
    )
    error = error_of(prompted(tmp_path))
    assert error.code == "PB-AGENT-NONE"
    assert "npm install -g @openai/codex@" in error.guidance


@pytest.mark.parametrize(
    ("said", "cure"),
    [("unknown variant `skills/list`", "Install a newer Codex"), ("bad TOML", "Correct its set")],
)
def test_a_client_that_refuses_to_begin_says_why(
    said: str, cure: str, client: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello = {"id": 1, "result": {"userAgent": "playbook/0.1.0 (old)"}}
    refused = {"id": 2, "error": {"code": -32600, "message": said}}
    file = client / "replies"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in (hello, refused)))
    monkeypatch.setenv("CODEX_REPLAY", str(file))
    monkeypatch.setenv("CODEX_TOLD", str(client / "told"))
    error = error_of(prompted(tmp_path))
    assert (error.code, error.message) == (
        "PB-AGENT-FAILED",
        f"codex 0.1.0 could not begin: {said}",
    )
    assert cure in error.guidance
