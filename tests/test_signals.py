"""SIGINT or SIGTERM while no agent works: during calls of git or `gh`, and at a gate.

One handler hears both, so a situation is tried with one of them; each is tried in several.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.terminal import Terminal
from support.controlled_time import gone, wait_until
from support.scratch_project import Project, remote
from test_journeys import at_work, playbook

from playbook_supervisor.system.process.process_groups import kill_worker

pytestmark = pytest.mark.measured

INTERRUPTED = "PB-STATE-INTERRUPTED"
HELD = """\
#!/bin/sh
[ "$1" != auth ] || exit 0
echo $$ > "{held}.new"
mv "{held}.new" "{held}"
while [ ! -e "{held}.go" ]; do sleep 0.05; done
"""


HANGING_DIFF = """\
#!/bin/sh
case " $* " in
*" diff "*) echo $$ >> "{held}.new"; cp "{held}.new" "{held}"; exec sleep 600 ;;
esac
exec {git} "$@"
"""


@dataclass(frozen=True)
class Hook:
    """A git hook, or a `gh`, that waits until it is released."""

    held: Path

    @classmethod
    def put(cls, project: Project, name: str) -> Hook:
        hook = cls(project.root.with_name(f"{project.root.name}-{name}"))
        file = project.write(f".git/hooks/{name}", HELD.format(held=hook.held))
        file.chmod(0o755)
        return hook

    @classmethod
    def forge(cls, project: Project) -> Hook:
        project.gh("hanging")
        hook = cls(project.root.with_name(f"{project.root.name}-gh"))
        program = shutil.which("gh", path=project.env["PATH"])
        assert program
        Path(program).write_text(HELD.format(held=hook.held))
        return hook

    @property
    def ended(self) -> bool:
        """Whether it was called and has ended."""
        return gone(int(self.held.read_text()))

    def let_go(self) -> None:
        self.held.with_name(f"{self.held.name}.go").touch()


@pytest.fixture
def publishing(project: Project) -> Project:
    """The branch is published, and its pull request open."""
    project.gh("open")
    remote(project)
    return project


PR = "pr /feature.pr auto stop postconditions=pr_created"


def test_a_session_interrupted_before_its_runner_began_is_begun_by_resume(project: Project) -> None:
    """Its first note blocks on a full stderr, so nothing has been launched yet."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b" " * 512)
    os.set_blocking(writer, True)
    name, agent = playbook(project, "qa /qa.plan auto stop"), project.script("steps: {}")
    runner = subprocess.Popen(
        [sys.executable, "-m", "playbook_supervisor", "run", name, "98", "--agent", agent],
        cwd=project.root,
        env=project.environment,
        stderr=writer,
        start_new_session=True,
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        wait_until(lambda: bool(project.sessions))
        runner.send_signal(signal.SIGTERM)
        said.read()
    assert runner.wait(120) != 0
    assert project.journal() == []
    resumed = project.playbook("resume", "--agent", agent)
    assert (resumed.code, project.manifest()["status"]) == (0, "completed"), resumed.err


@pytest.mark.parametrize(
    ("command", "number"),
    [("probe", signal.SIGTERM), ("run", signal.SIGHUP)],
)
def test_an_early_interruption_ends_the_call_of_the_forge(
    command: str, number: int, project: Project
) -> None:
    """`run` asks the forge whether the pull request exists already."""
    forge = Hook.forge(project)
    ways = {
        "run": ("run", playbook(project, PR), "013", "--agent", project.script("steps: {}")),
        "probe": ("probe", "pr_created"),
    }
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the suite runs under nohup
    with project.spawn(*ways[command]) as asking:
        signal.signal(signal.SIGHUP, former)
        wait_until(forge.held.exists)
        asking.send_signal(number)
        _, err = asking.communicate(timeout=120)
    assert (asking.returncode, err.strip()) == (128 + number, b"")
    assert forge.ended
    assert project.sessions == []


@pytest.mark.parametrize(("when", "number"), [("publish", signal.SIGINT), ("step", signal.SIGTERM)])
def test_an_interruption_during_the_session_commit_begins_no_step(
    when: str, number: int, publishing: Project
) -> None:
    """Before the first launch and between steps: the agent is not even started.

    A hook that would never end delays nothing: git is ended, with all that it started.
    """
    publishing.write(".playbooks/config.yaml", f"commit_sessions: {when}\n")
    hook = Hook.put(publishing, "pre-commit")
    name = playbook(publishing, "skipped /qa.plan skip stop", PR)
    agent = publishing.script("steps: {pr: {say: I begin}}")
    with publishing.spawn("run", name, "013", "--agent", agent, "--log-level", "debug") as runner:
        wait_until(hook.held.exists)
        runner.send_signal(number)
        _, err = runner.communicate(timeout=120)
    assert runner.returncode == 128 + number
    assert b"I begin" not in err
    assert err.count(b"the session is not committed: git was interrupted") == 1
    assert not (publishing.root / ".git/index.lock").exists()
    assert hook.ended
    assert publishing.journal()[1]["error_code"] == INTERRUPTED
    hook.let_go()
    resumed = publishing.playbook("resume")
    assert resumed.code == 0, resumed.err
    assert [entry["status"] for entry in publishing.journal()] == ["skipped", "failed", "done"]
    assert publishing.git("status", "--porcelain", ".playbooks/sessions") == ""


@pytest.mark.parametrize(("command", "code"), [("pause", 4), ("abort", 2)])
def test_a_request_to_a_runner_that_waits_for_git_is_not_lost(
    command: str, code: int, publishing: Project
) -> None:
    """It has launched nothing yet."""
    publishing.write(".playbooks/config.yaml", "commit_sessions: step\n")
    hook = Hook.put(publishing, "pre-commit")
    name = playbook(publishing, "skipped /qa.plan skip stop", PR)
    with publishing.spawn("run", name, "013", "--agent", "exec:sleep 2") as runner:
        wait_until(hook.held.exists)
        with publishing.spawn(command) as asking:
            hook.let_go()
            _, err = asking.communicate(timeout=120)
        runner.communicate(timeout=120)
    assert (asking.returncode, runner.returncode) == (0, code), err


def test_an_interrupted_push_of_an_ended_session_is_repeated_by_resume(publishing: Project) -> None:
    """Only git can be interrupted by then: the end of the session is reported."""
    hook = Hook.put(publishing, "pre-push")
    name, agent = playbook(publishing, PR), "exec:git push -q --no-verify"
    with publishing.spawn("run", name, "013", "--agent", agent) as runner:
        wait_until(hook.held.exists)
        runner.send_signal(signal.SIGTERM)
        _, err = runner.communicate(timeout=120)
    assert (runner.returncode, publishing.manifest()["status"]) == (0, "completed"), err
    assert b"the session is not pushed: git was interrupted" in err
    assert hook.ended
    hook.let_go()
    assert "its last commit is pushed" in publishing.playbook("resume").err


def test_an_interruption_during_recovery_settles_no_step(
    project: Project,
) -> None:
    with project.spawn("run", playbook(project, PR), "013", "--agent", "exec:sleep 600") as runner:
        wait_until(lambda: at_work(project, "pr"))
        runner.kill()
        runner.communicate()
    (worker,) = project.root.glob(".git/playbook/*/worker-pr#1")
    kill_worker(worker)
    before, forge = project.journal(), Hook.forge(project)
    with project.spawn("resume", "--agent", project.script("steps: {}")) as runner:
        wait_until(forge.held.exists)
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=120)
    assert (runner.returncode, project.journal()) == (130, before)
    project.gh("open")
    assert project.playbook("resume").code == 0
    assert [(entry["status"], entry["recovered"]) for entry in project.journal()] == [
        ("done", True)
    ]


def test_an_interruption_at_a_gate_leaves_it_open(project: Project) -> None:
    name = playbook(project, "qa /qa.plan auto stop", "pr /feature.pr gate_always stop")
    agent = project.script("steps: {}")
    with Terminal(project, "run", name, "013", "--agent", agent) as person:
        person.until("abort > ")
        person.process.send_signal(signal.SIGTERM)
        assert person.end() == 143
    assert project.manifest()["gate"]["id"] == "pr#1?1"
    assert "error_code" not in project.journal()[1]
    assert project.playbook("answer", "continue").code == 0
    assert project.playbook("resume").code == 0
    assert [entry["status"] for entry in project.journal()] == ["done", "done"]


def test_an_interruption_ends_a_git_that_hangs_at_a_gate(project: Project) -> None:
    """The changes that a gate shows are not asked for again: git would hang again."""
    name = playbook(project, "qa /qa.plan auto stop", "pr /feature.pr gate_always stop")
    agent = project.script("steps: {}")
    asked = hanging_diff(project)
    with project.spawn("run", name, "013", "--agent", agent, "--json") as runner:
        wait_until(asked.exists)
        runner.send_signal(signal.SIGINT)
        _, err = runner.communicate(timeout=120)
    (only,) = asked.read_text().split()
    assert (runner.returncode, gone(int(only))) == (130, True), err
    assert project.manifest()["gate"]["id"] == "pr#1?1"


def hanging_diff(project: Project) -> Path:
    """Put a `git` on PATH whose `diff` hangs; return the file that lists these processes."""
    project.gh("open")
    folder = project.root.with_name(f"{project.root.name}-bin")
    asked, git = folder / "asked", shutil.which("git")
    (folder / "git").write_text(HANGING_DIFF.format(held=asked, git=git))
    (folder / "git").chmod(0o755)
    return asked
