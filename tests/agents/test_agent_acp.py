"""Agents that speak the Agent Client Protocol, with a scripted one: how they are asked and judged.

The real ones are tested in tests/clients.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support import acp_agent
from support.agent_calls import ended, error_of
from support.controlled_time import shorten_grace

from playbook_supervisor.agents import acp, conversation
from playbook_supervisor.agents.profiles import PROFILES
from playbook_supervisor.agents.protocol import Agent, Call, Reply, Request, carry_out
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.project.settings.config import AgentSettings, Config
from playbook_supervisor.records import replace
from playbook_supervisor.testing import AGENT_CHECKS, ASKING_CHECKS, AgentCheck, call_for


def scripted(root: Path, *options: str, **settings: Any) -> Agent:
    argv = (sys.executable, acp_agent.__file__, *options)
    config = Config(agents={"mine": AgentSettings(acp=argv, **settings)})
    return choose("mine", config, root)


def known(name: str, root: Path, **peculiar: Any) -> Agent:
    """The scripted agent with the profile of a known one."""
    profile = dataclasses.replace(PROFILES[name], mode="", **peculiar)
    argv = (sys.executable, acp_agent.__file__)
    return acp.AcpAgent(name, profile, AgentSettings(acp=argv), root)


def prompts(call: Call) -> list[list[str]]:
    return [json.loads(line) for line in (call.cwd / "prompts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("check", AGENT_CHECKS, ids=lambda check: check.__name__)
def test_an_agent_of_a_profile_passes_every_conformance_check(
    check: AgentCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    check(scripted(tmp_path), tmp_path)


@pytest.mark.parametrize("check", ASKING_CHECKS, ids=lambda check: check.__name__)
def test_it_asks_as_an_agent_must(check: AgentCheck, tmp_path: Path) -> None:
    check(scripted(tmp_path), tmp_path)


def test_an_agent_that_forgets_begins_again_with_the_answer(tmp_path: Path) -> None:
    asked: list[Request] = []

    def ask(request: Request) -> Reply | None:
        asked.append(request)
        return None

    call = replace(call_for("asks", tmp_path), ask=ask)
    ended(scripted(tmp_path, "--forgets"), call)
    assert "conversation" not in asked[0].shape
    call = replace(call, replies={asked[0].shape["digest"]: Reply("allow")})
    assert ended(scripted(tmp_path, "--forgets"), call).error is None
    assert (call.cwd / "asks.txt").exists()
    assert len(asked) == 1


def test_the_journal_is_told_what_the_agent_tells(tmp_path: Path) -> None:
    agent = dict(ended(scripted(tmp_path), call_for("works", tmp_path)).agent)
    assert str(agent.pop("id")).startswith("conversation-")
    assert agent == {
        "name": "mine",
        "version": "4.2",
        "model": "small",
        "input_tokens": 100,
        "output_tokens": 7,
    }


def test_a_command_is_called_as_the_agent_names_it(tmp_path: Path) -> None:
    call = replace(call_for("speckit.plan", tmp_path), args="013", feedback="It failed.")
    assert ended(scripted(tmp_path), call).output == "/speckit-plan 013\n\nIt failed."


def test_of_two_spellings_that_of_the_playbook_is_sent(tmp_path: Path) -> None:
    for command in ("qa.run", "qa-run"):
        assert ended(scripted(tmp_path), call_for(command, tmp_path)).output == f"/{command}"


def test_a_command_that_the_agent_does_not_offer_is_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp, "_ADVERTISING", 0.5)
    monkeypatch.setattr(acp, "_MORE", 0.1)
    call = call_for("speckit.nothing", tmp_path)
    for options in ((), ("--bare",)):
        error = error_of(scripted(tmp_path, *options), call)
        assert error.code == "PB-AGENT-COMMAND"
    assert not (call.cwd / "prompts.jsonl").exists()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("empty", "PB-AGENT-EMPTY"),
        ("fails", "PB-AGENT-API"),
        ("breaks", "PB-AGENT-API"),
        ("limited", "PB-AGENT-LIMIT"),
        ("refuses", "PB-AGENT-REFUSED"),
        ("cancelled", "PB-AGENT-ENDED"),
        ("dies", "PB-AGENT-CRASHED"),
    ],
)
def test_an_end_of_the_turn_proves_nothing(command: str, code: str, tmp_path: Path) -> None:
    assert error_of(scripted(tmp_path), call_for(command, tmp_path)).code == code


def test_an_agent_that_always_tells_its_tokens_has_failed_if_it_tells_none(tmp_path: Path) -> None:
    agent = known("copilot", tmp_path)
    assert error_of(agent, call_for("cut", tmp_path)).code == "PB-AGENT-API"
    assert ended(agent, call_for("works", tmp_path)).error is None


def test_what_an_agent_makes_for_itself_does_not_count_as_work(tmp_path: Path) -> None:
    agent = known("qwen", tmp_path, leaves=("works.txt", ".kept"))
    call = call_for("works", tmp_path)
    (call.cwd / ".kept").write_text("mine")
    assert ended(agent, call).error is None
    assert not (call.cwd / "works.txt").exists()
    assert (call.cwd / ".kept").exists()


def test_an_agent_that_hides_failures_must_end_with_words(tmp_path: Path) -> None:
    agent = known("kimi", tmp_path)
    assert error_of(agent, call_for("stops", tmp_path)).code == "PB-AGENT-API"
    assert ended(agent, call_for("works", tmp_path)).error is None


def test_an_answer_that_breaks_off_again_and_again_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp, "_PAUSE", 0.1)
    error = error_of(scripted(tmp_path), call_for("repeats", tmp_path))
    assert error.code == "PB-AGENT-API"
    assert "repeats an answer that breaks off" in error.message


def test_an_agents_own_remarks_are_not_the_models_words(tmp_path: Path) -> None:
    error = error_of(known("copilot", tmp_path), call_for("remarks", tmp_path))
    assert (error.code, error.lasts) == ("PB-AGENT-API", True)
    assert error.message == "the model could not be reached: 400 Bad request"
    assert ended(scripted(tmp_path), call_for("remarks", tmp_path)).error is None


def test_the_cost_and_the_tokens_of_each_request_are_counted(tmp_path: Path) -> None:
    used = ended(scripted(tmp_path, "--quiet"), call_for("priced", tmp_path)).agent
    figures = ("cost_usd", "input_tokens", "output_tokens")
    assert [used[name] for name in figures] == [0.25, 30, 2]
    last = ended(known("opencode", tmp_path), call_for("priced", tmp_path)).agent
    assert "input_tokens" not in last  # its last request's alone: that is not what it used


def test_a_call_is_shown_in_the_words_of_its_tool(tmp_path: Path) -> None:
    shown: list[str] = []
    carry_out(scripted(tmp_path), call_for("looks", tmp_path), shown.append)
    assert shown == [
        "Bash ls -l",
        "Bash git log -1",
        "Bash make",
        "Edit a.py",
        "WebFetch https://example.org",
        "Read a.py",
        "weather",
    ]


def test_what_an_agent_does_unasked_may_end_the_step(tmp_path: Path) -> None:
    """An agent that asks about some calls alone must not do what the step leaves out."""
    call = replace(call_for("looks", tmp_path), tools=("Read",))
    error = error_of(scripted(tmp_path), call)
    assert error.code == "PB-AGENT-PERMISSION"
    assert "did what this step may not do, without asking: Bash ls -l" in error.message


def test_what_is_allowed_for_the_session_is_asked_once(tmp_path: Path) -> None:
    asked: list[Request] = []

    def ask(request: Request) -> Reply:
        asked.append(request)
        return Reply("always")

    call = replace(call_for("twice", tmp_path), ask=ask)
    assert ended(scripted(tmp_path), call).error is None
    assert [request.shape["rule"] for request in asked] == ["Bash(npm test *)"]


def test_put_off_a_question_waits_for_its_answer(tmp_path: Path) -> None:
    asked: list[Request] = []

    def ask(request: Request) -> None:
        asked.append(request)

    call = replace(call_for("wonders", tmp_path), ask=ask)
    ended(scripted(tmp_path), call)
    call = replace(call, replies={asked[0].shape["digest"]: Reply("answer", "Postgres")})
    assert ended(scripted(tmp_path), call).output == "chosen: b"
    assert len(asked) == 1


def test_a_server_that_is_overloaded_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "PAUSES", (0.01, 0.01))
    call = call_for("busy", tmp_path)
    outcome = ended(scripted(tmp_path), call)
    assert outcome.error is not None
    assert outcome.error.code == "PB-AGENT-API"
    assert outcome.agent["retries"] == 2
    assert len(prompts(call)) == 3


def test_an_edit_in_the_repository_needs_no_permission(tmp_path: Path) -> None:
    outcome = ended(scripted(tmp_path), call_for("edits", tmp_path))
    assert (outcome.error, outcome.output) == (None, "edited")


def test_a_command_that_no_rule_allows_fails_the_step_where_no_person_is_asked(
    tmp_path: Path,
) -> None:
    error = error_of(scripted(tmp_path), call_for("runs", tmp_path))
    assert error.code == "PB-AGENT-PERMISSION"
    assert "npm test" in error.message
    assert '`mine:`, write `allowed_tools: ["Bash(npm test *)"]`' in error.guidance
    allowed = scripted(tmp_path, allowed_tools=("Bash(npm test *)",))
    assert ended(allowed, call_for("runs", tmp_path)).output == "tested"


def test_a_permission_is_decided_once_the_call_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown call must not look like another one that was allowed."""
    monkeypatch.setattr(acp, "_MORE", 0.2)
    subjects: list[str] = []

    def ask(request: Request) -> Reply:
        subjects.append(request.shape["subject"])
        return Reply("allow")

    call = replace(call_for("late", tmp_path), ask=ask)
    assert ended(scripted(tmp_path), call).output == "tested"
    assert subjects == ["npm test"]
    error = error_of(scripted(tmp_path), replace(call_for("nameless", tmp_path), ask=ask))
    assert error.message == "mine asked for a permission without saying for what"
    assert len(subjects) == 1


def test_a_choice_among_several_is_a_question(tmp_path: Path) -> None:
    asked: list[Request] = []

    def answering(words: str) -> Call:
        def ask(request: Request) -> Reply:
            asked.append(request)
            return Reply("answer", words)

        return replace(call_for("wonders", tmp_path), ask=ask)

    assert ended(scripted(tmp_path), answering("2")).output == "chosen: b"
    assert asked[0].kind == "question"
    assert asked[0].shape["subject"] == "Which database?"
    call = answering("Something else")
    ended(scripted(tmp_path), call)
    assert prompts(call)[-1] == ["You asked: Which database? The person said: Something else"]
    assert error_of(scripted(tmp_path), call_for("wonders", tmp_path)).code == "PB-AGENT-PERMISSION"


def test_the_words_of_a_denial_reach_the_agent_in_another_turn(tmp_path: Path) -> None:
    call = replace(call_for("runs", tmp_path), ask=lambda _: Reply("deny", "use make"))
    assert ended(scripted(tmp_path), call).error is None
    assert prompts(call)[1] == ["A person has denied this call: Bash npm test. They said: use make"]


def test_what_a_step_may_not_use_is_refused_and_no_failure(tmp_path: Path) -> None:
    """The project has drawn that boundary; the step's conditions judge what is missing."""
    call = replace(call_for("edits", tmp_path), tools=("Read", "Bash(git *)"))
    assert ended(scripted(tmp_path), call).error is None
    assert not (call.cwd / "made.txt").exists()
    forbidden = replace(call_for("edits", tmp_path), forbidden_rules=("Edit(made.txt)",))
    assert ended(scripted(tmp_path), forbidden).error is None
    assert not (call.cwd / "made.txt").exists()


def test_the_mode_and_the_model_of_the_settings_are_set(tmp_path: Path) -> None:
    call = call_for("works", tmp_path)
    assert ended(scripted(tmp_path, mode="careful"), call).error is None
    assert ended(scripted(tmp_path, model="small"), call).agent["model"] == "small"
    error = error_of(scripted(tmp_path, mode="reckless"), call)
    assert "has no mode reckless; it has auto, careful" in error.message
    error = error_of(scripted(tmp_path), replace(call, model="huge"))
    assert "has no model huge; it has small" in error.message
