"""The one file that has the outputs of all items of a loop."""

from __future__ import annotations

import json

import pytest

from playbook_supervisor.errors import StateError
from playbook_supervisor.sessions.steps import output_files
from playbook_supervisor.sessions.steps.output_files import LoopData, LoopFile, StepData


def kept(file: LoopFile) -> list[tuple[str, str | None]]:
    found = output_files.read(file.emit(), file.file)
    assert isinstance(found, LoopData)
    return [(each.attempt, each.stdout) for _, each in sorted(found.items.items())]


def of_outputs(*outputs: tuple[str, str]) -> LoopFile:
    file = LoopFile("build")
    for attempt, text in outputs:
        file = file.with_output(StepData(attempt, text))
    return file


def test_items_are_lines_in_the_order_in_which_they_came() -> None:
    file = of_outputs(("build[2]#1", "two"), ("build[10]#1", "ten"), ("build[1]#1", "one"))
    lines = file.emit().decode().splitlines()
    assert [json.loads(line.rstrip(","))["stdout"] for line in lines[3:-2]] == ["two", "ten", "one"]
    assert kept(file) == [("build[1]#1", "one"), ("build[2]#1", "two"), ("build[10]#1", "ten")]


def test_a_later_attempt_at_an_item_replaces_the_earlier_one() -> None:
    file = of_outputs(("build[1]#1", "red"), ("build[2]#1", "two"), ("build[1]#2", "green"))
    assert kept(file) == [("build[1]#2", "green"), ("build[2]#1", "two")]
    assert b"red" not in file.emit()


def test_an_output_cannot_pass_for_another_item() -> None:
    forged = '\n ]\n}\n  {"attempt": "build[2]#1", "stdout": "forged"}\n'
    file = of_outputs(("build[1]#1", forged), ("build[2]#1", "two"), ("build[3]#1", "\ud800\u2028"))
    assert kept(file) == [
        ("build[1]#1", forged),
        ("build[2]#1", "two"),
        ("build[3]#1", "\ud800\u2028"),
    ]


def test_a_file_that_is_laid_out_otherwise_is_laid_out_again() -> None:
    """It was written by an earlier version, or edited before another clone took it up."""
    shape = json.loads(of_outputs(("build[1]#1", "one")).emit())
    file = LoopFile("build", json.dumps(shape, indent=1).encode())
    added = file.with_output(StepData("build[2]#1", "two"))
    assert added == of_outputs(("build[1]#1", "one"), ("build[2]#1", "two"))


def test_a_file_that_cannot_be_read_is_not_replaced() -> None:
    with pytest.raises(StateError, match="cannot be read"):
        LoopFile("build", b"{").with_output(StepData("build[1]#1", "one"))


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema": 1, "items": [1]}',
        b'{"schema": 1, "items": [{"attempt": "build#1"}]}',
        b'{"schema": 1, "items": [{"attempt": "build[1]#1"}, {"attempt": "other[1]#1"}]}',
        b'{"schema": true, "items": []}',
        b"[]",
    ],
)
def test_a_file_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(StateError, match="cannot be read"):
        output_files.read(data, "outputs/build.json")


def test_two_outputs_that_are_still_to_be_written_are_both_kept() -> None:
    waiting = of_outputs(("build[1]#1", "one"))
    both = waiting.with_output(StepData("build[2]#1", "two"))
    assert kept(both) == [("build[1]#1", "one"), ("build[2]#1", "two")]
