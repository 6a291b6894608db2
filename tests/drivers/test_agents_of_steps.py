"""Steps that name their agent: one playbook, several agents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support import acp_agent, directive_lines
from support.bound_session import Conversation
from support.scratch_project import Project

from playbook_supervisor.drivers import detached

# Writes who it is and what it works on; the first attempt of a step called `flaky` fails.
AGENT = """\
#!/bin/sh
cat > /dev/null
echo "NAME works on $PLAYBOOK_DIRECTIVE" | tee -a worked.txt
[ "$PLAYBOOK_DIRECTIVE" != flaky#1 ]
"""
CONFIG = """\
agent: writer
agents:
  writer: {exec: [./agents/writer]}
  checker: {exec: [./agents/checker]}
  absent: {exec: [./agents/absent]}
  helper: {acp: [PYTHON, PROGRAM]}
"""
ASKS = "  - {id: build, command: /asks, agent: helper}\n"
HEAD = """\
name: both
description: Two agents share the work
version: "1.2"
args: [{name: reviewer, description: Who reviews, required: false}]
steps:
"""
BOOK = """\
  - {id: write, command: prompt, with: {text: Write}}
  - {id: test, command: cli true}
  - {id: review, command: prompt, agent: "{{reviewer}}", with: {text: Review}}
  - {id: sign, command: /qa.run, agent: checker}
"""
DECIDES = """\
{python} -m playbook_supervisor abort > said.txt 2>&1
{python} -m playbook_supervisor resume --retry >> said.txt 2>&1
echo tried
"""


@pytest.fixture
def shared(project: Project) -> Project:
    for name in ("writer", "checker"):
        project.write(f"agents/{name}", AGENT.replace("NAME", name)).chmod(0o755)
    config = CONFIG.replace("PYTHON", sys.executable).replace("PROGRAM", acp_agent.__file__)
    project.write(".playbooks/config.yaml", config)
    written(project, BOOK)
    return project


def written(project: Project, steps: str, name: str = "both", **keys: str) -> None:
    text = HEAD.replace("both", name) + steps
    for key, value in keys.items():
        text += f"{key}: {value}\n"
    project.write(f".playbooks/playbooks/{name}.yaml", text)


def worked(project: Project) -> dict[str, str]:
    """The agents in the journal, by the attempts, which are what the agents say as well."""
    entries = project.journal()
    agents = {
        f"{each['step_id']}#{each.get('attempt', 1)}": each["agent"]["name"]
        for each in entries
        if "agent" in each
    }
    file = project.root / "worked.txt"
    said = file.read_text().splitlines() if file.exists() else []
    assert sorted(said) == sorted(f"{who} works on {what}" for what, who in agents.items())
    return agents


# ── which agent ─────────────────────────────────────────────────────────────────────────────


def test_a_step_has_the_agent_that_it_names_and_the_others_that_of_the_run(shared: Project) -> None:
    assert shared.playbook("run", "both", "reviewer=checker").code == 0
    assert worked(shared) == {"write#1": "writer", "review#1": "checker", "sign#1": "checker"}
    assert shared.playbook("audit").code == 0


def test_an_arg_without_a_value_means_the_agent_of_the_run(shared: Project) -> None:
    assert shared.playbook("run", "both", "--agent", "exec:./agents/writer").code == 0
    names = [each["agent"]["name"] for each in shared.journal() if "agent" in each]
    assert names == ["exec", "exec", "checker"]


def test_the_embedded_agent_plays_every_step(shared: Project) -> None:
    script = shared.script("default: {say: played}\n")
    assert shared.playbook("run", "both", "reviewer=absent", "--agent", script).code == 0
    assert {each["agent"]["name"] for each in shared.journal() if "agent" in each} == {"script"}


def test_no_agent_is_needed_but_those_that_are_named(shared: Project) -> None:
    written(shared, "  - {id: sign, command: prompt, agent: checker, with: {text: Sign}}\n")
    shared.write(".playbooks/config.yaml", CONFIG.replace("agent: writer", "agent: absent"))
    assert shared.playbook("run", "both").code == 0
    assert worked(shared) == {"sign#1": "checker"}


def test_groups_loops_retries_and_children_have_several_agents(shared: Project) -> None:
    lines = "  - {id: inner, command: prompt, agent: '{{reviewer}}', with: {text: Look}}\n"
    written(shared, lines, name="child")
    written(
        shared,
        """\
  - {id: a, command: prompt, parallel_group: ab, with: {text: A}}
  - {id: b, command: prompt, parallel_group: ab, agent: checker, with: {text: B}}
  - {id: flaky, command: prompt, agent: checker, error_policy: retry_once, with: {text: C}}
  - id: each
    command: prompt
    agent: checker
    for_each: {in: $reviewer, as: who}
    with: {text: "{{who}}"}
  - id: below
    command: playbook child
    for_each: {in: $reviewer, as: who}
    with: {args: {reviewer: "{{who}}"}}
""",
    )
    assert shared.playbook("run", "both", "reviewer=writer checker").code == 0
    said = sorted((shared.root / "worked.txt").read_text().splitlines())
    assert said == [
        "checker works on b#1",
        "checker works on below[2]#1/inner#1",
        "checker works on each[1]#1",
        "checker works on each[2]#1",
        "checker works on flaky#1",
        "checker works on flaky#2",
        "writer works on a#1",
        "writer works on below[1]#1/inner#1",
    ]


# ── before anything is created ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reviewer", "said"),
    [
        ("chekcer", "step review: there is no agent of the name 'chekcer'; did you mean checker?"),
        ("exec:./agents/writer", "step review: there is no agent of the name 'exec:./agents/wr"),
        ("absent", "step review: the agent absent cannot be used"),
    ],
)
def test_an_agent_that_cannot_work_is_refused_before_anything_is_created(
    shared: Project, reviewer: str, said: str
) -> None:
    refused = shared.playbook("run", "both", f"reviewer={reviewer}")
    assert (refused.code > 0, shared.sessions) == (True, [])
    assert said in refused.err
    planned = shared.playbook("run", "both", f"reviewer={reviewer}", "--dry-run")
    assert planned.code == refused.code
    assert said in planned.out + planned.err


def test_a_worktree_is_not_made_for_an_agent_that_is_not_known(shared: Project) -> None:
    shared.commit("Share the work")
    refused = shared.playbook("start", "both", "reviewer=chekcer", "--branch", "other")
    assert "step review: there is no agent of the name 'chekcer'" in refused.err
    assert "other" not in shared.git("branch", "--list")


def test_each_agent_keeps_the_limits_of_its_own_steps(shared: Project) -> None:
    lines = "  - {id: a, command: prompt, agent: AGENT, max_turns: 3, with: {text: A}}\n"
    written(shared, lines.replace("AGENT", "checker"))
    refused = shared.playbook("run", "both")
    assert (refused.code > 0, shared.sessions) == (True, [])
    assert "checker does not report its usage" in refused.err


def test_a_dry_run_names_the_agent_where_it_differs(shared: Project) -> None:
    planned = shared.playbook("run", "both", "--dry-run")
    assert planned.code == 0
    assert "agent writer" in planned.out
    assert next(line for line in planned.out.splitlines() if "by checker" in line).startswith(" 4")
    shape = shared.playbook("run", "both", "reviewer=checker", "--dry-run", "--json").json
    steps = [step for phase in shape["phases"] for step in phase["steps"]]
    assert [step.get("agent") for step in steps] == [None, None, "checker", "checker"]


# ── what `check` says ───────────────────────────────────────────────────────────────────────


def problems(project: Project) -> list[tuple[str, str, str]]:
    checked = project.playbook("check", "--json").json
    return [
        (each["severity"], each["code"], each["message"])
        for file in checked["files"]
        for each in file["problems"]
        if file["file"].endswith("both.yaml") and each["code"] != "PB-CHECK-LINT-UNSEEN"
    ]


def test_check_knows_the_agents_of_the_settings_and_of_this_machine(shared: Project) -> None:
    assert problems(shared) == []
    written(shared, "  - {id: a, command: prompt, agent: checkr, with: {text: A}}\n")
    ((severity, code, message),) = problems(shared)
    assert (severity, code) == ("error", "PB-CHECK-AGENT")
    assert "did you mean checker" in message
    written(shared, "  - {id: a, command: prompt, agent: '{{reviewer}}', with: {text: A}}\n")
    file = shared.root / ".playbooks/playbooks/both.yaml"
    file.write_text(file.read_text().replace("required: false", "required: false, default: absent"))
    ((severity, code, message),) = problems(shared)
    assert (severity, code) == ("warning", "PB-CHECK-MACHINE")
    assert "the agent absent cannot be used" in message


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("  - {id: a, command: cli true, agent: x}\n", "no meaning for a `cli` command"),
        ("  - {id: a, command: /qa.run, agent: 'x{{reviewer}}'}\n", "is not a valid `agent`"),
        (
            "  - {id: a, command: /qa.run, agent: '{{who}}', for_each: {in: $reviewer, as: who}}\n",
            "`{{who}}` is not a declared arg",
        ),
    ],
)
def test_the_name_stands_where_an_agent_works_and_is_known_before(
    shared: Project, steps: str, said: str
) -> None:
    written(shared, steps)
    assert any(said in message for _, _, message in problems(shared)), problems(shared)


# ── inside a client ─────────────────────────────────────────────────────────────────────────


def directive(said: str) -> Any:
    return directive_lines.in_text(said)[0]


@pytest.fixture
def conversation(shared: Project) -> Iterator[Conversation]:
    with Conversation(shared) as conversation:
        yield conversation


def test_in_a_client_the_step_of_another_agent_is_carried_out_beside_it(
    shared: Project, conversation: Conversation
) -> None:
    written(
        shared,
        """\
  - {id: sign, command: /qa.run, agent: checker}
  - {id: plan, command: /qa.plan, parallel_group: p}
  - {id: look, command: prompt, agent: checker, parallel_group: p, with: {text: Look}}
  - {id: own, command: /qa.plan, agent: claude}
""",
    )
    due = directive_lines.told(conversation.types("run", "both"))
    assert (due["directive"], due["steps"]) == ("wait", ["sign#1"])
    called: dict[str, Any] = {"tool_name": "Agent", "tool_use_id": "use", "tool_input": {}}
    called["tool_input"] = {"prompt": "sign#1", "description": "sign#1"}
    denied = conversation.hook("PreToolUse", **called)["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    due = directive(conversation.runs("next", "--wait").out)
    assert (due["directive"], [step["id"] for step in due["steps"]]) == ("run", ["plan#1"])
    conversation.works("plan#1", "qa.plan")
    due = directive(conversation.runs("next", "--wait").out)
    assert [step["id"] for step in due["steps"]] == ["own#1"]
    conversation.works("own#1", "qa.plan")
    names = {each["step_id"]: each["agent"]["name"] for each in shared.journal()}
    assert names == {"sign": "checker", "plan": "claude-code", "look": "checker"} | {
        "own": "claude-code"
    }
    assert shared.playbook("audit").code == 0


def test_by_commands_such_an_agent_asks_and_waits_too(
    shared: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of the detached process, done in a thread of this one."""
    with ThreadPoolExecutor(1) as beside:
        monkeypatch.setattr(detached, "run_detached", beside.submit)
        written(shared, ASKS)
        shared.playbook("begin", "both")
        asked = shared.playbook("next", "--wait", "--json").json
        assert (asked["directive"], asked["gate"]["reason"]) == ("ask", "permission")
        assert shared.playbook("answer", "allow").code == 0
        assert shared.playbook("next", "--wait", "--json").json["directive"] == "finish"
    (entry,) = shared.journal()
    assert (entry["status"], entry["agent"]["name"]) == ("done", "helper")


def test_in_a_client_such_an_agent_decides_nothing(
    shared: Project, conversation: Conversation
) -> None:
    shared.write("agents/checker", "#!/bin/sh\n" + DECIDES.format(python=sys.executable))
    written(
        shared,
        """\
  - {id: gate, command: prompt, parallel_group: g, agent: checker, with: {text: Look}}
  - {id: ask, command: cli true, parallel_group: g, autonomy: gate_always}
""",
    )
    conversation.types("run", "both")
    conversation.hook("UserPromptSubmit", prompt="continue")
    conversation.runs("next", "--wait")
    said = shared.read("said.txt")
    assert said.count("[PB-STATE-HUMAN-ONLY]") == 2
    assert shared.journal()[0]["status"] == "done"


@pytest.mark.parametrize("reviewer", ["absent"])
def test_a_client_begins_nothing_without_that_agent(
    shared: Project, conversation: Conversation, reviewer: str
) -> None:
    told = conversation.types("run", f"both reviewer={reviewer}")
    assert f"{reviewer}" in str(told)
    assert shared.sessions == []
