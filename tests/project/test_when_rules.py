"""What a `when` may ask of an arg."""

from __future__ import annotations

import pytest

from playbook_supervisor.project.playbooks.schema import examine

PLAYBOOK = """\
name: branching
description: Steps that only some runs need
version: "1.1"
args:
  - {{name: scope, description: S, required: false, type: enum, values: [full, small]}}
  - {{name: topic, description: T, required: false}}
  - {{name: count, description: C, required: false, type: number}}
  - {{name: tests, description: B, required: false, type: boolean}}
  - {{name: token, description: K, required: false, secret: true}}
steps:
  - {{id: one, command: cli true, autonomy: auto, error_policy: stop, when: '{when}'}}
"""


def said(when: str) -> list[tuple[str, str]]:
    _, problems, _ = examine(PLAYBOOK.format(when=when).encode(), "p.yaml")
    return [(problem.message, problem.guidance) for problem in problems]


@pytest.mark.parametrize(
    "when",
    [
        '$scope == "full"',
        '$scope != ""',
        "$count == 3",
        "$count != 0.5",
        "!$tests",
        "$tests == false",
    ],
)
def test_an_arg_is_compared_by_its_type(when: str) -> None:
    assert said(when) == []


@pytest.mark.parametrize(
    ("when", "message", "guidance"),
    [
        ('$scop == "full"', "`$scop` is not a declared arg", "Did you mean `$scope`?"),
        ('$token == "x"', "`$token` is secret", "no secret"),
        ("$scope", "`$scope` is neither true nor false", 'Compare it: `== "x"`.'),
        ("$topic == 3", "`$topic` is text", "double quotes"),
        ("!$count", "`$count` is neither true nor false", "Compare it: `== 1`."),
        ('$count == "3"', "`$count` is a number", "without quotes"),
        ('$tests == "true"', "`$tests` is true or false", "by itself"),
    ],
)
def test_what_can_never_hold_is_refused(when: str, message: str, guidance: str) -> None:
    ((shown, cure),) = said(when)
    assert message in shown
    assert guidance in cure
