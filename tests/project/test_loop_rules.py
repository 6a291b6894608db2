"""What `check` says of loops that cannot be run."""

from __future__ import annotations

import pytest

from playbook_supervisor.project.playbooks.schema import examine

HEAD = """\
name: x
description: y
version: "1.1"
args:
  - {name: files, description: d, required: true}
  - {name: key, description: d, required: true, secret: true}
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: list, command: cli cat x.json, output: json}
"""


def told(step: str) -> list[tuple[str, str]]:
    """Message and guidance of every problem of a playbook whose second step is this."""
    playbook, problems, _ = examine(f"{HEAD}  - {{id: each, {step}}}\n".encode(), "x.yaml")
    assert (playbook is None) == bool(problems)
    assert all(problem.line == 10 for problem in problems)
    return [(problem.message, problem.guidance) for problem in problems]


@pytest.mark.parametrize(
    "step",
    [
        "command: 'cli echo {{file}}', for_each: {in: $files, as: file}",
        "command: 'cli echo {{file.name}}', for_each: {in: $list.json, as: file, max: 10000}",
        "command: /x, args: '{{file}}', for_each: {in: $list.json.a.b, as: file, at_once: 10}",
        "command: cli make, until: {conditions: [git_clean], max: 3}",
        "command: /x, for_each: {in: $files, as: f}, until: {conditions: [git_clean], max: 2}",
    ],
)
def test_loops_that_can_be_run_are_no_fault(step: str) -> None:
    assert told(step) == []


@pytest.mark.parametrize(
    ("step", "message", "guidance"),
    [
        (
            "command: /x, for_each: {in: $file, as: item}",
            "`$file` is not a declared arg",
            "Did you mean `$files`? Declare it under `args`",
        ),
        (
            "command: /x, for_each: {in: $files, as: item}, parallel_group: g",
            "a step of a parallel group cannot be a loop",
            "Remove `parallel_group`",
        ),
        (
            "command: checkpoint, with: {message: m}, until: {conditions: [git_clean], max: 2}",
            "`until` has no meaning for a `checkpoint` command",
            "a checkpoint runs nothing",
        ),
    ],
)
def test_a_loop_that_cannot_be_run_is_refused(step: str, message: str, guidance: str) -> None:
    """cat NFR-2.3"""
    found = told(step)
    assert message in [each for each, _ in found]
    assert any(guidance in each for _, each in found)


@pytest.mark.parametrize(
    "step",
    [
        "command: /x, for_each: {in: $later.json, as: item}",
        "command: /x, for_each: {in: $list.stdout, as: item}",
        "command: /x, for_each: {in: $files, as: item, max: 10001}",
        "command: /x, for_each: {in: $files, as: item, at_once: 0}",
        "command: /x, for_each: {in: [a, b], as: item}",
        "command: /x, for_each: {in: $files}",
        "command: /x, for_each: []",
        "command: /x, until: {conditions: [], max: 2}",
        "command: /x, until: {conditions: [git_clean], max: 0}",
        "command: 'cli echo {{other}}', for_each: {in: $files, as: item}",
    ],
)
def test_what_a_loop_needs_and_its_bounds_are_checked(step: str) -> None:
    assert len(told(step)) >= 1
