"""The parameters of conditions, as `check` reads them."""

from __future__ import annotations

import pytest

from playbook_supervisor.project.playbooks.schema import examine


def told(key: str, *conditions: str) -> list[tuple[int, str]]:
    """Line and message of every problem; the conditions stand from line 6 on."""
    lines = "".join(f"    - {condition}\n" for condition in conditions)
    text = f"""\
name: x
description: y
version: "1.1"
args: [{{name: file, description: d, required: true}}]
steps: [{{id: a, command: /a, autonomy: auto, error_policy: stop, {key}: [
{lines.replace("    - ", "").replace(chr(10), "," + chr(10))}]}}]
"""
    playbook, problems, _ = examine(text.encode(), "x.yaml")
    assert (playbook is None) == bool(problems)
    return [(problem.line, problem.message) for problem in problems]


def test_outputs_are_files_of_the_repository() -> None:
    text = """
name: x
description: y
version: "1.1"
args: [{name: a, description: b, required: true}]
outputs: [fine.md, ../secret]
steps:
  - {id: s, command: cli make, autonomy: auto, error_policy: stop, outputs: [/x, "/{{a}}"]}
"""
    found = examine(text.encode(), "x.yaml")[1]
    assert [(each.line, each.col, each.message) for each in found] == [
        (6, 20, "`outputs`: '../secret' leads out of the repository"),
        (8, 78, "`outputs`: '/x' is not relative to the repository"),
    ]


def test_parameters_that_mean_something_are_no_fault() -> None:
    assert not told(
        "postconditions",
        "file_exists: docs/a b.md",
        "file_exists: '../{{file}}'",
        "file_contains: {path: a.md, text: '../x'}",
        "changes_within: [src/**, docs/]",
        "changes_made: '**'",
        "branch_exists: feature/x",
        "command_succeeds: cli make test",
        "commits_made",
    )


@pytest.mark.parametrize("key", ["preconditions", "postconditions", "skip_if"])
def test_every_parameter_that_can_mean_nothing_is_named_at_its_place(key: str) -> None:
    assert told(
        key,
        "file_exists: /etc/passwd",
        "file_contains: {path: ../x, text: y}",
        "verdict_pass: ' '",
        "branch_exists: --all",
        "tag_exists: 'v*'",
    ) == [
        (6, "`file_exists`: '/etc/passwd' is not relative to the repository"),
        (7, "`file_contains`: '../x' leads out of the repository"),
        (8, "`verdict_pass`: '' is empty"),
        (9, "`branch_exists`: '--all' is not a name that git allows"),
        (10, "`tag_exists`: 'v*' is not a name that git allows"),
    ]


def test_each_pattern_of_a_list_is_read() -> None:
    assert told("postconditions", "changes_within: [src/**, ../x, /y]") == [
        (6, "`changes_within`: '../x' leads out of the repository"),
        (6, "`changes_within`: '/y' is not relative to the repository"),
    ]


@pytest.mark.parametrize("key", ["preconditions", "skip_if"])
def test_before_its_launch_nothing_can_have_changed(key: str) -> None:
    expected = ["changes_made", "changes_within", "commits_made"]
    found = told(key, "changes_made: '**'", "changes_within: src/**", "commits_made")
    assert found == [
        (line, f"`{name}` compares with the launch of its step")
        for line, name in enumerate(expected, start=6)
    ]
