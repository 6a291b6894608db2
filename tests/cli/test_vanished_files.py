"""Every command finds a session whose files something has removed, and restores them."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from support.hook_calls import Hooked
from support.scratch_project import Project

from cli.scripts import GATED, WORKS

RESTORED = "had disappeared; restored from the copy"


def cleaned(project: Project) -> None:
    project.git("clean", "-qfd")


def removed_with_all_others(project: Project) -> None:
    shutil.rmtree(project.root / ".playbooks/sessions")


WAYS = pytest.mark.parametrize("lose", [cleaned, removed_with_all_others])


@pytest.fixture
def waiting(project: Project) -> Project:
    """A session that waits at a gate, and whose files git does not know."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.commit("A playbook")
    ran = project.playbook("run", "gated", "--agent", project.script(WORKS))
    assert ran.code == 4, ran.err
    return project


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["resume"], 4),
        (["answer", "SESSION", "continue"], 0),
        (["show"], 0),
        (["next"], 0),
    ],
)
def test_a_command_restores_them(waiting: Project, command: list[str], code: int) -> None:
    name = waiting.session.name
    cleaned(waiting)
    done = waiting.playbook(*(name if word == "SESSION" else word for word in command))
    assert done.code == code, done.err
    assert "there is no session" not in done.err
    assert "no session belongs" not in done.err
    assert (waiting.session / "journal.yaml").is_file()
    assert waiting.playbook("audit", name).code == 0


@WAYS
def test_a_list_says_that_the_next_command_restores_them(
    waiting: Project, lose: Callable[[Project], None]
) -> None:
    lose(waiting)
    for status in (waiting.playbook("status"), waiting.playbook("status", "--all")):
        assert "WAITS FOR A HUMAN at publish#1?1" in status.out
        assert "its files are gone; the next command restores them" in status.out
    assert RESTORED in waiting.playbook("resume").err


@WAYS
def test_the_client_goes_on(waiting: Project, lose: Callable[[Project], None]) -> None:
    client = Hooked(waiting)
    lose(waiting)
    assert client.types("/playbook.resume").snapshot is not None
    lose(waiting)
    assert client.says("continue").snapshot is not None
    assert waiting.journal()[-1]["gates"][0]["resolution"] == "continue"


def test_a_session_that_has_ended_is_shown_too(waiting: Project) -> None:
    waiting.playbook("abort")
    name, journal = waiting.session.name, waiting.journal()
    cleaned(waiting)
    assert waiting.playbook("show", name).code == 0
    assert waiting.journal() == journal


def test_empty_settings_are_not_taken_for_a_file_that_disappeared(project: Project) -> None:
    project.write(".playbooks/config.yaml", "")
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.commit("A playbook, and settings that say nothing")
    assert project.playbook("run", "gated", "--agent", project.script(WORKS)).code == 4
    assert "disappeared" not in project.playbook("answer", "continue").err
    (project.session / "config.yaml").unlink()
    assert f"config.yaml {RESTORED}" in project.playbook("resume").err
