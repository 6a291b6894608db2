"""The agent `claude` with a stand-in for the client: how it is called and how its end is judged.

What the client itself does is tested in tests/claude/test_headless.py; here it says again what it
once said there.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.scratch_project import Project

from playbook_supervisor.agents import conversation
from playbook_supervisor.agents.claude.headless import TESTED
from playbook_supervisor.agents.protocol import Agent, Budget, Call, Message, Running, carry_out
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.settings.config import Claude, Config
from playbook_supervisor.records import replace
from playbook_supervisor.testing import call_for

STREAMS = Path(__file__).parents[1] / "streams"

StandIn = Callable[..., None]
PROGRAM = """\
#!/bin/sh
cd '{folder}'
printf '%s\\n' "$@" >>argv
env >>environment
echo . >>calls
number=$(wc -l <calls)
cat "$number" 2>/dev/null || cat last
{then}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the stand-in records: argv, environment, calls."""
    made = tmp_path / "client"
    made.mkdir()
    return made


@pytest.fixture
def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A `claude` on PATH that prints these streams, one for each start; the last one repeats."""

    def put(*streams: str, then: str = "exit 0") -> None:
        for number, stream in enumerate(streams, 1):
            (folder / str(number)).write_text(stream)
        (folder / "last").write_text(streams[-1])
        (folder / "claude").write_text(PROGRAM.format(folder=folder, then=then))
        (folder / "claude").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return put


def recorded(name: str) -> str:
    return (STREAMS / f"{name}.jsonl").read_text("utf-8")


def limited(ends: float) -> str:
    return recorded("limit").replace("1950000000", str(int(ends)))


def agent(**settings: Any) -> Agent:
    return choose("claude", Config(claude=Claude(**settings)), Path("/"))


def planning(tmp_path: Path, **changes: Any) -> Call:
    call = call_for("speckit.plan", tmp_path)
    return replace(call, **changes)


def carried_out(call: Call, **settings: Any) -> tuple[Outcome, list[str]]:
    heard: list[str] = []
    return carry_out(agent(**settings), call, heard.append), heard


def failure(call: Call, **settings: Any) -> Failure:
    error = carried_out(call, **settings)[0].error
    assert error is not None
    assert error.guidance
    return error


# ── how it is called ────────────────────────────────────────────────────────────────────────


def test_no_value_and_no_prompt_is_taken_for_an_option(
    stand_in: StandIn, folder: Path, tmp_path: Path
) -> None:
    stand_in(recorded("works"))
    budget = Budget(max_turns=3, max_tool_calls=9, max_cost_usd=0.25)
    hostile = "--dangerously-skip-permissions"
    call = planning(tmp_path, prompt=f"/speckit.plan {hostile}", model=hostile, budget=budget)
    outcome, heard = carried_out(call, allowed_tools=(hostile, "Bash(git commit *)"))
    assert (outcome.ok, outcome.output) == (True, "The plan is written.\nAnd more.")
    assert heard == ["I write it.", "Write plan.md", "The plan is written.", "And more."]
    assert (folder / "argv").read_text().splitlines() == [
        "-p",
        "--verbose",
        "--output-format=stream-json",
        "--permission-mode=acceptEdits",
        f"--model={hostile}",
        "--max-turns=3",
        "--max-budget-usd=0.250000",
        f"--allowedTools={hostile}",
        "--allowedTools=Bash(git commit *)",
        "--",
        f"/speckit.plan {hostile}",
    ]


@pytest.mark.parametrize(
    ("tools", "options"),
    [
        (("Read", "Grep"), ["--tools=Read,Grep", "--strict-mcp-config"]),
        (("Bash(git log *)", "Bash(ls)"), ["--tools=Bash", "--strict-mcp-config"]),
        (("Read", "mcp__jira__get"), ["--tools=Read"]),
        ((), ["--tools=", "--strict-mcp-config"]),
    ],
)
def test_a_prompt_s_agent_has_no_tools_but_those_named(
    stand_in: StandIn, folder: Path, tmp_path: Path, tools: tuple[str, ...], options: list[str]
) -> None:
    """cat FR-5.4; tyr 30: what the config allows does not widen them."""
    stand_in(recorded("works"))
    call = planning(tmp_path, command="prompt", prompt="Review it.", tools=tools)
    assert carried_out(call, allowed_tools=("Write",))[0].ok
    argv = (folder / "argv").read_text().splitlines()
    allowed = [f"--allowedTools={rule}" for rule in ("Write", *tools)]
    assert argv[-len(allowed) - len(options) - 2 :] == [*allowed, *options, "--", "Review it."]


def test_a_retry_is_told_beside_the_command_which_stays_as_typed(
    stand_in: StandIn, folder: Path, tmp_path: Path
) -> None:
    stand_in(recorded("works"))
    log: list[str] = []
    carried_out(planning(tmp_path, feedback="plan_exists: it is missing", log=log.append))
    argv = (folder / "argv").read_text().splitlines()
    assert "--append-system-prompt=plan_exists: it is missing" in argv
    assert argv[-2:] == ["--", "/speckit.plan"]
    assert log == ["I write it.", "Write plan.md", "The plan is written.", "And more."]


def test_variables_of_an_enclosing_client_are_removed(
    stand_in: StandIn, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(recorded("works"))
    for name, value in {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ID": "outer",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "TRACEPARENT": "00-a",
    }.items():
        monkeypatch.setenv(name, value)
    carried_out(planning(tmp_path, env={"SPECIFY_FEATURE": "013"}))
    written = (folder / "environment").read_text()
    seen = {line.partition("=")[0] for line in written.splitlines()}
    assert not {"CLAUDECODE", "CLAUDE_CODE_SESSION_ID"} & seen
    assert {"ANTHROPIC_BASE_URL", "TRACEPARENT", "SPECIFY_FEATURE", "PLAYBOOK_SESSION"} <= seen


# ── how it ends ─────────────────────────────────────────────────────────────────────────────


def test_the_result_counts_and_not_the_exit_status(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(recorded("works"), then="echo trouble >&2; exit 3")
    assert carried_out(planning(tmp_path))[0].ok


@pytest.mark.parametrize(
    ("then", "code", "message"),
    [
        ("echo trouble >&2; exit 3", "PB-AGENT-FAILED", "claude ended with exit status 3: trouble"),
        ("kill -9 $$", "PB-AGENT-CRASHED", "claude was killed by SIGKILL"),
        ("exit 0", "PB-AGENT-FAILED", "claude ended with exit status 0"),
    ],
)
def test_without_a_result_it_has_failed(
    then: str, code: str, message: str, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in(recorded("works").splitlines(keepends=True)[0], then=then)
    error = failure(planning(tmp_path))
    assert (error.code, error.message.startswith(message)) == (code, True), error.message


@pytest.mark.parametrize(
    ("stream", "command", "changes", "code"),
    [
        ("denied", "/speckit.plan", {"budget": Budget(max_tool_calls=3)}, "PB-AGENT-BUDGET"),
        ("works", "/speckit.plan", {"budget": Budget(max_cost_usd=0.0)}, "PB-AGENT-BUDGET"),
        ("works", "/speckit.plan", {"budget": Budget(max_tokens=149)}, "PB-AGENT-BUDGET"),
        ("unknown-command", "/nosuch", {}, "PB-AGENT-COMMAND"),
        ("works", "/speckit.plan", {"idle": 0.3}, "PB-AGENT-TIMEOUT"),
    ],
)
def test_a_call_that_exceeds_its_limit_is_stopped(
    stream: str,
    command: str,
    changes: dict[str, Any],
    code: str,
    stand_in: StandIn,
    tmp_path: Path,
) -> None:
    """The stand-in would sleep for ever (tyr 32)."""
    stand_in("".join(recorded(stream).splitlines(keepends=True)[:-1]), then="exec sleep 600")
    assert failure(planning(tmp_path, command=command, **changes)).code == code


def test_a_client_that_was_uninstalled_is_a_failed_step(
    stand_in: StandIn, folder: Path, tmp_path: Path
) -> None:
    stand_in(recorded("works"))
    chosen = agent()
    (folder / "claude").unlink()
    outcome = carry_out(chosen, planning(tmp_path), print)
    assert outcome.error
    assert "claude could not be started" in outcome.error.message
    assert outcome.agent == {"name": "claude"}


def test_secrets_and_sequences_are_removed_from_its_output(
    stand_in: StandIn, tmp_path: Path
) -> None:
    told = recorded("logged-out").replace("scripted", "hunter2 \\u001b[31m")
    stand_in(told)
    error = failure(planning(tmp_path, secrets=("hunter2",)))
    assert error.message.endswith("API Error: 401 [redacted]")


# ── trying again ────────────────────────────────────────────────────────────────────────────


def test_each_call_is_retried_three_times(
    stand_in: StandIn, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 1, 2 and 4 seconds; the test does not wait (cat NFR-2.1)."""
    paused: list[float | None] = []
    monkeypatch.setattr(threading.Event, "wait", lambda self, seconds=None: paused.append(seconds))
    stand_in(recorded("overloaded"))
    outcome, heard = carried_out(planning(tmp_path))
    assert outcome.error
    assert outcome.error.code == "PB-AGENT-API"
    assert [pause for pause in paused if pause] == [1.0, 2.0, 4.0]
    assert [line.rpartition("; ")[2] for line in heard if "trying" in line] == [
        f"trying again in {seconds} s" for seconds in (1, 2, 4)
    ]
    assert outcome.agent["retries"] == 3
    assert (folder / "calls").read_text() == ".\n" * 4


def test_nothing_is_retried_after_the_first_tool_call(
    stand_in: StandIn, folder: Path, tmp_path: Path
) -> None:
    """cat NFR-2.1."""
    stand_in(recorded("overloaded-after-a-tool"))
    assert failure(planning(tmp_path)).code == "PB-AGENT-API"
    assert (folder / "calls").read_text() == ".\n"


def test_retries_count_towards_the_deadline(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(recorded("overloaded"))
    error = failure(planning(tmp_path, wall=0.8))
    assert (error.code, error.message) == ("PB-AGENT-TIMEOUT", "claude ran for more than 0.8 s")


class Sleepless:
    """A conversation's clocks and pauses, without waiting."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        real, slept = time, self

        class Pausing(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                slept.seconds += timeout or 0.0
                return self.is_set()

        clocks = SimpleNamespace(
            time=lambda: real.time() + slept.seconds,
            monotonic=lambda: real.monotonic() + slept.seconds,
        )
        patch.setattr(conversation, "time", clocks)
        patch.setattr(conversation, "Event", Pausing)


def test_waiting_for_a_limit_does_not_count_towards_the_deadline(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline limits working time; waiting is not a retry."""
    slept = Sleepless(monkeypatch)
    stand_in(limited(time.time() + 4000), recorded("works"))
    outcome, heard = carried_out(planning(tmp_path, wall=600.0), wait_for_limit=True)
    assert outcome.ok, outcome.error
    assert heard[1].startswith("usage limit: waiting until ")
    assert "retries" not in outcome.agent
    assert slept.seconds > 3000


def test_work_that_a_limit_stopped_continues(
    stand_in: StandIn, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sleepless(monkeypatch)
    begun, _, ended = recorded("works").partition('{"type": "user"')
    rest = limited(time.time() - 100).partition("\n")[2]
    stand_in(begun + rest, recorded("works"))
    assert carried_out(planning(tmp_path), wait_for_limit=True)[0].ok
    first, again = (folder / "argv").read_text().split("-p\n")[1:]
    assert "--resume" not in first
    session = json.loads(rest.splitlines()[-1])["session_id"]
    assert f"--resume={session}" in again
    assert "/speckit.plan" not in again
    assert ended


@pytest.mark.parametrize("stream", ["limit", "overloaded"])
def test_a_waiting_call_can_be_stopped(stream: str, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(recorded(stream))
    running = agent(wait_for_limit=True).run(planning(tmp_path))
    said: list[Message] = []
    for message in running:
        said.append(message)
        if "waiting until" in message.text or "trying again" in message.text:
            running.stop()
    outcome = said[-1].outcome
    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.message == "claude was stopped before it ended"


# ── agents that cannot hold themselves to a limit ───────────────────────────────────────────


def test_a_limit_that_the_agent_cannot_keep_is_refused(project: Project) -> None:
    """An ignored limit would be trusted."""
    drive = DriveOptions("exec:sh", limits=Budget(max_turns=1, max_cost_usd=2.0))
    with pytest.raises(ArgumentError) as caught:
        driving.run("auto-feature", ["013"], cwd=project.root, drive=drive)
    assert caught.value.message.endswith("it cannot keep --max-turns, --max-cost-usd")
    assert not project.sessions


def test_a_stored_limit_that_it_cannot_keep_is_reported(project: Project) -> None:
    told: list[str] = []

    class Listener(Observer):
        def on_notice(self, text: str) -> None:
            told.append(text)

    script = project.script("default: {fail: not today}\n")
    driving.run("auto-feature", ["013"], cwd=project.root, drive=DriveOptions(script))
    with_limits = DriveOptions("claude", limits=Budget(max_turns=1))
    driving.resume(cwd=project.root, retry=True, drive=with_limits)
    driving.resume(cwd=project.root, retry=True, drive=DriveOptions(script), observer=Listener())
    assert "the agent script does not report its usage, so it cannot keep --max-turns" in told


# ── what a run leaves for a step ────────────────────────────────────────────────────────────

GROUP = """\
name: group
description: One, then two at once
version: "1.0"
args: []
steps:
  - {id: one, command: /qa.plan, autonomy: auto, error_policy: stop}
  - {id: two, command: /qa.plan, autonomy: auto, error_policy: stop, parallel_group: both}
  - {id: three, command: /qa.plan, autonomy: auto, error_policy: stop, parallel_group: both}
"""


class Spender:
    """An agent that keeps budgets and spends 40 cents on each call."""

    name = "spender"
    keeps_budgets = True

    def __init__(self) -> None:
        self.given: dict[str, Budget] = {}

    def available(self) -> str | None:
        return None

    def run(self, call: Call) -> Running:
        self.given[call.step] = call.budget
        usage: dict[str, str | int | float]
        usage = {"name": self.name, "cost_usd": 0.4, "weighed_tokens": 1000}
        outcome = Outcome(output="spent", agent=usage)
        return Running(iter([Message(outcome=outcome)]), stop=lambda: None)


def test_a_group_shares_the_remaining_cost(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(".playbooks/playbooks/group.yaml", GROUP)
    spender = Spender()
    monkeypatch.setattr("playbook_supervisor.agents.registry.choose", lambda *_: spender)
    limits = Budget(max_turns=7, max_cost_usd=1.0)
    ending = driving.run("group", cwd=project.root, drive=DriveOptions("", limits=limits))
    assert ending.why == "completed"
    assert spender.given["one"] == limits
    for step in ("two", "three"):
        left = spender.given[step]
        assert left.max_turns == 7
        assert left.max_cost_usd == pytest.approx(0.3)


LIMITED = """\
name: limited
description: Limits of the playbook and of a step
version: "1.1"
args: []
limits: {max_turns: 9, max_cost_usd: 1.0, max_tokens: 3000}
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: one, command: /qa.plan}
  - {id: two, command: /qa.plan, max_turns: 20, max_tokens: 500}
"""


def test_the_limits_of_a_playbook_are_kept_and_a_persons_count_instead(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tyr 32; a step's own limits count instead of the playbook's for each step."""
    project.write(".playbooks/playbooks/limited.yaml", LIMITED)
    spender = Spender()
    monkeypatch.setattr("playbook_supervisor.agents.registry.choose", lambda *_: spender)
    assert driving.run("limited", cwd=project.root).why == "completed"
    assert spender.given["one"] == Budget(max_turns=9, max_cost_usd=1.0, max_tokens=3000)
    two = spender.given["two"]
    assert (two.max_turns, two.max_tokens) == (20, 500)
    assert two.max_cost_usd == pytest.approx(0.6)
    drive = DriveOptions("", limits=Budget(max_turns=3, max_tokens=9000))
    driving.run("limited", cwd=project.root, drive=drive)
    assert (spender.given["two"].max_turns, spender.given["two"].max_tokens) == (3, 8000)


def test_the_tested_versions_are_those_that_the_tests_install() -> None:
    """The pinned wheel and that of the Makefile bring them."""
    pinned = Path(__file__).parents[2]
    for text, folder, version in (
        (pinned / "pyproject.toml", Path(sysconfig.get_path("purelib")), TESTED[0]),
        (pinned / "Makefile", Path(sys.prefix) / "newest-client", TESTED[-1]),
    ):
        wheel = re.search(r"claude-agent-sdk==([0-9.]+)", text.read_text("utf-8"))
        assert wheel
        if (folder / f"claude_agent_sdk-{wheel[1]}.dist-info").exists():
            brought = (folder / "claude_agent_sdk/_bundled/claude.version").read_text("utf-8")
            assert version in brought
