"""The agent `gemini`, with a scripted client: what it is told and allowed, how its end is judged.

What the real client says was recorded; it is tested itself in tests/clients.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import acp_agent, agent_calls, gemini_agent
from support.agent_calls import prompted
from support.bubblewrap import needs_bubblewrap
from support.controlled_time import shorten_grace

from playbook_supervisor.agents import conversation
from playbook_supervisor.agents.protocol import Agent, Call, carry_out
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.settings.config import AgentSettings, Config, Isolation
from playbook_supervisor.project.settings.isolation import of_step
from playbook_supervisor.records import replace
from playbook_supervisor.testing import AgentCheck, call_for

RECORDED = Path(__file__).parent / "recorded/gemini"
PROGRAM = f'#!/bin/sh\nexec {sys.executable} {gemini_agent.__file__} "$@"\n'

Recorded = Callable[[str], None]


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `gemini` on PATH, and a home with the commands of the checks."""
    folder = tmp_path / "client"
    commands = folder / "home/.gemini/commands"
    commands.mkdir(parents=True)
    for name in acp_agent.COMMANDS:
        (commands / f"{name}.toml").touch()
    package = '{"name": "@google/gemini-cli", "version": "0.61.0"}'
    (folder / "package.json").write_text(package)
    (folder / "gemini").write_text(PROGRAM)
    (folder / "gemini").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return folder


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Lets the client say again what it once said."""
    monkeypatch.setattr(conversation, "PAUSES", ())

    def use(name: str) -> None:
        monkeypatch.setenv("GEMINI_REPLAY", str(RECORDED / f"{name}.jsonl"))

    return use


def agent(**settings: Any) -> Agent:
    known = AgentSettings(profile="gemini", **settings)
    return choose("gemini", Config(agents={"gemini": known}), Path("/"))


def ended(call: Call, **settings: Any) -> Outcome:
    return agent_calls.ended(agent(**settings), call)


def error_of(call: Call, **settings: Any) -> Failure:
    return agent_calls.error_of(agent(**settings), call)


def rules(call: Call, decision: str) -> list[dict[str, Any]]:
    """The rules of the policy that the client was given, with that decision."""
    read = tomllib.loads((call.cwd / "policy.toml").read_text())["rule"]
    return [each for each in read if each["decision"] == decision]


@pytest.mark.parametrize("check", agent_calls.SAMPLE, ids=lambda check: check.__name__)
def test_it_passes_the_conformance_checks(
    check: AgentCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    check(agent(), tmp_path)


def test_the_client_is_given_the_command_and_expands_it(
    recorded: Recorded, client: Path, tmp_path: Path
) -> None:
    recorded("works")
    call = replace(call_for("speckit.plan", tmp_path), feedback="It failed.", model="large")
    heard: list[str] = []
    outcome = carry_out(agent(), call, heard.append)
    assert heard[:2] == ["I run it.", "Bash echo hi > out.txt; cat out.txt"]
    assert outcome.error is None
    assert outcome.agent == {
        "name": "gemini",
        "id": outcome.agent["id"],
        "version": "0.61.0",
        "model": "gemini-2.5-pro",
        "input_tokens": 200,
        "output_tokens": 40,
    }
    options = json.loads((call.cwd / "argv.json").read_text())
    assert options[-1] == "--prompt=/speckit-plan\n\nIt failed."
    assert "--approval-mode=auto_edit" in options
    assert "--model=large" in options
    (policy,) = (each.partition("=")[2] for each in options if each.startswith("--policy="))
    assert not Path(policy).parent.exists()


def test_a_command_is_sent_as_it_is_installed_or_not_at_all(tmp_path: Path) -> None:
    call = call_for("speckit.nothing", tmp_path)
    assert error_of(call).code == "PB-AGENT-COMMAND"
    assert not (call.cwd / "argv.json").exists()
    (call.cwd / ".gemini/commands").mkdir(parents=True)
    (call.cwd / ".gemini/commands/speckit.nothing.toml").touch()
    call = replace(call, command="/speckit-nothing", args="013")
    assert ended(call).error is None
    assert json.loads((call.cwd / "argv.json").read_text())[-1] == "--prompt=/speckit.nothing 013"


@pytest.mark.parametrize(
    ("stream", "code", "words"),
    [
        ("bad-request", "PB-AGENT-API", "could not be reached: status 400 here"),
        ("logged-out", "PB-AGENT-LOGIN", "status 401 here"),
        ("rate", "PB-AGENT-RATE", "status 429 here"),
        ("cut", "PB-AGENT-API", "ended without a finish reason"),
        ("empty", "PB-AGENT-EMPTY", "empty response"),
        ("limit", "PB-AGENT-LIMIT", "exhausted your daily quota"),
    ],
)
def test_only_a_result_that_says_success_is_one(
    stream: str, code: str, words: str, recorded: Recorded, tmp_path: Path
) -> None:
    recorded(stream)
    error = error_of(prompted(tmp_path))
    assert error.code == code
    assert words in error.message


def test_a_client_that_is_not_set_up_is_not_logged_in(client: Path, tmp_path: Path) -> None:
    (client / "gemini").write_text("#!/bin/sh\necho 'Please set an Auth method' >&2\nexit 41\n")
    assert error_of(prompted(tmp_path)).code == "PB-AGENT-LOGIN"


@pytest.mark.parametrize(
    ("end", "code"),
    [("length", "PB-AGENT-OUTPUT"), ("content_filter", "PB-AGENT-REFUSED"), ("stop", None)],
)
def test_an_answer_that_was_cut_is_no_success_although_the_stream_says_so(
    end: str, code: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_END", end)
    error = ended(call_for("works", tmp_path)).error
    assert (error and error.code) == code


def test_nothing_said_nothing_called_and_nothing_used_is_no_success(tmp_path: Path) -> None:
    assert error_of(call_for("empty", tmp_path)).code == "PB-AGENT-EMPTY"


def test_a_server_that_fails_is_tried_again(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded("server-error")
    monkeypatch.setattr(conversation, "PAUSES", (0.01, 0.01))
    assert ended(prompted(tmp_path)).agent["retries"] == 2


# ── what it may do ──────────────────────────────────────────────────────────────────────────


def test_a_denied_call_fails_the_step_with_the_rule_that_allows_it(
    recorded: Recorded, tmp_path: Path
) -> None:
    recorded("refused")
    error = error_of(prompted(tmp_path), allowed_tools=("Bash(npm test)",))
    assert error.code == "PB-AGENT-PERMISSION"
    assert "gemini was not permitted: Bash echo hi" in error.message
    assert '`gemini:`, write `allowed_tools: ["Bash(npm test)", "Bash(echo' in error.guidance
    forbidden = prompted(tmp_path, forbidden_rules=("Bash(cat *)",))
    assert ended(forbidden).error is None  # no permission is missing


def test_the_policy_allows_what_the_rules_allow(tmp_path: Path) -> None:
    call = prompted(tmp_path, allowed_rules=("WebFetch(domain:example.org)", "mcp__jira__get"))
    ended(call, allowed_tools=("Bash(npm test *)", "Bash(a.b)", "Bash(a * c)", "Bash(d:*)"))
    allowed = rules(call, "allow")[:-1]
    assert [{**each, "decision": 0, "priority": 0} for each in allowed] == [
        {
            "toolName": "run_shell_command",
            "commandPrefix": "npm test",
            "decision": 0,
            "priority": 0,
        },
        {"toolName": "run_shell_command", "commandRegex": 'a\\.b"', "decision": 0, "priority": 0},
        {"toolName": "run_shell_command", "commandPrefix": "d", "decision": 0, "priority": 0},
        {"toolName": ["mcp_jira_get"], "decision": 0, "priority": 0},
    ]


def test_without_a_rule_a_command_is_denied_and_not_hidden(tmp_path: Path) -> None:
    call = prompted(tmp_path)
    ended(call)
    (denied,), (shown,) = rules(call, "deny"), rules(call, "allow")
    assert denied["toolName"] == shown["toolName"]
    assert "run_shell_command" in denied["toolName"]
    assert denied["argsPattern"] == "."  # a rule without a condition would hide the tool


def test_a_step_s_tools_are_all_that_it_has(tmp_path: Path) -> None:
    call = prompted(tmp_path, tools=("Read", "Bash(git log *)", "Edit(/docs/**)"))
    ended(call)
    reading, shell = rules(call, "allow")
    assert "read_file" in reading["toolName"]
    assert shell["commandPrefix"] == "git log"
    assert [each["toolName"] for each in rules(call, "deny")] == ["*"]


def test_what_is_forbidden_comes_before_what_is_allowed(tmp_path: Path) -> None:
    forbidden = ("Bash(git push *)", "Bash(rm * -f)", "Edit(/secret/**)", "Bash")
    call = prompted(tmp_path, forbidden_rules=forbidden)
    ended(call, allowed_tools=("Bash",))
    denied = rules(call, "deny")[:-1]
    assert [each.get("commandRegex") for each in denied] == ["git push", "rm", None, None]
    assert denied[2]["toolName"] == ["replace", "write_file"]
    least = min(each["priority"] for each in denied)
    assert least > max(each["priority"] for each in rules(call, "allow"))


@needs_bubblewrap
def test_in_our_isolation_it_reads_its_policy_and_tells_how_it_ended(
    client: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_END", "length")
    call = call_for("works", tmp_path)
    subprocess.run(["git", "init", "-q", call.cwd], check=True)
    shown = Isolation(mode="required", show=(str(client), str(Path(__file__).parents[1])))
    call = replace(call, isolation=of_step(Config(isolation=shown), call.cwd))
    assert error_of(call).code == "PB-AGENT-OUTPUT"
    assert rules(call, "deny")


def test_a_policy_that_the_client_could_not_read_is_no_policy(client: Path, tmp_path: Path) -> None:
    said = "echo '[USER] Policy file error in policy.toml:' >&2\nexec "
    (client / "gemini").write_text(PROGRAM.replace("exec ", said))
    assert "has not read the policy" in error_of(call_for("works", tmp_path)).message
