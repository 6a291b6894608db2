"""The agent `claude`: the real client, headless, driven by the runner against a scripted model."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.in_process import Result
from support.scratch_project import Project

from claude.conversation import (
    OVERLOADED,
    Block,
    Failure,
    Reply,
    Request,
    call,
    text,
)
from claude.runner import Headless, after, command_of, works
from claude.scripts import FILES
from claude.streams import AT_ONCE, SUBSCRIBED, limit
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.project.settings.config import Claude, Config
from playbook_supervisor.testing import AGENT_CHECKS, AgentCheck

ASK = """\
name: ask
description: Ask for a review
version: "1.1"
args: [{name: file, description: What to review, required: true}]
steps:
  - {id: ask, command: prompt, with: {text: "Review {{file}}."}, autonomy: auto, error_policy: stop}
"""


def failed(project: Project, done: Result, code: str) -> dict[str, Any]:
    """The one entry of a run that failed so."""
    assert done.code == 2, done.err
    (entry,) = project.journal()
    assert (entry["status"], entry["error_code"]) == ("failed", code)
    assert entry["agent"]["name"] == "claude"
    assert entry["error"] in done.err
    return entry


# ── what it does ────────────────────────────────────────────────────────────────────────────


def test_each_command_is_expanded_natively_in_a_process_of_its_own(
    headless: Headless, project: Project
) -> None:
    """kai FR20; cat FR-10.1. What stands behind a command reaches it as it is: no option, no shell.

    The project's hooks for sessions in the interface let a headless worker be.
    """
    assert project.playbook("init", "--yes").code == 0
    client = headless(works)
    done = project.playbook("run", "straight")
    assert done.code == 0, done.err
    journal = project.journal()
    assert [entry["status"] for entry in journal] == ["done"] * 2
    first, second = (entry["agent"] for entry in journal)
    assert first == {
        "name": "claude",
        "id": client.model.main[0].session,
        "model": client.model.main[0].model,
        "cost_usd": 0.00003,
        "input_tokens": 200,
        "output_tokens": 20,
        "turns": 2,
    }
    assert (second["name"], second["id"] != first["id"]) == ("claude", True)
    assert journal[-1]["output"] == "speckit.tasks is done.\nReally."
    expanded = [request.prompt for request in client.model.main if not request.calls]
    assert "Do what speckit.tasks means.\n\n--all of 'it'\n" in expanded[1]


@pytest.mark.smoke
def test_its_output_arrives_while_it_runs(headless: Headless, project: Project) -> None:
    """Catalyst NFR-1.3. And a step's own model, with what a child must not know left out."""
    looks = [call("Bash", command="printenv CLAUDE_CODE_MESSAGING_TOKEN TRACEPARENT")]
    rules = 'agents: {claude: {allowed_tools: ["Bash(printenv *)"]}}\n'
    project.write(".playbooks/config.yaml", rules)
    enclosing = {"CLAUDECODE": "1", "CLAUDE_CODE_MESSAGING_TOKEN": "outer", "TRACEPARENT": "00-a"}
    client = headless(lambda request: works(request) if request.calls else looks, **enclosing)
    done = project.playbook("run", "one", "--log-level", "debug")
    assert "Bash printenv" in done.err
    seen = client.model.main[1].results[0].text
    assert "outer" not in seen
    assert seen.endswith("00-a")
    assert "haiku" in client.model.main[0].model
    assert project.journal()[0]["agent"]["model"] == client.model.main[0].model


def test_a_command_that_is_gone_is_not_made_up_by_the_model(
    headless: Headless, project: Project
) -> None:
    client = headless(works)
    assert project.playbook("run", "two").code == 4
    (project.root / ".claude/commands/speckit.tasks.md").unlink()
    asked = len(client.model.requests)
    project.playbook("answer", "continue")
    assert project.playbook("resume").code == 2
    entry = project.journal()[1]
    assert entry["error_code"] == "PB-AGENT-COMMAND"
    assert entry["error"].startswith("Claude Code offers no command /speckit.tasks here")
    assert [command_of(request) for request in client.model.requests[asked:]] in ([], [""])


def test_a_prompt_step_reads_and_changes_nothing_even_if_the_config_allows_it(
    headless: Headless, project: Project
) -> None:
    """cat FR-4.2, FR-5.4: its tools are read-only unless the step names others."""
    project.write(".playbooks/config.yaml", 'agents: {claude: {allowed_tools: ["Bash", "Write"]}}')
    project.write(".playbooks/playbooks/ask.yaml", ASK)
    tries = [call("Write", file_path="made", content="x"), call("Bash", command="touch made")]
    client = headless(lambda request: [text("It is fine.")] if request.calls else tries)
    done = project.playbook("run", "ask", "README.md")
    assert done.code == 0, done.err
    assert client.model.main[0].prompt.endswith("Review README.md.")
    offered = set(client.model.main[0].tools)
    assert {"Glob", "Grep", "Read"} <= offered
    assert offered.isdisjoint({"Bash", "Edit", "Write", "Agent", "WebFetch"})
    assert not (project.root / "made").exists()
    (entry,) = project.journal()
    assert entry["output"] == "It is fine."


def test_what_it_starts_can_neither_decide_nor_stay(headless: Headless, project: Project) -> None:
    """Not even with another environment, and a session and a parent of its own."""
    rules = 'agents: {claude: {allowed_tools: ["Bash"]}}\n'
    project.write(".playbooks/config.yaml", rules)
    bare = "env -u PLAYBOOK_WORKER -u PLAYBOOK_DIRECTIVE -u CLAUDECODE"
    abort = f"{bare} {sys.executable} -m playbook_supervisor abort"
    stay = "(setsid sleep 600 </dev/null >/dev/null 2>&1 &)"
    tries = [call("Bash", command=f"{stay}; {abort}; {abort} -m 'Ada said so' 2>&1")]
    client = headless(lambda request: works(request) if request.calls else tries)
    done = project.playbook("run", "one")
    failed(project, done, "PB-COND-POSTCONDITION")  # it wrote nothing, and nothing was aborted
    told = client.model.main[1].results[0].text
    assert told.count("PB-STATE-HUMAN-ONLY") == 2, told
    assert "but the agent of plan#1 in session" in told
    assert "plan#1: it left processes behind, which were ended: sleep (" in done.err


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────


def test_a_denial_shows_the_line_to_add_and_with_it_the_step_is_done(
    headless: Headless, project: Project
) -> None:
    headless(
        lambda request: (
            [text("done")]
            if len(request.calls) > 1
            else [call("Write", file_path=FILES["speckit.plan"][0], content="plan")]
            if request.calls
            else [call("Bash", command="npm test")]
        )
    )
    project.write(".playbooks/config.yaml", "permissions: fail\n")
    denied = project.playbook("run", "one")
    entry = failed(project, denied, "PB-AGENT-PERMISSION")
    assert entry["error"] == "claude was not permitted: Bash npm test"
    assert f"plan#1: {entry['error_guidance']}\n" in denied.err
    assert entry["error_guidance"] in project.playbook("show").out
    line = re.search(r"`(allowed_tools: .*?)`", entry["error_guidance"])
    assert line
    settings = f"permissions: fail\nagents:\n  claude:\n    {line[1]}\n"
    project.write(".playbooks/config.yaml", settings)
    done = project.playbook("resume", "--retry", "--accept-config")
    assert done.code == 0, done.err


def test_what_the_server_could_not_do_is_tried_again_before_the_first_tool(
    headless: Headless, project: Project
) -> None:
    """cat NFR-2.1."""
    client = headless(after(OVERLOADED), **AT_ONCE)
    done = project.playbook("run", "one", "--log-level", "debug")
    assert done.code == 0, done.err
    assert "529 Overloaded" in done.err
    assert "trying again in 1 s" in done.err
    assert project.journal()[0]["agent"]["retries"] == 1
    assert len({request.session for request in client.model.main}) == 2


# ── limits ──────────────────────────────────────────────────────────────────────────────────

WAITS = "agents: {claude: {wait_for_limit: true}}\n"


@pytest.mark.sampled("before-work")
@pytest.mark.parametrize("begun", [False, True], ids=["before-work", "in-the-middle"])
def test_a_usage_limit_is_waited_for_where_the_config_says_so(
    begun: bool, headless: Headless, project: Project
) -> None:
    """What had begun continues where it was: nothing is done twice."""
    project.write(".playbooks/config.yaml", WAITS)
    resets: list[int] = []
    limited_at = 2 if begun else 1

    def script(request: Request) -> Reply:
        if request.number != limited_at:
            return works(request)
        resets.append(int(time.time()) + 4)
        return limit(resets[0])

    client = headless(script, **SUBSCRIBED)
    done = project.playbook("run", "one", "--timeout", "100")
    assert done.code == 0, done.err
    assert "note: plan#1: usage limit: waiting until" in done.err  # not after hours of silence
    assert int(time.time()) >= resets[0]
    (entry,) = project.journal()
    assert "retries" not in entry["agent"]
    assert entry["agent"]["input_tokens"] == 200
    sessions = {request.session for request in client.model.main}
    assert len(sessions) == (1 if begun else 2)
    assert client.model.main[-1].called("Write") == 1


def test_the_cost_limit_of_a_run_is_remembered_until_another_is_given(
    headless: Headless, project: Project
) -> None:
    """tyr 32: the journal has the cost so far, so another process continues to count."""
    headless(works)
    assert project.playbook("run", "two", "--max-cost-usd", "0.000031").code == 4
    assert project.journal()[0]["agent"]["cost_usd"] == 0.00003
    project.playbook("answer", "continue")
    stopped = project.playbook("resume")
    assert stopped.code == 2
    assert project.journal()[1]["error_code"] == "PB-AGENT-BUDGET"
    assert project.playbook("resume", "--retry").code == 2
    assert project.journal()[2]["agent"] == {"name": "claude"}  # no further question was asked
    # The client may have carried out a call before it looked at its purse.
    (project.root / FILES["speckit.tasks"][0]).unlink(missing_ok=True)
    done = project.playbook("resume", "--retry", "--max-cost-usd", "1")
    assert done.code == 0, done.err


# ── what every agent promises ───────────────────────────────────────────────────────────────

CONFORMING: dict[str, Reply] = {
    "works": [call("Write", file_path="works.txt", content="done\n")],
    "fails": Failure(400, "invalid_request_error"),
    "dies": [call("Bash", command="kill -9 $CLAUDE_PID", description="die")],
    "hangs": [text("I begin."), call("Bash", command="exec flock hangs.lock sleep 600")],
    "shouts": [text("\n".join("A" * 100 for _ in range(100)))],
    "colours": [text("\x1b]0;title\x07\x1b[31mred\x1b[0m\u202e and more")],
}
_SAID: list[Block] = [text("It works.")]


@pytest.mark.sampled("every_process_*", "stopping_ends_*")
@pytest.mark.parametrize("check", AGENT_CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_what_every_agent_promises(
    check: AgentCheck, headless: Headless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cat FR-5.5, FR-10.4, E-4."""
    client = headless(lambda request: _SAID if request.calls else CONFORMING[command_of(request)])
    for name in CONFORMING:
        command = client.home / f".claude/commands/{name}.md"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"Do what {name} means.\n")
    for name, value in client.environment.items():
        monkeypatch.setenv(name, value)
    assert os.environ["PATH"].startswith(str(client.scratch))
    check(choose("claude", Config(claude=Claude(allowed_tools=("Bash",))), tmp_path), tmp_path)


@pytest.mark.sampled("cost")
@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--max-turns", "1"), "it reached its limit on turns"),
        (("--max-cost-usd", "0.0001"), "it reached its limit on cost in USD: "),
        (("--max-tool-calls", "1"), "it reached its limit on tool calls: 2 of 1"),
    ],
    ids=["turns", "cost", "tool-calls"],
)
def test_a_budget_is_kept(
    option: tuple[str, str], told: str, headless: Headless, project: Project
) -> None:
    """tyr 32."""
    headless(lambda request: [call("Read", file_path="README.md")])
    entry = failed(project, project.playbook("run", "one", *option), "PB-AGENT-BUDGET")
    assert told in entry["error"]
