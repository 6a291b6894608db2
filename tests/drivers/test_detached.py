"""Checks of a project in a client: made by a process behind `next --wait`, never by a hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import directive_lines
from support.bound_session import Conversation
from support.checked_project import Checked
from support.in_process import Result
from support.scratch_project import Project

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.system.process.process_groups import until

PATIENCE = 30.0


@pytest.fixture
def checked(project: Project, tmp_path: Path) -> Checked:
    return Checked(project, tmp_path)


@pytest.fixture
def conversation(checked: Checked) -> Iterator[Conversation]:
    with Conversation(checked.project) as conversation:
        conversation.types("run", "proved")
        yield conversation


def directive(said: str) -> Any:
    """The directive in what a model reads."""
    return directive_lines.in_text(said)[0]


def waits(conversation: Conversation, **env: str) -> Any:
    """What `playbook next --wait` tells a model."""
    return directive(conversation.runs("next", "--wait", **env).out)


def killed(checked: Checked, conversation: Conversation) -> Result:
    """`playbook next --wait`, which the client kills while it waits for the check."""
    return conversation.kills("next", "--wait", once=checked.begun)


def eventually(condition: Callable[[], object]) -> None:
    assert until(lambda: bool(condition()), PATIENCE)


def private(checked: Checked) -> Path:
    return checked.store.runtime(checked.project.session.name)


def test_a_hook_leaves_the_check_to_a_command(checked: Checked, conversation: Conversation) -> None:
    """Chapter 6: hooks never carry out a step, and never ask a condition that starts a program."""
    told = conversation.works("implement#1", "speckit.implement")
    due = directive_lines.told(told)
    assert (due["directive"], due["command"]) == ("wait", "playbook next --wait")
    assert due["steps"] == ["implement#1"]
    assert checked.runs == 0
    for command in (("next",), ("next", "--json"), ("status",)):
        assert conversation.runs(*command).code == 0
    assert checked.runs == 0


def test_a_check_that_fails_raises_the_gate_and_holds_after_a_retry(
    checked: Checked, conversation: Conversation
) -> None:
    checked.project.write("broken", "1\n")
    conversation.works("implement#1", "speckit.implement")
    assert waits(conversation)["gate"]["reason"] == "postcondition_fail"
    conversation.hook("UserPromptSubmit", prompt="retry")
    checked.project.write("broken", "")
    conversation.works("implement#2", "speckit.implement")
    assert waits(conversation)["gate"]["id"] == "pr#1?1"


def test_the_check_goes_on_when_the_client_kills_the_command(
    checked: Checked, conversation: Conversation
) -> None:
    """A client gives a command a few minutes; the check is made once all the same."""
    checked.hold()
    conversation.works("implement#1", "speckit.implement")
    assert killed(checked, conversation).code != 0
    assert (checked.gone, driver_lock.detached_works(private(checked))) == (False, True)
    assert killed(checked, conversation).code != 0
    checked.release()
    assert (waits(conversation)["directive"], checked.runs) == ("ask", 1)


def test_two_commands_at_once_make_the_check_once(
    checked: Checked, conversation: Conversation
) -> None:
    conversation.works("implement#1", "speckit.implement")
    project, shell = checked.project, {"PLAYBOOK_SESSION": checked.project.session.name}
    outside = dict.fromkeys(conversation.shell, "")
    with ThreadPoolExecutor(3) as pool:
        asked = [
            pool.submit(project.process, "next", "--wait", "--json", env={**outside, **shell})
            for _ in range(3)
        ]
    assert {each.result().json["directive"] for each in asked} == {"ask"}
    assert checked.runs == 1


def test_a_check_does_not_outlive_its_client(checked: Checked, conversation: Conversation) -> None:
    checked.hold()
    conversation.works("implement#1", "speckit.implement")
    killed(checked, conversation)
    conversation.dies()
    eventually(lambda: checked.gone and not driver_lock.detached_works(private(checked)))
    checked.release()
    project = checked.project
    assert project.playbook("resume", "--agent", project.script("steps: {}")).code == 4
    implement, _ = project.journal()
    assert (implement["status"], checked.runs) == ("done", 2)


@pytest.mark.parametrize("command", ["abort"])
def test_a_person_ends_the_check(
    checked: Checked, conversation: Conversation, command: str
) -> None:
    checked.hold()
    conversation.works("implement#1", "speckit.implement")
    killed(checked, conversation)
    conversation.types(command)
    eventually(lambda: checked.gone and not driver_lock.detached_works(private(checked)))
    status = {"pause": "in_progress", "abort": "aborted"}[command]
    assert (checked.project.manifest()["status"], checked.kept) == (status, ())


def test_the_check_runs_in_the_environment_of_the_client(
    checked: Checked, conversation: Conversation
) -> None:
    """A model could otherwise put a program of its own before the one that the check runs."""
    conversation.works("implement#1", "speckit.implement")
    assert waits(conversation, FAKED="by a model")["directive"] == "ask"
    log = checked.project.playbook("logs", "implement#1").out
    assert "a banner" in log
    assert "by a model" not in log
