"""The embedded agent asks a person: what it asks, and what it does with the reply."""

from __future__ import annotations

import json
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from playbook_supervisor.agents.protocol import (
    Agent,
    Call,
    Reply,
    Request,
    asks,
    can_continue,
    carry_out,
)
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.errors import AgentError
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.testing import ASKING_CHECKS, AgentCheck, call_for

TESTS = """\
steps:
  plan:
    ask: {permission: {tool: Bash, input: {command: npm test -- --watch}}}
    denied: {fail: "{{reply}}"}
    say: "{{reply}}, so I tested"
"""
CLARIFY = """\
steps:
  plan:
    ask:
      question:
        - {question: Which shell?, header: Shell, options: [bash, {label: zsh, description: new}]}
        - {question: Which tests?, options: [all, some], multiple: true}
    say: "{{reply}}"
"""
TWICE = """\
steps:
  plan:
    ask:
      - {permission: {tool: Bash, input: {command: npm test}}}
      - {permission: {tool: Write, input: {file_path: notes.md, content: secret words}}}
    write: {made.txt: "{{reply}}"}
"""
CONFORMING = """\
steps:
  asks:
    ask: {permission: {tool: Write, input: {file_path: asks.txt}}}
    denied: {say: it is not written}
    write: {asks.txt: written}
"""
ALLOW, ALWAYS = Reply("allow"), Reply("always")

Write = Callable[[str], Agent]


@pytest.fixture
def agent(tmp_path: Path) -> Write:
    """An agent with this script."""

    def write(text: str) -> Agent:
        file = tmp_path / "script.yaml"
        file.write_text(textwrap.dedent(text))
        return choose(f"script:{file}", Config(), tmp_path)

    return write


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return call_for("plan", tmp_path)


class Person:
    """Replies in this order, then to nothing more; `asked` is what was shown."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> Reply | None:
        self.asked.append(request)
        return self._replies.pop(0) if self._replies else None


def ended(agent: Agent, call: Call) -> Outcome:
    return carry_out(agent, call, lambda line: None)


def failure(agent: Agent, call: Call) -> str:
    error = ended(agent, call).error
    assert error is not None
    return f"{error.code}: {error.message}"


@pytest.mark.parametrize("check", ASKING_CHECKS, ids=lambda check: check.__name__)
def test_script_passes_every_check_of_an_agent_that_asks(
    check: AgentCheck, agent: Write, tmp_path: Path
) -> None:
    check(agent(CONFORMING), tmp_path)


def test_a_permission_is_asked_for_with_the_call_and_the_rule_that_would_allow_it(
    agent: Write, call: Call
) -> None:
    person = Person(ALLOW)
    doing = agent(TESTS)
    assert asks(doing)
    outcome = ended(doing, replace(call, ask=person))
    assert (outcome.ok, outcome.output) == (True, "allow, so I tested")
    (request,) = person.asked
    assert request.kind == "permission"
    assert request.shape == {
        "tool": "Bash",
        "subject": "npm test -- --watch",
        "input": '{"command":"npm test -- --watch"}',
        "rule": "Bash(npm test *)",
        "digest": "5c13f5f88b267b1820592b25f681a7b30514d55bf4b917a2b084418804db18f4",
        "conversation": "script-1",
    }


def test_a_denial_reaches_it_with_its_words(agent: Write, call: Call) -> None:
    person = Person(Reply("deny", "use pnpm instead"))
    assert failure(agent(TESTS), replace(call, ask=person)) == (
        "PB-AGENT-FAILED: deny: use pnpm instead"
    )


def test_it_goes_on_after_a_denial_unless_its_script_says_otherwise(
    agent: Write, call: Call
) -> None:
    person = Person(Reply("deny"), ALWAYS)
    assert ended(agent(TWICE), replace(call, ask=person)).ok
    assert (call.cwd / "made.txt").read_text() == "always"


def test_a_question_is_asked_with_its_options_and_the_answer_is_told(
    agent: Write, call: Call
) -> None:
    person = Person(Reply("answer", "2\nall, some"))
    assert ended(agent(CLARIFY), replace(call, ask=person)).output == "2 all, some"
    (request,) = person.asked
    assert (request.kind, request.shape["subject"]) == ("question", "Which shell?")
    assert request.shape["questions"] == [
        {
            "question": "Which shell?",
            "header": "Shell",
            "options": [
                {"label": "bash", "description": ""},
                {"label": "zsh", "description": "new"},
            ],
            "multiple": False,
        },
        {
            "question": "Which tests?",
            "header": "",
            "options": [
                {"label": "all", "description": ""},
                {"label": "some", "description": ""},
            ],
            "multiple": True,
        },
    ]


def test_its_conversation_goes_on_where_it_was_put_off(agent: Write, call: Call) -> None:
    doing, person = agent(TWICE), Person(ALLOW)
    ended(doing, replace(call, ask=person))
    waiting = person.asked[-1].shape
    later = replace(call, conversation=waiting["conversation"], ask=person)
    assert can_continue(doing, later)
    assert ended(doing, replace(later, replies={waiting["digest"]: ALWAYS})).ok
    assert len(person.asked) == 2
    assert (call.cwd / "made.txt").read_text() == "always"


def test_a_recorded_permission_allows_a_call_once(agent: Write, call: Call) -> None:
    doing = agent(
        TWICE.replace("tool: Write", "tool: Bash").replace(
            "file_path: notes.md, content: secret words", "command: npm test"
        )
    )
    person = Person(ALLOW, ALLOW)
    ended(doing, replace(call, ask=person))
    first, second = (request.shape["digest"] for request in person.asked)
    assert first == second
    asked_again = Person(ALLOW)
    assert ended(doing, replace(call, ask=asked_again, replies={first: ALLOW})).ok
    assert len(asked_again.asked) == 1


def test_rules_decide_without_a_request(agent: Write, call: Call) -> None:
    person = Person()
    allowed = replace(call, ask=person, allowed_rules=("Bash(npm test *)",))
    assert ended(agent(TESTS), allowed).output == "allow, so I tested"
    forbidden = replace(allowed, forbidden_rules=("Bash(npm test *)",))
    assert failure(agent(TESTS), forbidden).endswith("deny: a policy forbids it")
    assert not person.asked


def test_without_a_person_it_is_denied_as_the_client_is(agent: Write, call: Call) -> None:
    assert failure(agent(TESTS), call) == (
        "PB-AGENT-PERMISSION: script was not permitted: Bash npm test -- --watch"
    )


def test_no_secret_and_no_control_character_is_in_a_request(agent: Write, call: Call) -> None:
    script = {
        "ask": {
            "permission": {
                "tool": "Bash",
                "input": {"command": "curl\n -H hunter2 \x1b[31m", "body": "x" * 5000},
            }
        }
    }
    person = Person(ALLOW)
    doing = agent(json.dumps({"steps": {"plan": script}}))
    assert ended(doing, replace(call, ask=person, secrets=("hunter2",))).ok
    shape = person.asked[0].shape
    assert shape["subject"] == "curl -H [redacted]"
    assert len(shape["input"]) == 4000
    assert "hunter2" not in json.dumps(shape)


def test_stopped_while_it_asks_it_does_not_act(agent: Write, call: Call) -> None:
    asking, let_go = threading.Event(), threading.Event()

    def person(request: Request) -> Reply:
        asking.set()
        let_go.wait(60)
        return ALLOW

    running = agent(TWICE).run(replace(call, ask=person))
    heard: list[Outcome | None] = []
    reader = threading.Thread(target=lambda: heard.extend(each.outcome for each in running))
    reader.start()
    assert asking.wait(60)
    running.stop()
    let_go.set()
    reader.join(60)
    assert heard[-1] is not None
    assert heard[-1].error is not None
    assert heard[-1].error.code == "PB-AGENT-CRASHED"
    assert not (call.cwd / "made.txt").exists()


def test_a_process_of_its_own_is_started_after_the_reply(agent: Write, call: Call) -> None:
    """Its deadline begins there, less what the attempt has spent."""
    script = TESTS.replace("say:", "hang: true\n    say:")
    spent = replace(call, ask=Person(ALLOW), wall=60.0, spent=59.9)
    assert failure(agent(script), spent).startswith("PB-AGENT-TIMEOUT")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("{}", "either a `permission` or a `question`"),
        ("{permission: {tool: A}, question: {question: b}}", "either a `permission` or a"),
        ("{permission: {input: {a: b}}}", "a permission needs a `tool`"),
        ("{question: {options: [a]}}", "a question needs its text"),
        ("{question: {question: a, options: b}}", "`options` must be a list"),
        ("{question: {question: a, options: [[b]]}}", "this must be a mapping"),
        ("{demand: a}", "unknown key 'demand'"),
    ],
)
def test_a_faulty_request_is_refused_with_its_place(agent: Write, asked: str, message: str) -> None:
    with pytest.raises(AgentError, match=message) as caught:
        agent(f"steps: {{plan: {{ask: {asked}}}}}")
    assert caught.value.code == "PB-AGENT-SCRIPT"
