"""The inbox reminds of gates that no runner waits at, and of no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.scripts import GATED, WORKS
from cli.terminal import Terminal
from support.scratch_project import Project

from playbook_supervisor.inbox.commands.feed import Feed
from playbook_supervisor.inbox.commands.reminding import Reminders

EVERY = 3600


@pytest.fixture
def notified(project: Project) -> Project:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    return configured(project, remind_after=EVERY)


def configured(project: Project, **settings: object) -> Project:
    project.write("call", "#!/bin/sh\ncat >> called\n").chmod(0o755)
    project.write(".playbooks/config.yaml", json.dumps({"notify": ["./call"], **settings}))
    return project


def begin(project: Project) -> None:
    assert project.playbook("run", "gated", "--agent", project.script(WORKS)).code == 4


def told(project: Project) -> int:
    file = project.root / "called"
    return len(file.read_text().splitlines()) if file.exists() else 0


def reminders(project: Project) -> Reminders:
    feed = Feed(lambda: [project.root])
    feed.poll()
    return Reminders(feed)


def wait(project: Project, seconds: int) -> None:
    """Set back when people were last told."""
    (sent,) = project.root.glob(".git/playbook/*/called")
    about, _, at = sent.read_text().partition("\n")
    sent.write_text(f"{about}\n{float(at) - seconds}")


def test_a_gate_is_reminded_of_each_time_that_it_is_due(notified: Project) -> None:
    begin(notified)
    inbox = reminders(notified)
    assert told(notified) == 1
    inbox.send_due()
    assert told(notified) == 1, "it is not due"
    for number in (2, 3):
        wait(notified, EVERY)
        inbox.send_due()
        inbox.send_due()
        assert told(notified) == number


def test_an_answered_gate_is_not_reminded_of(notified: Project) -> None:
    begin(notified)
    inbox = reminders(notified)
    wait(notified, EVERY)
    assert notified.playbook("answer", "continue").code == 0
    inbox.send_due()  # before it has read the answer
    assert told(notified) == 1


def test_without_the_setting_no_one_is_reminded(project: Project) -> None:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    begin(configured(project))
    wait(project, EVERY)
    reminders(project).send_due()
    assert told(project) == 1


def test_a_runner_that_waits_reminds_itself(notified: Project) -> None:
    with Terminal(notified, "run", "gated", "--agent", notified.script(WORKS)) as runner:
        runner.until("abort > ")
        reminders(notified).send_due()
        runner.type("continue\n")
        assert runner.end() == 0
    assert told(notified) == 2, "the gate and the end"


def test_settings_that_are_accepted_count_from_then_on(notified: Project) -> None:
    begin(notified)
    inbox = reminders(notified)
    configured(notified)
    assert notified.playbook("resume", "--accept-config").code == 4
    wait(notified, EVERY)
    inbox.send_due()
    assert told(notified) == 1


def test_a_session_that_cannot_be_read_keeps_no_other_from_being_reminded_of(
    notified: Project, tmp_path: Path
) -> None:
    begin(notified)
    notified.git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    other = Project(tmp_path / "other", notified.home)
    other.write(".playbooks/playbooks/gated.yaml", GATED)
    begin(configured(other, remind_after=EVERY))
    inbox = reminders(notified)
    wait(notified, EVERY)
    (sent,) = notified.root.glob(".git/worktrees/*/playbook/*/called")
    sent.unlink()
    sent.mkdir()
    inbox.send_due()
    assert told(notified) == 2
