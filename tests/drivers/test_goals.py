"""A goal of a conversation: who may set, accept and drop it, and when a turn may end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.hook_calls import Hooked
from support.scratch_project import Project

from playbook_supervisor.drivers.claude_code.goals import TRIES
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.system.disk import user_state

pytestmark = pytest.mark.measured

CONFIG = """\
checks:
  test: {run: [sh, test.sh], room: clean, witnesses: [test.sh]}
  other: {run: [make]}
allow: {cli: [sh, make]}
"""


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Project:
    """A project with a test that a file `code` has to pass."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project.write(".playbooks/config.yaml", CONFIG)
    project.write("test.sh", "grep right code\n")
    project.write("code", "wrong\n")
    project.commit("Begin")
    return project


@pytest.fixture
def hooked(project: Project) -> Hooked:
    hooked = Hooked(project)
    assert "Goal: proved=test, since tree " in hooked.types("/playbook.goal test").shown
    return hooked


def ends(hooked: Hooked, **fields: Any) -> Any:
    """The reply when the model ends its turn."""
    return hooked("Stop", **fields)


def refused(hooked: Hooked, line: str) -> str:
    with pytest.raises(PlaybookError) as caught:
        hooked.types(line)
    return caught.value.message


def test_a_turn_goes_on_until_the_goal_holds_and_then_the_goal_is_gone(
    hooked: Hooked, project: Project
) -> None:
    told = ends(hooked)
    assert (told.decision, "exit 1 in " in told.note) == ("block", True)
    project.write("code", "right\n")
    reached = ends(hooked)
    assert reached.decision == ""
    assert reached.shown.startswith("Goal reached: proved=test: exit 0 in ")
    assert ends(hooked) is None


def test_the_tries_are_counted_for_each_turn_of_a_person(hooked: Hooked) -> None:
    assert ends(hooked).decision == "block"
    for _ in range(TRIES - 1):
        assert ends(hooked, stop_hook_active=True).decision == "block"
    last = ends(hooked, stop_hook_active=True)
    assert last.decision == ""
    assert f"is not reached after {TRIES} more tries: exit 1 in " in last.shown
    assert ends(hooked).decision == "block"


def test_a_change_of_tests_is_shown_and_only_that_one_is_accepted(
    hooked: Hooked, project: Project
) -> None:
    assert refused(hooked, "/playbook.goal accept") == "the goal has asked nothing"
    project.write("test.sh", "grep wrong code\n")
    asked = ends(hooked)
    assert asked.decision == ""
    assert "-grep right code" in asked.shown
    assert "`/playbook.goal accept` allows this change" in asked.shown
    assert "is accepted" in hooked.types("/playbook.goal accept").shown
    project.write("test.sh", "true\n")
    assert "+true" in ends(hooked).shown
    project.write("test.sh", "grep wrong code\n")
    reached = ends(hooked)
    assert reached.shown.startswith("Goal reached: ")
    assert reached.shown.endswith(", accepted by a person")


def test_only_a_person_accepts(hooked: Hooked, project: Project) -> None:
    project.write("test.sh", "true\n")
    ends(hooked)
    hooked.environment["CLAUDE_CODE_ENTRYPOINT"] = "sdk-cli"
    assert refused(hooked, "/playbook.goal accept") == "only a person accepts a change of tests"


def test_the_check_is_that_of_the_beginning(hooked: Hooked, project: Project) -> None:
    project.write(".playbooks/config.yaml", "checks: {test: {run: [true]}}\n")
    assert ends(hooked).decision == "block"


def test_agents_in_the_background_are_waited_for_and_a_server_is_not(hooked: Hooked) -> None:
    agent, server = {"id": "a", "type": "subagent"}, {"id": "b", "type": "shell"}
    assert ends(hooked, background_tasks=[server, agent]) is None
    assert ends(hooked, background_tasks=[server]).decision == "block"


def test_a_goal_is_shown_replaced_and_dropped(hooked: Hooked) -> None:
    assert hooked.types("/playbook.goal").shown.startswith("The goal is proved=test.")
    hooked.types("/playbook.goal other")
    assert hooked.types("/playbook.goal").shown.startswith("The goal is proved=other.")
    assert hooked.types("/playbook.goal off").shown == "The goal proved=other is dropped."
    assert refused(hooked, "/playbook.goal") == "this conversation has no goal"
    assert ends(hooked) is None


def test_a_session_comes_first(hooked: Hooked) -> None:
    hooked.types("/playbook.run auto-validate 013")
    told = ends(hooked)
    assert (told.reason, told.snapshot is None) == ("The playbook continues.", False)


def test_a_damaged_record_is_no_success_and_another_process_has_no_goal(hooked: Hooked) -> None:
    file = user_state.path(f"goals/{os.getppid()}")
    shape = json.loads(file.read_text())
    file.write_text("{")
    assert "could not be checked, and stays: " in ends(hooked).shown
    file.write_text("{}")
    assert "could not be checked, and stays: " in ends(hooked).shown
    file.write_text(json.dumps(shape | {"born": "before"}))
    assert ends(hooked) is None


def test_records_of_clients_that_ended_are_removed(hooked: Hooked) -> None:
    left = user_state.path("goals/999999999")
    left.write_text("{}")
    hooked.types("/playbook.goal other")
    assert not left.exists()
