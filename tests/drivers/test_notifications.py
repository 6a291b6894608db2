"""Notifying a person: the terminal's bell and the project's `notify` command."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.scripts import GATED, HANGS, LONG, WORKS
from cli.terminal import Terminal
from support.bound_session import Conversation
from support.controlled_time import wait_until
from support.scratch_project import Project

from playbook_supervisor.cli.render import live
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.commands.views import queries
from playbook_supervisor.drivers import notifications
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.system.git import checkout

WAITS = (
    "gated on 013-playbook-create waits for you at publish#1?1: "
    "Run /feature.pr (step publish) now: continue, skip it, or abort? 0/1 step done."
)
ENDED = "gated on 013-playbook-create: completed, 1/1 step"


class Told(Observer):
    """Records the notices."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def on_notice(self, text: str) -> None:
        self.sentences.append(text)


@pytest.fixture
def gated(project: Project) -> Project:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.write("call", "#!/bin/sh\ncat >> called\n").chmod(0o755)
    return project


def notify(project: Project, *argv: str) -> None:
    project.write(".playbooks/config.yaml", f"notify: {json.dumps(argv)}\n")


def called(project: Project) -> list[str]:
    file = project.root / "called"
    return file.read_text().splitlines() if file.exists() else []


def test_the_command_notifies_once_of_a_gate_and_once_of_the_end(
    gated: Project,
) -> None:
    """The command reads the one-line notice from stdin and runs in the project's folder (kai
    S-U4)."""
    notify(gated, "./call")
    agent = gated.script(WORKS)
    cwd = gated.root
    assert driving.run("gated", cwd=cwd, drive=DriveOptions(agent=agent)).why == "waiting"
    assert driving.resume(cwd=cwd).why == "waiting"
    assert called(gated) == [WAITS]
    driving.answer(["continue"], cwd=cwd)
    assert driving.resume(cwd=cwd).why == "completed"
    assert called(gated) == [WAITS, ENDED]


def test_a_session_that_fails_again_notifies_again(gated: Project) -> None:
    notify(gated, "./call")
    gated.write(".playbooks/playbooks/gated.yaml", GATED.replace("gate_always", "auto"))
    drive = DriveOptions(agent=gated.script("default: {fail: it broke}\n"))
    assert driving.run("gated", cwd=gated.root, drive=drive).why == "failed"
    assert driving.resume(cwd=gated.root).why == "failed"
    assert driving.resume(cwd=gated.root, retry=True).why == "failed"
    assert called(gated) == ["gated on 013-playbook-create: failed, 0/1 step"] * 2


@pytest.mark.parametrize(
    ("argv", "deadline", "said"),
    [
        (
            ("./no-such-program",),
            60.0,
            "cannot start './no-such-program': No",
        ),
        (("sh", "-c", "echo offline >&2; exit 3"), 60.0, "sh ended with exit status 3, offline"),
        (("sleep", "600"), 0.4, "the notification failed: sleep took longer than 0 s"),
    ],
)
def test_a_failing_command_is_a_warning_and_not_a_failed_run(
    gated: Project,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    deadline: float,
    said: str,
) -> None:
    monkeypatch.setattr(notifications, "DEADLINE", deadline)
    notify(gated, *argv)
    told = Told()
    drive = DriveOptions(agent=gated.script(WORKS))
    assert driving.run("gated", cwd=gated.root, drive=drive, observer=told).why == "waiting"
    (warning,) = [each for each in told.sentences if "notification" in each or "status" in each]
    assert said in warning


def test_a_failed_notification_is_reported_at_the_next_event(gated: Project) -> None:
    notify(gated, "false")
    agent = gated.script(WORKS)
    with Terminal(gated, "run", "gated", "--agent", agent) as terminal:
        terminal.until("abort > ")
        time.sleep(0.3)
        terminal.type("continue\n")
        terminal.until("note: the notification failed: false ended with exit status 1")
        assert terminal.end() == 0
        assert f"\x1b]9;{WAITS}\a\x1b]777;notify;playbook;{WAITS}\a" in terminal.raw
        assert f"\x1b]9;{ENDED}\a" in terminal.raw


def test_an_interruption_is_not_notified(gated: Project) -> None:
    notify(gated, "./call")
    gated.write(".playbooks/playbooks/long.yaml", LONG)
    with Terminal(gated, "run", "long", "--agent", gated.script(HANGS)) as terminal:
        terminal.until("I am thinking")
        terminal.interrupt()
        assert terminal.end() == 130
        assert "\a" not in terminal.raw
    assert called(gated) == []


class TestInTheClient:
    """A hook starts the command without waiting for it."""

    @pytest.fixture
    def conversation(self, gated: Project) -> Iterator[Conversation]:
        with Conversation(gated) as conversation:
            yield conversation

    def test_the_command_runs_once_at_a_gate_and_once_at_the_end(
        self, gated: Project, conversation: Conversation
    ) -> None:
        notify(gated, "./call")
        conversation.types("run", "gated")
        reply = conversation.hook("Stop", background_tasks=[])
        assert "\a\x1b]9;Run /feature.pr" in reply["terminalSequence"]
        wait_until(lambda: called(gated) == [WAITS])
        conversation.hook("Stop", background_tasks=[])
        conversation.hook("UserPromptSubmit", prompt="abort")
        conversation.hook("Stop", background_tasks=[])
        wait_until(lambda: called(gated)[1:] == [ENDED.replace("completed, 1", "aborted, 0")])

    def test_a_permission_dialog_notifies_once_for_each_agent(
        self, gated: Project, conversation: Conversation
    ) -> None:
        notify(gated, "./call")
        conversation.types("run", "gated")
        for agent in ("a1", "a1", "a2"):
            conversation.hook("PermissionRequest", agent_id=agent, tool_name="Write")
        wait_until(lambda: called(gated) == ["Claude asks for permission: Write"] * 2)

    def test_a_failing_or_hanging_command_shows_in_status(
        self, gated: Project, conversation: Conversation
    ) -> None:
        notify(gated, "sh", "-c", "sleep 0.5; test -e mended && exec ./call; exit 4")
        conversation.types("run", "gated")
        began = time.monotonic()
        conversation.hook("Stop", background_tasks=[])
        (seen,) = next(queries.watch(cwd=gated.root))
        assert (
            seen.notify_error == "" or time.monotonic() - began > 0.5
        )  # the run did not wait for it
        wait_until(lambda: next(queries.watch(cwd=gated.root))[0].notify_error)
        (seen,) = next(queries.watch(cwd=gated.root))
        lines = [line.text for line in live.session_board((seen,), 0)]
        assert lines[-1] == "  note: the notification failed: sh ended with exit status 4"
        gated.write("mended", "")
        conversation.hook("UserPromptSubmit", prompt="abort")
        conversation.hook("Stop", background_tasks=[])
        wait_until(lambda: called(gated))
        wait_until(lambda: not notifications.last_failure(private(gated)))


def private(project: Project) -> Path:
    return checkout.find(project.root).runtime / project.session.name
