"""Steps that run another playbook: what their file may say."""

from __future__ import annotations

import json

import pytest

from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.playbooks.schema import examine, read_playbook

SECRET = "[{name: token, description: b, required: true, secret: true}]"


def playbook(steps: str, *, args: str = "[]", more: str = "") -> bytes:
    head = f'name: x\ndescription: y\nversion: "1.1"\nargs: {args}\n{more}'
    return f"{head}steps: [{steps}]\n".encode()


def step(more: str = "", *, command: str = "playbook deploy", name: str = "one") -> str:
    """A step as a flow mapping; `more` begins with a comma."""
    return f"{{id: {name}, command: '{command}', autonomy: auto, error_policy: stop{more}}}"


def read(steps: str, **named: str) -> Playbook:
    return read_playbook(playbook(steps, **named), "x.yaml")


def only(steps: str, **named: str) -> Problem:
    (problem,) = examine(playbook(steps, **named), "x.yaml")[1]
    return problem


@pytest.mark.parametrize(
    ("reference", "name"),
    [("deploy", "deploy"), ("team/deploy.yaml", "deploy"), ("./v2.deploy.yml", "v2.deploy")],
)
def test_a_step_names_its_child_or_the_file_of_it(reference: str, name: str) -> None:
    """cat FR-9.1."""
    (one,) = read(step(command=f"playbook {reference}")).steps
    assert (one.child_reference, one.child, one.namespace) == (reference, name, "playbook")
    assert not one.needs_agent


def test_a_step_of_another_kind_has_no_child() -> None:
    (one,) = read(step(command="cli make")).steps
    assert (one.child_reference, one.child) == ("", "")


def test_the_values_for_a_child_are_text_as_it_is_written() -> None:
    """cat FR-9.3: no number loses a digit, and no word becomes a boolean."""
    (one,) = read(
        step(", with: {args: {required: yes, n: 1.0, id: 007, it: '{{a}}', of: [2.0]}}"),
        args="[{name: a, description: b, required: false}]",
    ).steps
    assert json.loads(one.options) == {
        "args": {"required": "yes", "n": "1.0", "id": "007", "it": "{{a}}", "of": ["2.0"]}
    }


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("playbook", "`playbook` takes one word"),
        ("playbook a b", "`playbook` takes one word"),
        ("playbook {{x}}", "`playbook` takes a fixed name: its child is checked before"),
        ("playbook /etc/x.yaml", "`playbook` takes one word"),
    ],
)
def test_which_child_it_is_stands_in_the_file(command: str, message: str) -> None:
    args = "[{name: x, description: b, required: true}]"
    problem = only(step(command=command), args=args)
    assert (problem.code, problem.line) == ("PB-CHECK-RULE", 5)
    assert message in problem.message


@pytest.mark.parametrize(
    ("key", "value", "cure"),
    [
        ("args", "a", "under `with`"),
        ("model", "opus", "into the steps of that playbook"),
        ("cwd", "src", "at the top of the repository"),
        ("output", "json", "`session`, `status` and `output`"),
        ("max_cost_usd", "3", "`limits` of that playbook"),
    ],
)
def test_what_its_own_steps_say_is_refused_at_the_step(key: str, value: str, cure: str) -> None:
    problem = only(step(f", {key}: {value}"))
    assert problem.message == f"`{key}` has no meaning for a `playbook` command"
    assert cure in problem.guidance


def test_a_later_step_can_read_what_a_child_ended_with() -> None:
    """cat FR-9.2: its session, its status and its last output are JSON without a promise."""
    after = step(", stdin: $one.stdout", command="cli make", name="two")
    assert read(f"{step()}, {after}").steps[1].stdin == "$one.stdout"
    when = step(", when: '$one.json.status == \"completed\"'", name="two")
    assert read(f"{step()}, {when}").steps[1].when


@pytest.mark.parametrize("when", ["$one.approved", "!$one.skipped"])
def test_a_later_step_can_depend_on_the_decision_about_it(when: str) -> None:
    assert read(f"{step()}, {step(f', when: {when!r}', name='two')}").steps[1].when == when


def test_a_secret_is_passed_on_alone() -> None:
    """tyr 28: the child's arg is then the name of the secret, too."""
    read(step(", with: {args: {key: '{{token}}'}}"), args=SECRET)
    refused = only(step(", with: {args: {key: 'Bearer {{token}}'}}"), args=SECRET)
    assert "`{{token}}` is secret" in refused.message
    assert "alone to a secret arg of a child" in refused.guidance


def test_a_playbook_says_how_deep_its_children_may_be() -> None:
    """cat FR-9.5."""
    assert read(step()).max_depth == 10
    assert read(step(), more="limits: {max_depth: 3}\n").max_depth == 3


@pytest.mark.parametrize("depth", ["0", "101", "2.5", "many"])
def test_the_depth_has_bounds(depth: str) -> None:
    problem = only(step(), more=f"limits: {{max_depth: {depth}}}\n")
    assert (problem.code, problem.line) == ("PB-CHECK-SCHEMA", 5)
    assert "max_depth" in problem.message
