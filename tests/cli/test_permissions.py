"""Agents that ask in the middle of a step: permissions and questions as gates of a real run."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from support.scratch_project import Project

from cli.terminal import Terminal
from playbook_supervisor.agents.script import ScriptAgent

BOOK = """\
name: ask
description: Build, and clarify what is not clear
version: "1.0"
args: []
steps:
  - {id: build, command: /do.build, args: "", autonomy: auto, error_policy: stop, GROUP}
  - {id: clarify, command: /do.clarify, args: "", autonomy: auto, error_policy: stop, GROUP}
  - {id: end, command: /do.end, args: "", autonomy: auto, error_policy: stop}
"""
ASKS = """\
steps:
  build:
    ask: {permission: {tool: Bash, input: {command: npm test}}}
    denied: {fail: "no tests: {{reply}}"}
    say: the tests are green
    write: {built.md: "{{reply}}"}
  clarify:
    ask: {question: {question: Which shell?, options: [bash, {label: zsh, description: the other}]}}
    say: "it is for {{reply}}{{feedback}}"
  end:
    ask: {permission: {tool: Bash, input: {command: npm test}}}
    say: bye
"""
ABOVE = """\
name: above
description: Run another
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: go, command: playbook ask}
"""
QUESTION = "wants to run `npm test` (build#1): allow once, allow for this session, or deny?"


def asking(project: Project, *, grouped: bool = False) -> Project:
    text = BOOK.replace(", GROUP", ", parallel_group: g" if grouped else "")
    project.write(".playbooks/playbooks/ask.yaml", text)
    for name in ("build", "clarify", "end"):
        project.write(f".claude/commands/do.{name}.md", "Do it.\n")
    return project


@pytest.fixture
def ask(project: Project) -> Project:
    return asking(project)


@pytest.fixture
def group(project: Project) -> Project:
    return asking(project, grouped=True)


def run(project: Project, *args: str, code: int = 4) -> str:
    done = project.playbook("run", "ask", "--agent", project.script(ASKS), *args)
    assert done.code == code, done.err
    return done.err


def answer(project: Project, *words: str, code: int = 4) -> str:
    """Answer the gate and resume, in processes of their own; what resume said."""
    answered = project.playbook("answer", *words)
    assert answered.code == 0, answered.err
    resumed = project.playbook("resume")
    assert resumed.code == code, resumed.err
    return resumed.err


def gates(project: Project) -> list[tuple[str, str]]:
    return [
        (gate["id"], gate.get("resolution", ""))
        for entry in project.journal()
        for gate in entry.get("gates", [])
    ]


def test_a_permission_and_a_question_wait_at_gates_and_the_steps_go_on(ask: Project) -> None:
    said = run(ask)
    assert QUESTION in said
    assert "command: npm test" in said
    assert 'to allow it for good, add "Bash(npm test *)" to `allowed_tools`' in said
    assert "answer: playbook answer allow (or always, deny or abort), then playbook resume" in said
    asked = answer(ask, "allow")
    assert "asks (clarify#1): Which shell?" in asked
    assert "2. zsh: the other" in asked
    assert 'playbook answer "…" (the number of an option' in asked
    again = answer(ask, "2")
    assert "npm test` (end#1)" in again
    answer(ask, "always", code=0)
    assert gates(ask) == [
        ("build#1?1", "allow"),
        ("clarify#1?1", "answer"),
        ("end#1?1", "always"),
    ]
    assert [entry.get("attempt", 1) for entry in ask.journal()] == [1, 1, 1]
    assert ask.playbook("audit").code == 0


def test_a_denial_reaches_the_agent_with_its_words(ask: Project) -> None:
    run(ask)
    said = answer(ask, "deny: use pnpm", code=2)
    assert "no tests: deny: use pnpm" in said
    assert gates(ask) == [("build#1?1", "deny")]
    assert ask.journal()[0]["gates"][0]["text"] == "deny: use pnpm"


def test_the_members_of_a_group_ask_one_after_the_other_and_one_of_them_may_end(
    group: Project,
) -> None:
    run(group)
    assert gates(group) == [("build#1?1", ""), ("clarify#1?1", "")]
    answer(group, "allow")
    assert gates(group) == [("build#1?1", "allow"), ("clarify#1?1", "")]
    assert group.journal()[0]["output"] == "the tests are green"
    answer(group, "zsh")
    answer(group, "allow", code=0)


def test_a_program_approves_a_permission_with_its_token_and_no_question(ask: Project) -> None:
    first = ask.playbook("run", "ask", "--agent", ask.script(ASKS), "--json").json
    second = ask.playbook("resume", "--token", token_of(first), "--approve", "--json").json
    assert ask.journal()[0]["gates"][0]["text"] == "allow, by token"
    refused = ask.playbook("resume", "--token", token_of(second), "--approve")
    assert (refused.code, "which takes words" in refused.err) == (3, True)
    answer(ask, "zsh")


def token_of(envelope: dict[str, Any]) -> str:
    return str(envelope["requiresApproval"]["resumeToken"])


def test_what_a_policy_forbids_is_denied_without_a_question(ask: Project) -> None:
    ask.write(
        ".playbooks/policies/calls.yaml",
        "- {match: {step: build}, forbid: ['Bash(npm test *)']}\n"
        "- {match: {step: clarify}, reason: question, answered_by: ['*@release.example.org']}\n",
    )
    assert ask.playbook("check").code == 0
    planned = ask.playbook("run", "ask", "--dry-run")
    assert "never Bash(npm test *)" in planned.out
    assert "question answered by *@release.example.org" in planned.out
    said = run(ask, code=2)
    assert "no tests: deny: a policy forbids it" in said
    assert gates(ask) == []


def test_a_policy_says_who_may_answer_a_question(ask: Project) -> None:
    ask.write(
        ".playbooks/policies/calls.yaml",
        "{match: {step: clarify}, reason: question, answered_by: ['*@release.example.org']}\n",
    )
    run(ask)
    assert "answered by: *@release.example.org (policy calls.yaml)" in answer(ask, "allow")
    refused = ask.playbook("answer", "zsh")
    assert (refused.code, "PB-POLICY-ANSWER" in refused.err) == (3, True)
    ask.git("config", "user.email", "rita@release.example.org")
    answer(ask, "zsh")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{match: {step: a}, reason: permission}", "needs `answered_by` beside it"),
        ("{match: {step: a}, forbid: ['git push']}", "`git push` is no rule for a call"),
    ],
)
def test_a_faulty_rule_about_calls_is_reported(ask: Project, rule: str, said: str) -> None:
    ask.write(".playbooks/policies/calls.yaml", f"{rule}\n")
    checked = ask.playbook("check", ".playbooks/policies/calls.yaml")
    assert (checked.code, said in checked.out + checked.err) == (1, True), checked.err


def test_permissions_can_fail_as_before(ask: Project) -> None:
    ask.write(".playbooks/config.yaml", "permissions: fail\n")
    said = run(ask, code=2)
    assert "script was not permitted: Bash npm test" in said
    assert gates(ask) == []


def test_a_person_at_the_terminal_is_asked_while_the_agent_waits(group: Project) -> None:
    agent = group.script(ASKS)
    with Terminal(group, "run", "ask", "--agent", agent) as terminal:
        terminal.until("allow, always, deny or abort > ")
        terminal.type("hm\n")
        terminal.until("Please answer allow, always, deny or abort.")
        terminal.type("always\n")
        terminal.until("the number of an option, words of your own, or abort > ")
        terminal.type("fish\n")
        assert terminal.end() == 0, terminal.shown
    assert gates(group) == [("build#1?1", "always"), ("clarify#1?1", "answer")]
    assert group.journal()[1]["output"] == "it is for fish"


def test_an_abort_from_elsewhere_ends_what_runs_and_what_waits(group: Project) -> None:
    group.write(".playbooks/playbooks/above.yaml", ABOVE)
    script = group.script(f"{ASKS}".replace('say: "it is for {{reply}}{{feedback}}"', "hang: true"))
    runner = group.spawn("run", "above", "--agent", script, "--patience", "60")
    wait_for_gate(group, "go#1/build#1?1")
    assert group.playbook("answer", "abort").code == 0
    _, err = runner.communicate(timeout=60)
    assert runner.returncode == 2, err
    assert "aborted" in str(err)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_runner_that_is_ended_while_it_waits_loses_no_question(
    ask: Project, number: signal.Signals
) -> None:
    runner = ask.spawn("run", "ask", "--agent", ask.script(ASKS), "--patience", "60")
    wait_for_gate(ask, "build#1?1")
    runner.send_signal(number)
    runner.communicate(timeout=60)
    assert gates(ask) == [("build#1?1", "")]
    answer(ask, "allow")
    assert gates(ask) == [("build#1?1", "allow"), ("clarify#1?1", "")]
    assert len(ask.journal()) == 2


def test_an_agent_that_cannot_continue_gets_the_answer_in_a_new_attempt(
    ask: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on another machine, where the conversation is not to be had."""
    run(ask)
    monkeypatch.setattr(ScriptAgent, "can_continue", lambda *_: False)
    answer(ask, "allow")
    attempts = [(entry["step_id"], entry.get("error_code", "")) for entry in ask.journal()]
    assert attempts == [("build", "PB-STATE-INTERRUPTED"), ("build", ""), ("clarify", "")]
    assert gates(ask) == [("build#1?1", "allow"), ("clarify#1?1", "")]
    answer(ask, "fish, as ever")
    told = ask.journal()[3]["output"]
    assert " You asked: Which shell? A person answered: fish, as ever " in told


def wait_for_gate(project: Project, gate: str) -> None:
    import time

    end = time.monotonic() + 60
    while time.monotonic() < end:
        shown = project.playbook("status", "--json")
        waiting = [each.get("gate") or {} for each in shown.json.get("sessions", [])]
        if any(each.get("id") == gate for each in waiting):
            return
        time.sleep(0.05)
    raise AssertionError(f"{gate} is not open: {project.playbook('status').out}")


def test_the_directive_names_what_goes_on(ask: Project) -> None:
    run(ask)
    gate = json.loads(ask.playbook("next", "--json").out)["gate"]
    assert gate["request"]["rule"] == "Bash(npm test *)"
    assert gate["choices"] == ["allow", "always", "deny", "abort"]
    ask.playbook("answer", "allow")
    (member,) = json.loads(ask.playbook("next", "--json").out)["steps"]
    assert member["continues"] is True
