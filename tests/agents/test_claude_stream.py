"""Parsing and judging recorded streams of the Claude Code client.

`tests/claude/streams.py` says how each came about, and records them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.agents.claude.stream import Account, Denial, Stream, Usage
from playbook_supervisor.agents.claude.verdict import (
    exhausted,
    is_project_rule,
    judge,
    permission_failure,
    unknown_command,
)
from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.agents.verdicts import Verdict
from playbook_supervisor.kernel.directives import Failure

STREAMS = Path(__file__).parents[1] / "streams"


def lines(name: str) -> list[str]:
    return (STREAMS / f"{name}.jsonl").read_text("utf-8").splitlines()


def heard(*said: str) -> tuple[Stream, list[str]]:
    stream = Stream(root="/project")
    shown = [each for line in said for each in stream.feed(line)]
    return stream, shown


def event(**fields: Any) -> str:
    return json.dumps(fields)


def result(**fields: Any) -> str:
    plain = {"subtype": "success", "is_error": False, "num_turns": 1, "result": "done"}
    return event(type="result", **plain | fields)


def verdict(*said: str) -> Verdict:
    found = judge(heard(*said)[0], ())
    assert found is not None
    return found


def failure(*said: str) -> Failure:
    found = verdict(*said).failure
    assert found is not None
    assert found.guidance
    return found


# ── what it says ────────────────────────────────────────────────────────────────────────────


def test_work_is_shown_line_by_line_and_summed_up() -> None:
    """Catalyst NFR-1.3: texts line by line, tools by what they touch."""
    stream, shown = heard(*lines("works"))
    assert shown == ["I write it.", "Write plan.md", "The plan is written.", "And more."]
    assert stream.said == "The plan is written.\nAnd more."
    assert stream.commands is not None
    assert "speckit.plan" in stream.commands
    assert (stream.model, stream.turns, stream.tool_calls) == ("claude-opus-5-5", 2, 1)
    assert stream.usage == Usage(0.0012, 200, 20, weighed_tokens=300)
    assert len(stream.session) == 36
    assert judge(stream, ()) == Verdict()


def test_without_a_result_there_is_no_verdict() -> None:
    stream, _ = heard(*lines("works")[:-1])
    assert judge(stream, ()) is None
    assert (stream.turns, stream.usage) == (2, Usage(None, 200, 20, 300))


def test_a_result_that_is_not_the_last_message_does_not_count() -> None:
    """A client that was killed in a turn that a background agent began."""
    said = lines("works")
    assert judge(heard(*said, said[1])[0], ()) is None


def test_subagents_count_but_their_text_is_not_shown() -> None:
    stream, shown = heard(*lines("background-agent"))
    assert shown == ["Agent look", "turn 2", "Bash npm test", "turn 5"]
    assert (stream.turns, stream.tool_calls) == (3, 2)
    assert stream.usage.input_tokens == 500
    assert failure(*lines("background-agent")).message == "claude was not permitted: Bash npm test"


def test_the_clients_own_retries_are_shown() -> None:
    stream, shown = heard(*lines("overloaded-and-tried-again"))
    assert shown[0] == "the model's server: overloaded (529); the client retries, 1 of 10"
    assert judge(stream, ()) == Verdict()
    _, bare = heard(event(type="system", subtype="api_retry"))
    assert bare == ["the model's server: an error; the client retries, 0 of 0"]


@pytest.mark.parametrize(
    ("tool", "given_", "told"),
    [
        ("Write", {"file_path": "/project/specs/a.md", "content": "x"}, "Write specs/a.md"),
        ("Bash", {"command": "npm test\nrm x", "description": "run"}, "Bash npm test"),
        ("Agent", {"description": "look", "prompt": "p" * 999}, "Agent look"),
        ("Odd", {"file_path": 7, "\x1b": "x"}, "Odd"),
        ("Bash", {"command": "\x1b[2Jclear"}, "Bash clear"),
    ],
)
def test_a_tool_call_is_described_in_a_few_words(
    tool: str, given_: dict[str, Any], told: str
) -> None:
    assert described(tool, given_, "/project") == told


KEYS = (
    "type subtype message content model usage id result name input is_error status errors"
    " permission_denials tool_input resetsAt total_cost_usd modelUsage"
)
KEYS_OF_EVENTS = (
    "message slash_commands permission_denials result is_error errors total_cost_usd modelUsage"
    " num_turns rate_limit_info api_error_status"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)
EVENTS = st.builds(
    lambda kind, subtype, rest: {**rest, "type": kind, "subtype": subtype},
    st.sampled_from(["assistant", "user", "system", "result", "rate_limit_event"]),
    st.sampled_from(["init", "api_retry", "permission_denied", "success", "error_max_turns", 1]),
    st.dictionaries(st.sampled_from(KEYS_OF_EVENTS.split()), JSON, max_size=4),
)


@given(st.lists(EVENTS, max_size=4))
def test_no_shape_of_an_event_is_an_error(events: list[dict[str, Any]]) -> None:
    stream, _ = heard(*(json.dumps(each) for each in events))
    account = Account([stream])
    assert all(value == value for value in account.as_journaled("claude").values())
    found = judge(stream, ())
    assert found is None or isinstance(found, Verdict)


@pytest.mark.parametrize("line", ["not JSON", "[1]", "{" * 100_000], ids=str)
def test_a_line_that_is_not_an_event_is_ignored(line: str) -> None:
    assert heard(line) == (Stream(root="/project"), [])


@pytest.mark.parametrize("cost", [-1, 1e300, "dear", float("nan")])
def test_an_implausible_cost_is_ignored(cost: object) -> None:
    assert heard(result(total_cost_usd=cost))[0].usage.cost_usd is None


# ── what it means ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("turns", "PB-AGENT-BUDGET", "claude was stopped: it reached its limit on turns"),
        ("dollars", "PB-AGENT-BUDGET", "claude was stopped: it reached its limit on cost in USD"),
        ("model-refuses", "PB-AGENT-REFUSED", "the model refused the request"),
        ("overloaded", "PB-AGENT-API", "the model could not be reached: API Error: 529 Overloaded"),
        ("logged-out", "PB-AGENT-LOGIN", "claude is not logged in: Failed to authenticate"),
        ("unreachable", "PB-AGENT-API", "the model could not be reached: API Error: Connection"),
        (
            "limit",
            "PB-AGENT-LIMIT",
            "claude has reached its usage limit, which ends at 2031-10-17T10:40:00Z (",
        ),
        (
            "command-that-fails",
            "PB-AGENT-EMPTY",
            "claude never asked the model: Shell command permission check failed",
        ),
        (
            "stopped-by-a-hook",
            "PB-AGENT-HOOK",
            "a hook stopped claude in the middle of its work",
        ),
        (
            "stopped-at-the-prompt",
            "PB-AGENT-HOOK",
            "a hook stopped claude in the middle of its work: Operation stopped by hook: policy",
        ),
        ("forked-overloaded", "PB-AGENT-API", "the model could not be reached: API Error: 529"),
        ("output-limit", "PB-AGENT-OUTPUT", "an answer of the model reached the limit on its"),
        (
            "malformed",
            "PB-AGENT-ENDED",
            "claude ended before its work was done (malformed_tool_use_exhausted): The model's",
        ),
    ],
)
def test_text_and_exit_status_prove_nothing(name: str, code: str, message: str) -> None:
    """kai RK-1; own L-5."""
    found = failure(*lines(name))
    assert found.code == code
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (400, "Fix what the message names"),
        (402, "with the model's provider"),
        (403, "/login"),
        (404, "`model:` in the playbook"),
        (429, "Try again later"),
        (529, "Try again later"),
        (None, "Try again later"),
    ],
)
def test_lasting_errors_do_not_suggest_a_retry(status: int | None, cure: str) -> None:
    said = result(is_error=True, api_error_status=status, terminal_reason="api_error", result="No.")
    found = failure(said)
    assert cure in found.guidance
    said_so = {
        403: "claude is not logged in: No",
        429: "the model's server limits the rate of requests: No",
    }
    assert found.message == said_so.get(status or 0, "the model could not be reached: No")
    codes = {403: "PB-AGENT-LOGIN", 429: "PB-AGENT-RATE"}
    assert found.code == codes.get(status or 0, "PB-AGENT-API")
    assert found.lasts is ("Try again later" not in cure)


@pytest.mark.parametrize(
    ("status", "transient"),
    [(400, False), (403, False), (408, True), (429, True), (529, True)],
)
def test_the_status_decides_whether_a_retry_helps(status: int, transient: bool) -> None:
    found = verdict(result(is_error=True, api_error_status=status, terminal_reason="api_error"))
    assert found.transient is transient


def test_the_end_of_a_usage_limit_is_known() -> None:
    assert verdict(*lines("limit")).limit_ends == 1_950_000_000
    older = result(is_error=True, result="Claude AI usage limit reached|1950000000")
    assert verdict(older).limit_ends == 1_950_000_000


def test_a_limit_without_an_end_cannot_be_waited_for() -> None:
    endless = result(is_error=True, result="", api_error="usage_limit_reached")
    found = verdict(endless)
    assert (found.limit_ends, found.transient) == (0, False)
    assert found.failure
    assert found.failure.message.endswith("usage limit; its end is unknown")


def test_a_limit_that_did_not_stop_the_work_is_ignored() -> None:
    """With extra usage the work continues beyond the limit."""
    said = lines("limit")[1]
    assert verdict(said, result()) == Verdict()
    lost = result(is_error=True, terminal_reason="api_error", api_error="connection_failed")
    assert verdict(said, lost).transient


def test_other_errors_fail_with_the_clients_message() -> None:
    broken = result(
        is_error=True, subtype="error_during_execution", result=None, errors=["one", "two"]
    )
    found = failure(broken)
    assert (found.code, found.cause) == ("PB-AGENT-FAILED", "one\ntwo")
    assert found.message == "claude ended with error_during_execution: one"
    assert failure(result(is_error="?")).message == "claude ended with success: done"
    assert failure(result(is_error=True, result="")).message == "claude ended with success"


def test_a_run_without_turns_and_usage_has_failed() -> None:
    assert failure(result(num_turns=0, result="")).message == "claude never asked the model"
    free = result(num_turns=0, total_cost_usd=0, modelUsage={"opus": {"inputTokens": 0}})
    assert failure(free).code == "PB-AGENT-EMPTY"


@pytest.mark.parametrize("name", ["forked", "stopped-at-its-end"])
def test_work_in_a_context_of_its_own_and_a_stop_at_the_end_are_normal(name: str) -> None:
    assert verdict(*lines(name)) == Verdict()


@pytest.mark.parametrize(
    "used",
    [
        {"modelUsage": {"opus": {"outputTokens": 3}}},
        {"total_cost_usd": 0.1},
    ],
)
def test_usage_without_turns_is_work(used: dict[str, Any]) -> None:
    """Older clients do not list the task of a command that runs in a context of its own."""
    assert verdict(result(num_turns=0, **used)) == Verdict()


@pytest.mark.parametrize("status", ["failed", "unheard-of"])
def test_a_command_in_a_context_of_its_own_must_have_completed(status: str) -> None:
    forked = "\n".join(lines("forked")).replace('"status": "completed"', f'"status": "{status}"')
    assert failure(*forked.splitlines()).code == "PB-AGENT-FAILED"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ({"terminal_reason": "tool_deferred"}, "PB-AGENT-HOOK"),
        ({"terminal_reason": "prompt_too_long"}, "PB-AGENT-CONTEXT"),
        ({"terminal_reason": "completed", "stop_reason": "max_tokens"}, "PB-AGENT-OUTPUT"),
        ({"terminal_reason": "a_new_one", "stop_reason": "end_turn"}, "PB-AGENT-ENDED"),
        ({"stop_reason": "another"}, "PB-AGENT-ENDED"),
        ({"terminal_reason": {"a": 1}}, "PB-AGENT-ENDED"),
        ({"subtype": "error_during_execution"}, "PB-AGENT-FAILED"),
    ],
)
def test_every_end_that_is_not_normal_fails_by_name(end: dict[str, Any], code: str) -> None:
    found = failure(result(**end))
    assert found.code == code
    if code == "PB-AGENT-ENDED":
        named = next(str(value) for value in end.values() if value not in ("completed", "end_turn"))
        assert f"({named})" in found.message


@pytest.mark.parametrize(
    "end",
    [
        {},
        {"stop_reason": None},
        {"stop_reason": "end_turn"},
        {"terminal_reason": "completed", "stop_reason": "stop_sequence"},
        {"terminal_reason": "completed", "stop_reason": "tool_use"},
    ],
)
def test_normal_ends_of_older_and_newer_clients(end: dict[str, Any]) -> None:
    assert verdict(result(**end)) == Verdict()


def test_a_blocked_prompt_after_which_the_work_went_on_is_no_failure() -> None:
    blocked = lines("stopped-at-the-prompt")
    assert verdict(*blocked[:-1], *lines("works")) == Verdict()


def test_a_full_context_is_not_the_output_limit() -> None:
    words = "API Error: The model has reached its context window limit."
    error = {"is_error": True, "terminal_reason": "api_error", "api_error": "max_output_tokens"}
    assert failure(result(**error, result=words)).code == "PB-AGENT-CONTEXT"
    older = "API Error: Claude's response exceeded the 32000 output token maximum."
    assert failure(result(is_error=True, result=older)).code == "PB-AGENT-OUTPUT"


def test_only_what_the_model_says_or_calls_breaks_the_silence() -> None:
    """`forked` is judged by its transcript: its words are printed by the client."""
    assert heard(*lines("nothing"))[0].silent
    assert heard(*lines("forked"))[0].silent is False
    assert heard(*lines("forked-overloaded"))[0].silent
    assert heard(*lines("works"))[0].silent is False


def test_an_unknown_command_is_found_before_the_model_is_asked() -> None:
    """The client would send it to the model as text without an error."""
    stream, _ = heard(lines("unknown-command")[0])
    found = unknown_command(stream, "/nosuch")
    assert found
    assert found.code == "PB-AGENT-COMMAND"
    assert unknown_command(stream, "/speckit.plan") is None
    assert unknown_command(Stream(), "/anything") is None
    assert judge(heard(*lines("unknown-command"))[0], ()) == Verdict()


# ── permissions ─────────────────────────────────────────────────────────────────────────────


def test_a_denial_shows_the_line_that_allows_it() -> None:
    stream, _ = heard(*lines("denied"))
    found = judge(stream, ("Bash(git commit *)",))
    assert found is not None
    assert found.failure is not None
    assert found.failure.code == "PB-AGENT-PERMISSION"
    assert found.failure.message == (
        "claude was not permitted: Bash npm test -- --watch, Write /etc/x.md, Write .git/x.md"
        " and 1 more"
    )
    rules = ["Bash(git commit *)", "Bash(npm test *)", "Edit(//etc/x.md)"]
    line = json.dumps([*rules, "WebFetch(domain:example.org)"])
    assert f"`allowed_tools: {line}`" in found.failure.guidance
    assert "This command requires approval" in found.failure.cause


def test_no_rule_is_shown_where_the_mode_forbids_all_changes() -> None:
    found = failure(*lines("plan-mode"))
    assert found.code == "PB-AGENT-PERMISSION"
    assert "remove `permission_mode: plan`" in found.guidance


def test_a_file_of_the_repository_is_named_as_on_every_machine() -> None:
    """The line goes into a file that is in git."""
    written = Denial("Write", {"file_path": "/srv/ada/x/specs/a.md"})
    assert '["Edit(/specs/a.md)"]' in permission_failure([written], (), "/srv/ada/x").guidance
    assert (
        '["Edit(//srv/ada/x/specs/a.md)"]'
        in permission_failure([written], (), "/srv/ada/y").guidance
    )


def test_calls_that_the_project_forbids_are_no_failure() -> None:
    """Deny rules and hooks are expected to refuse calls."""
    stream, _ = heard(*lines("refused-by-the-project"))
    assert [denial.tool for denial in stream.denials] == ["Bash", "Write", "Read"]
    assert all(map(is_project_rule, stream.denials))
    assert judge(stream, ()) == Verdict()


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("npm test", ["Bash(npm test *)"]),
        ("npm test 2>&1 | head -3", ["Bash(npm test *)", "Bash(head *)"]),
        ("git commit -m 'a; b' && git push", ["Bash(git commit *)", "Bash(git push *)"]),
        ("CI=1 npm test", ["Bash(CI=1 npm test)"]),
        ("(cd a; make) >log", ["Bash(cd a *)", "Bash(make *)"]),
        ("cat <<'X'\nit's\nX", ["Bash(cat *)"]),
        ('echo "\x1b[31m"', ["Bash(echo *)"]),
    ],
)
def test_a_rule_is_no_broader_than_needed(command: str, rules: list[str]) -> None:
    found = permission_failure([Denial("Bash", {"command": command})], (), "")
    assert f"`allowed_tools: {json.dumps(rules)}`" in found.guidance


@pytest.mark.parametrize(
    ("tool", "given_", "rule"),
    [
        ("NotebookEdit", {"notebook_path": "/x/a.ipynb"}, "Edit(//x/a.ipynb)"),
        ("Read", {"file_path": "/etc/hosts"}, "Read(//etc/hosts)"),
        ("Grep", {"path": "/etc", "pattern": "x"}, "Read(//etc)"),
        ("Skill", {"skill": "qa.run"}, "Skill(qa.run)"),
        ("mcp__jira__get", {}, "mcp__jira__get"),
    ],
)
def test_every_tool_has_its_rule(tool: str, given_: dict[str, Any], rule: str) -> None:
    assert (
        f"`allowed_tools: {json.dumps([rule])}`"
        in permission_failure([Denial(tool, given_)], (), "").guidance
    )


@pytest.mark.parametrize(
    "denial",
    [
        Denial("Write", {"file_path": ".git/x"}, "… edit .git/x which is a sensitive file."),
        Denial("Bash", {"command": "'"}),
        Denial("Bash", {"command": 7}),
    ],
)
def test_where_no_rule_helps_none_is_shown(denial: Denial) -> None:
    found = permission_failure([denial], (), "")
    assert "allowed_tools" not in found.guidance
    assert "change the step" in found.guidance


# ── what it has used ────────────────────────────────────────────────────────────────────────


def used(session: str, cost: float | None, turns: int = 1, tokens: int = 100) -> Stream:
    models = {"opus": {"inputTokens": tokens, "outputTokens": 1, "cacheReadInputTokens": 3}}
    given_ = {"session_id": session, "num_turns": turns, "modelUsage": models}
    return heard(result(**given_, total_cost_usd=cost))[0]


def test_usage_is_summed_over_conversations_not_processes() -> None:
    account = Account([used("a", 0.1), used("b", 0.2), used("b", 0.5, turns=2)])
    assert account.as_journaled("claude", retries=1) == {
        "name": "claude",
        "id": "b",
        "cost_usd": 0.6,
        "input_tokens": 206,
        "output_tokens": 2,
        "turns": 4,
        "retries": 1,
    }
    assert account.as_journaled("claude", weighed=True)["weighed_tokens"] == 210
    left = account.left_of(Budget(max_turns=5, max_cost_usd=1.0), "b")
    assert left == Budget(max_turns=1, max_cost_usd=0.9)
    assert account.left_of(Budget()) == Budget()


def test_tokens_are_weighed_by_what_they_cost() -> None:
    """In tokens of input: those read from the cache are cheap, those of the answer are dear."""
    usage = {
        "inputTokens": 100,
        "cacheReadInputTokens": 1000,
        "cacheCreationInputTokens": 40,
        "outputTokens": 10,
    }
    stream, _ = heard(result(modelUsage={"opus": usage, "haiku": usage}))
    assert stream.usage.weighed_tokens == 2 * (100 + 100 + 50 + 50)
    assert stream.usage.input_tokens == 2 * 1140


def test_unknown_values_are_left_out() -> None:
    assert Account().as_journaled("claude") == {"name": "claude"}
    assert "cost_usd" not in Account([used("a", None)]).as_journaled("claude")


@pytest.mark.parametrize(
    ("name", "budget", "told"),
    [
        ("turns", Budget(max_turns=2), "its limit on turns: 2 of 2"),
        ("dollars", Budget(max_cost_usd=0.01), "its limit on cost in USD: 0.012345 of 0.01"),
    ],
)
def test_a_reached_limit_is_told_with_what_was_spent(name: str, budget: Budget, told: str) -> None:
    stream, _ = heard(*lines(name))
    spent = {"max_turns": 2, "max_cost_usd": 0.012345}
    verdict = judge(stream, (), budget, spent)
    assert verdict is not None
    assert verdict.failure is not None
    assert verdict.failure.message.endswith(told)


@pytest.mark.parametrize(
    ("left", "word"),
    [
        (Budget(max_turns=0), "turns"),
        (Budget(max_tool_calls=0), "tool calls"),
        (Budget(max_cost_usd=-0.1), "cost in USD"),
        (Budget(max_tokens=0), "tokens"),
    ],
)
def test_an_exhausted_budget_is_a_failure(left: Budget, word: str) -> None:
    found = exhausted(left)
    assert found is not None
    assert found.message == f"claude was not started: nothing is left of its limit on {word}"
    assert exhausted(Budget(1, 1, 0.1)) is None


# ── what is worth another attempt ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["denied", "plan-mode", "dollars", "limit", "logged-out"])
def test_repeatable_failures_last(name: str) -> None:
    """`retry_once` would pay for it twice."""
    assert failure(*lines(name)).lasts


@pytest.mark.parametrize("name", ["overloaded", "unreachable", "model-refuses"])
def test_transient_failures_do_not_last(name: str) -> None:
    assert not failure(*lines(name)).lasts
