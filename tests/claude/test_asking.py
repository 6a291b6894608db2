"""The agent `claude` asks a person, through the control protocol of the real client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude.client import Client
from claude.conversation import Block, text
from claude.conversation import Reply as Said
from claude.conversation import Request as Asked
from claude.conversation import call as tool_call
from claude.model import Script
from claude.runner import Headless, command_of
from playbook_supervisor.agents.protocol import Agent, Call, Reply, Request, carry_out
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.testing import ASKING_CHECKS, AgentCheck, call_for

MADE = "sh -c 'touch made'"
TOUCH = tool_call("Bash", command=MADE, description="make it")
ALLOW, ALWAYS = Reply("allow"), Reply("always")
SHELL = {
    "question": "Which shell?",
    "header": "Shell",
    "multiSelect": False,
    "options": [
        {"label": "bash", "description": "the old one"},
        {"label": "zsh", "description": "the new one"},
    ],
}


Put = Callable[[Script], Client]


class Person:
    """Replies in this order, and puts off what comes after; `asked` is what was shown."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> Reply | None:
        self.asked.append(request)
        return self._replies.pop(0) if self._replies else None

    @property
    def subjects(self) -> list[str]:
        return [request.shape["subject"] for request in self.asked]


@pytest.fixture
def agent() -> Agent:
    return choose("claude", Config(), Path("/"))


@pytest.fixture
def planning(project: Project, tmp_path: Path) -> Call:
    """A call of a command of the project, with an environment that `put` completes."""
    call = call_for("speckit.plan", tmp_path / "call")
    return replace(call, cwd=project.root)


@pytest.fixture
def put(headless: Headless, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put the client on our own PATH, with this model behind it."""

    def client(script: Script) -> Client:
        made = headless(script)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        return made

    return client


def carried_out(agent: Agent, call: Call, person: Person) -> Outcome:
    return carry_out(agent, replace(call, ask=person), lambda line: None)


def calls(*blocks: Block) -> Script:
    """A model that makes these calls, one in a turn, and tells what came of the last."""
    return turns(*([block] for block in blocks))


def turns(*replies: Said) -> Script:
    """A model that says these, one in a turn, and tells what came of the last.

    A call that was interrupted is made again.
    """

    def script(request: Asked) -> Said:
        if not request.tools:
            return [text("a title")]
        done = sum(
            not result.is_error or ("STOP" not in result.text and "interrupted" not in result.text)
            for result in request.all_results
        )
        said = 0
        for reply in replies:
            if done <= said:
                return reply
            said += len(reply)  # type: ignore[arg-type]
        return [text(f"I was told: {request.all_results[-1].text}")]

    return script


def made(project: Project, name: str = "made") -> bool:
    return (project.root / name).exists()


# ── permissions ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled("put_off_it_ends_and_continues")
@pytest.mark.parametrize("check", ASKING_CHECKS, ids=lambda check: check.__name__)
def test_claude_passes_every_check_of_an_agent_that_asks(
    check: AgentCheck, put: Put, agent: Agent, project: Project, tmp_path: Path
) -> None:
    put(calls(tool_call("Bash", command="sh -c 'touch asks.txt'")))
    shutil.copytree(project.root, tmp_path / "check/repository")
    command = tmp_path / "check/repository/.claude/commands/asks.md"
    command.write_text("Write asks.txt.")
    check(agent, tmp_path / "check")


def test_each_decision_is_obeyed_and_the_command_expanded(
    put: Put, agent: Agent, planning: Call, project: Project
) -> None:
    """Allowed once it is asked for again; always holds for the rest of the process; the words of
    a denial reach the model; and a question is answered by a label."""
    again = tool_call("Bash", command="sh -c 'touch again'")
    denied = tool_call("Bash", command="make test")
    client = put(
        calls(TOUCH, TOUCH, again, denied, tool_call("AskUserQuestion", questions=[SHELL]))
    )
    person = Person(ALLOW, ALWAYS, Reply("deny", "use npm instead"), Reply("answer", "ZSH"))
    outcome = carried_out(agent, planning, person)
    assert outcome.ok, outcome.error
    assert (made(project), made(project, "again")) == (True, True)
    assert command_of(client.model.main[0]) == "speckit.plan"
    assert person.subjects == [MADE, MADE, "make test", "Which shell?"]
    assert "use npm instead" in client.model.results_of(denied)[0].text
    assert '"Which shell?"="zsh"' in outcome.output
    assert [request.kind for request in person.asked] == [*["permission"] * 3, "question"]
    shape = dict(person.asked[0].shape)
    assert len(shape.pop("digest")) == 64
    assert shape.pop("conversation") == client.model.main[0].session
    assert shape == {
        "who": "Claude",
        "tool": "Bash",
        "subject": MADE,
        "input": '{"command":"sh -c \'touch made\'","description":"make it"}',
        "rule": "Bash(sh *)",
        "description": "make it",
    }


def test_rules_of_the_session_of_policies_and_of_the_project_decide_unasked(
    put: Put, agent: Agent, planning: Call, project: Project
) -> None:
    refuse = '{"decision": "block", "reason": "not here"}'
    hook = {"type": "command", "command": f"grep -q second && echo '{refuse}' || true"}
    settings = {
        "permissions": {"deny": ["Bash(sh -c 'touch third')"]},
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]},
    }
    project.write(".claude/settings.json", json.dumps(settings))
    commands = ("git push origin main", "sh -c 'touch second'", "sh -c 'touch third'")
    put(calls(*(tool_call("Bash", command=each) for each in commands), TOUCH))
    person = Person()
    call = replace(planning, allowed_rules=("Bash(sh *)",), forbidden_rules=("Bash(git push *)",))
    outcome = carried_out(agent, call, person)
    assert outcome.ok, outcome.error
    assert person.asked == []
    assert [made(project, name) for name in ("made", "second", "third")] == [True, False, False]


# ── put off, and continued ──────────────────────────────────────────────────────────────────


def continued(planning: Call, person: Person, reply: Reply) -> Call:
    shape = person.asked[-1].shape
    return replace(planning, conversation=shape["conversation"], replies={shape["digest"]: reply})


def test_of_two_calls_that_were_put_off_none_is_lost(
    put: Put, agent: Agent, planning: Call, project: Project
) -> None:
    second = tool_call("Bash", command="sh -c 'touch second'")
    put(turns([TOUCH, second]))
    person = Person()
    carried_out(agent, planning, person)
    assert len(person.asked) == 1
    others = Person(ALLOW)
    outcome = carried_out(agent, continued(planning, person, ALLOW), others)
    assert outcome.ok, outcome.error
    assert len({*person.subjects, *others.subjects}) == 2
    assert made(project)
    assert made(project, "second")


def test_a_subagent_that_was_put_off_is_started_again(
    put: Put, agent: Agent, planning: Call, project: Project
) -> None:
    dispatch = tool_call("Agent", description="make it", prompt="Make it.")

    def script(request: Asked) -> Said:
        if request.agent:
            return [text("made")] if request.all_results else [TOUCH]
        wanted = 2 if request.mentions("start it again") else 1
        return [dispatch] if request.called("Agent") < wanted else [text("It is made.")]

    put(script)
    person = Person()
    outcome = carried_out(agent, planning, person)
    assert outcome.error is not None
    assert "put off" in outcome.error.message
    asked_again = Person()
    outcome = carried_out(agent, continued(planning, person, ALLOW), asked_again)
    assert outcome.ok, outcome.error
    assert (len(person.asked), asked_again.asked, made(project)) == (1, [], True)
    assert person.asked[0].shape["agent"]
