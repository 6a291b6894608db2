"""The real clients of other agents, driven by `playbook run --agent NAME`: one table says it all.

What a scenario comes to is the same for all of them, but for what `PECULIAR` gives a reason for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from claude.conversation import Cut, Failure, Pause, Reply, Request, text
from support.scratch_project import FEATURE, Project

from clients import installed
from clients.clients import KINDS, Kind, Seat, command_file
from clients.conftest import Sit
from playbook_supervisor.system.process.process_groups import until

PLAN = f"specs/{FEATURE}/plan.md"
ONE = """\
name: one
description: For a test
version: "1.1"
args: []
steps:
  - id: plan
    command: /speckit.plan
    args: "013 --deep"
    autonomy: auto
    timeout_seconds: 60
    postconditions: [plan_exists]
    error_policy: stop
"""
SECONDS, FEW = 60, 12
"""For a step; and for one whose client tries again by itself for longer than we wait."""
INTERRUPTED = "PB-STATE-INTERRUPTED"


@dataclass(frozen=True)
class Scenario:
    """What the model does, and the code of the failure that comes of it; `then` follows the plan.

    A plan that is written holds the postcondition: only the agent's end can tell what is wrong.
    """

    code: str = ""
    first: Reply | None = None
    then: Reply | None = None
    line: str = ""


SCENARIOS = {
    "success": Scenario(),
    "empty": Scenario("PB-AGENT-EMPTY", first=[]),
    "bad-request": Scenario("PB-AGENT-API", then=Failure(400, "invalid_request_error")),
    "logged-out": Scenario(
        "PB-AGENT-LOGIN", first=Failure(401, "authentication_error", "Incorrect API key")
    ),
    "rate": Scenario(
        "PB-AGENT-RATE",
        then=Failure(429, "rate_limit_error", "Rate limit reached", {"retry-after": "1"}),
    ),
    "broken": Scenario("PB-AGENT-API", then=Failure(500, "api_error")),
    "cut": Scenario("PB-AGENT-API", then=[text("Half a "), Pause(0.2), Cut()]),
    "denied": Scenario("PB-AGENT-PERMISSION", line="touch made.txt"),
}
LATE = "PB-AGENT-TIMEOUT"
_TRIES = (LATE, "it tries for a minute or more, and says nothing meanwhile")
PECULIAR: dict[tuple[str, str], tuple[str, str]] = {
    ("copilot", "empty"): ("PB-AGENT-API", "it calls this an error of the model"),
    ("gemini", "broken"): _TRIES,
    ("gemini", "rate"): _TRIES,
    ("kimi", "broken"): _TRIES,
    ("kimi", "empty"): _TRIES,
    ("kimi", "rate"): ("PB-AGENT-API", "it tells nothing of what its model's server said"),
    ("opencode", "broken"): _TRIES,
    ("qwen", "broken"): _TRIES,
    ("qwen", "empty"): _TRIES,
    ("qwen", "rate"): _TRIES,
    ("vibe", "broken"): _TRIES,
    ("vibe", "rate"): _TRIES,
}
"""Client and scenario → the code that it comes to, and why."""


@dataclass
class Planner:
    """A model that writes the plan, unless a scenario has it do something else."""

    kind: Kind
    project: Project
    scenario: Scenario
    asked: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        if not request.mentions("Do what speckit.plan means") or not request.tools:
            return [text("Aside.")]  # what the client asks for itself: a title, a memory
        self.asked.append(request)
        said = self.scenario
        calls = [
            *([self.kind.runs(said.line, asking=True)] if said.line else ()),
            self.kind.writes(self.project.root / PLAN, "the plan\n"),
        ]
        due = [each for each in calls if each not in request.calls]
        if said.first is not None:
            return said.first
        if due:
            return [text("I go on."), due[0]]
        return [text("The plan is written.\nReally.")] if said.then is None else said.then


@pytest.fixture
def project(name: str, project: Project) -> Project:
    """The command is installed for the client, which may write the plan."""
    project.write(".playbooks/playbooks/one.yaml", ONE)
    project.write(*command_file(name, "speckit.plan"))
    settings(project, name, "Edit")
    return project


def settings(project: Project, name: str, *rules: str, permissions: str = "fail") -> None:
    """What a project allows the client, and what happens to other calls."""
    allowed = ", ".join(f'"{rule}"' for rule in rules)
    text = f"permissions: {permissions}\nagents: {{{name}: {{allowed_tools: [{allowed}]}}}}\n"
    project.write(".playbooks/config.yaml", text)


def agent(entry: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = entry["agent"]
    return found


@pytest.mark.sampled(
    "*-success", "*-denied", "codex-cut", "copilot-empty", "copilot-rate", "kimi-logged-out"
)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", KINDS)
def test_each_scenario_has_its_verdict(
    name: str, scenario: str, project: Project, sit: Sit
) -> None:
    played = SCENARIOS[scenario]
    code, _ = PECULIAR.get((name, scenario), (played.code, ""))
    planner = Planner(KINDS[name], project, played)
    with sit(project, planner, name) as seat:
        one = ONE.replace(f": {SECONDS}", f": {FEW}") if code == LATE else ONE
        project.write(".playbooks/playbooks/one.yaml", one)
        done = project.process("run", "one", "--agent", name)
        (entry,) = project.journal()
        assert (entry["status"], entry.get("error_code", "")) == (
            "failed" if code else "done",
            code,
        ), done.err
        assert done.code == (2 if code else 0)
        assert seat.is_left(), seat.described()
    assert agent(entry)["name"] == name
    if scenario == "success":
        assert entry["output"] == "The plan is written.\nReally."
        assert "013 --deep" in "\n".join(planner.asked[0].texts)
        if name != "gemini":  # its package tells the version, and is not where our wrapper is
            assert agent(entry)["version"] == installed.PINS[name]["version"]
    if scenario == "denied":
        assert "allowed_tools" in done.err
        assert not (project.root / "made.txt").exists()


@pytest.mark.sampled("codex", "copilot")
@pytest.mark.parametrize("name", KINDS)
def test_a_command_that_is_gone_is_not_made_up_by_the_model(
    name: str, project: Project, sit: Sit
) -> None:
    planner = Planner(KINDS[name], project, Scenario())
    with sit(project, planner, name):
        gated = ONE.replace("autonomy: auto", "autonomy: gate_always")
        project.write(".playbooks/playbooks/one.yaml", gated)
        assert project.process("run", "one", "--agent", name).code == 4
        (project.root / command_file(name, "speckit.plan")[0]).unlink()
        (project.root / ".claude/commands/speckit.plan.md").unlink()
        project.playbook("answer", "continue")
        done = project.process("resume")
    assert project.journal()[-1]["error_code"] == "PB-AGENT-COMMAND", done.err
    assert planner.asked == []


@pytest.mark.sampled("codex", "kimi")
@pytest.mark.parametrize("name", [name for name in KINDS if name != "gemini"])  # it asks no one
def test_a_call_is_allowed_later_and_its_conversation_goes_on(
    name: str, project: Project, sit: Sit
) -> None:
    line = "touch made.txt"
    planner = Planner(KINDS[name], project, Scenario(line=line))
    settings(project, name, "Edit", permissions="ask")

    def script(request: Request) -> Reply:
        told = request.tools and "The person has now decided" in request.said
        return [KINDS[name].runs(line, asking=True)] if told else planner(request)

    with sit(project, script, name) as seat:
        halted = project.process("run", "one", "--agent", name)
        assert halted.code == 4, halted.err
        assert project.manifest()["gate"]["reason"] == "permission"
        assert seat.is_left(), seat.described()
        assert not (project.root / "made.txt").exists()
        assert project.playbook("answer", "allow").code == 0
        done = project.process("resume")
        assert done.code == 0, done.err
    assert (project.root / "made.txt").exists()
    assert planner.asked[-1].mentions("I go on.")  # what it said before it was ended
    *before, entry = project.journal()
    assert entry["status"] == "done"
    assert bool(before) == (name == "qwen")  # it forgets the command's text, and begins again


@pytest.mark.sampled("codex")
@pytest.mark.parametrize("name", KINDS)
def test_interrupted_in_a_tool_it_leaves_nothing_and_goes_on(
    name: str, project: Project, sit: Sit
) -> None:
    with held(name, project, sit) as (seat, runner, free):
        runner.send_signal(signal.SIGINT)
        _, err = runner.communicate(timeout=100)
        assert runner.returncode == 130, err
        assert seat.is_left(), seat.described()
        free()
        done = project.process("resume")
        assert done.code == 0, done.err
    first, second = project.journal()
    assert (first["error_code"], second["status"]) == (INTERRUPTED, "done")


@pytest.mark.sampled("copilot")
@pytest.mark.parametrize("name", KINDS)
def test_nothing_outlives_a_runner_that_is_killed(name: str, project: Project, sit: Sit) -> None:
    with held(name, project, sit) as (seat, runner, free):
        runner.kill()
        runner.communicate(timeout=100)
        assert seat.is_left(), seat.described()
        free()
        done = project.process("resume")
        assert done.code == 0, done.err
    assert [each["status"] for each in project.journal()] == ["failed", "done"]


@contextmanager
def held(name: str, project: Project, sit: Sit) -> Iterator[tuple[Seat, Any, Callable[[], None]]]:
    """A run whose client is in a tool that takes long, until the model is set free."""
    slow = KINDS[name].runs("touch begun; sleep 600")
    planner, free = Planner(KINDS[name], project, Scenario()), threading.Event()

    def script(request: Request) -> Reply:
        said = planner(request)
        ours = request in planner.asked
        return said if free.is_set() or request.calls or not ours else [slow]

    with sit(project, script, name) as seat:
        settings(project, name, "Bash", "Edit")
        spoken = name if name in ("codex", "gemini") else f"acp:{name}"  # the same, in full
        with project.spawn("run", "one", "--agent", spoken) as runner:
            begun = until(lambda: (project.root / "begun").exists(), 60)
            if not begun:
                runner.kill()
            assert begun, runner.communicate()
            yield seat, runner, free.set
