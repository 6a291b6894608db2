"""SIGINT, SIGTERM and kill -9 in every phase of a run by the real client; what continues then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest
from support.scratch_project import Project

from claude.client import Client
from claude.conftest import FREE, Open
from claude.conversation import OVERLOADED, Pause, Reply, Request, call, text
from claude.obedient import Obedient
from claude.runner import Headless, command_of, works
from claude.scripts import FILES
from claude.streams import AT_ONCE, SUBSCRIBED, limit
from playbook_supervisor.system.process.process_groups import until, worker_alive

INTERRUPTED = "PB-STATE-INTERRUPTED"


@dataclass(frozen=True)
class Phase:
    """Where a run is when it is interrupted: what the model says until then, and how that shows.

    `asked` waits for so many requests of the model's, `told` for words on stderr.
    """

    script: Callable[[Request], Reply | None] = lambda request: None
    asked: int = 0
    told: str = ""
    env: tuple[tuple[str, str], ...] = ()
    config: str = ""


def _tool(request: Request) -> Reply | None:
    return None if request.calls else [call("Bash", command="echo > begun; sleep 600")]


PHASES = {
    "answering": Phase(lambda request: [text("I begin."), Pause()], asked=1),
    "in-a-tool": Phase(_tool, told="Bash echo", config="{allowed_tools: [Bash]}"),
    "backing-off": Phase(
        lambda request: OVERLOADED, told="trying again in 1 s", env=tuple(AT_ONCE.items())
    ),
    "limited": Phase(
        lambda request: limit(1_950_000_000),
        told="waiting until",
        env=tuple(SUBSCRIBED.items()),
        config="{wait_for_limit: true}",
    ),
}
TERMINATED = {"answering", "backing-off"}
"""The phases that SIGTERM interrupts; SIGINT the others."""


@pytest.mark.sampled("in-a-tool")
@pytest.mark.parametrize("name", PHASES)
def test_a_run_is_interrupted_in_each_phase_and_continues(
    name: str, headless: Headless, project: Project
) -> None:
    phase, over = PHASES[name], False
    number = signal.SIGTERM if name in TERMINATED else signal.SIGINT
    if phase.config:
        project.write(".playbooks/config.yaml", f"agents: {{claude: {phase.config}}}\n")

    def script(request: Request) -> Reply:
        return (None if over else phase.script(request)) or works(request)

    client = headless(script, **dict(phase.env))
    with project.spawn("run", "one", "--log-level", "debug") as runner:
        if phase.told:
            heard(runner, phase.told)
        if phase.asked:
            client.model.wait_for(lambda request: request.number == phase.asked)
        runner.send_signal(number)
        _, err = runner.communicate(timeout=100)
    over = True
    assert runner.returncode == 128 + number
    assert "continue: playbook resume" in err.decode()
    (entry,) = project.journal()
    assert (entry["status"], entry["error_code"]) == ("failed", INTERRUPTED)
    assert client.processes() == []
    done = project.playbook("resume")
    assert done.code == 0, done.err
    assert [entry["status"] for entry in project.journal()] == ["failed", "done"]


def heard(runner: subprocess.Popen[bytes], words: str) -> None:
    """Read on until it says so."""
    assert runner.stderr
    while words.encode() not in (line := runner.stderr.readline()):
        assert line, f"it ended before it said {words!r}"


# ── kill -9 ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class Held:
    """A model that stops in the middle of a command; once it is free, it does all.

    `begun` is set as soon as it has decided to stop.
    """

    command: str
    free: bool = False
    begun: Event = field(default_factory=Event)

    def __call__(self, request: Request) -> Reply:
        if self.free or command_of(request) != self.command or request.calls:
            return works(request)
        path, content = FILES[self.command]
        self.begun.set()
        return [text("I begin."), Pause(), call("Write", file_path=path, content=content)]


def orphaned(project: Project, client: Client, held: Held) -> None:
    """A run whose runner is killed, and whose client keeps running, as the settings say."""
    project.write(".playbooks/config.yaml", "orphans: wait\n")
    killed(project, held)
    assert client.processes()


def killed(project: Project, held: Held) -> None:
    """A run whose runner is killed while its client works on that command."""
    with project.spawn("run", "straight") as runner:
        assert held.begun.wait(100), f"{held.command} was not asked for"
        runner.kill()
        runner.communicate(timeout=100)
    held.free = True


def test_the_client_ends_with_a_runner_that_was_killed(
    headless: Headless, project: Project
) -> None:
    held = Held("speckit.tasks")
    client = headless(held)
    killed(project, held)
    assert until(lambda: client.processes() == [], 100)
    done = project.playbook("resume")
    assert done.code == 0, done.err
    assert steps(project) == ["plan#1 done", "tasks#1 failed", "tasks#2 done"]


KILLS = int(os.environ.get("CLAUDE_KILLS", "2"))
"""How many kills at random moments; `make fuzz` takes more."""


@pytest.mark.usefixtures("start")
def test_kills_at_random_moments_lose_nothing_and_double_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """kai NFR2, S-M1: each step's work is done once, no matter which process is killed."""
    tests = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, str(tests / "claude/killed.py"), str(KILLS), "7"],
        env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["lost"], found["doubled"]) == ([], []), found
    assert found["kills"] >= KILLS
    with capsys.disabled():
        print(f"\nkilled while real clients work: {found}")


def steps(project: Project) -> list[str]:
    """Each entry as `attempt status`."""
    return [f"{e['step_id']}#{e.get('attempt', 1)} {e['status']}" for e in project.journal()]


def commands(client: Client) -> list[str]:
    """What clients began to work on, in order."""
    return [command_of(request) for request in client.model.main if not request.calls]


# ── one session, two drivers ────────────────────────────────────────────────────────────────


@dataclass
class Both(Held):
    """The model of headless clients, and of one that supervises."""

    supervising: Obedient = field(default_factory=Obedient)

    def __call__(self, request: Request) -> Reply:
        own = command_of(request) in FILES and not request.agent
        return super().__call__(request) if own else self.supervising(request)


def test_begun_headless_and_killed_it_is_finished_in_the_terminal_interface(
    headless: Headless, project: Project, open_terminal: Open
) -> None:
    """What still runs then is not repeated beside it."""
    assert project.playbook("init", "--yes").code == 0
    held = Both("speckit.tasks")
    client = headless(held)
    orphaned(project, client, held)
    terminal = open_terminal(client, *FREE)
    terminal.say("/playbook.resume")
    terminal.wait_for(
        r"the worker of tasks#1 is still running\s+do: Wait for it, or `playbook resume \S+ --kill`"
    )
    (worker,) = project.root.glob(".git/playbook/*/worker-tasks#1")
    client.model.release()
    assert until(lambda: not worker_alive(worker), 100)
    terminal.say("/playbook.resume")
    terminal.wait_for("straight: completed")
    assert steps(project) == ["plan#1 done", "tasks#1 done"]
    assert project.journal()[1]["recovered"] is True
    assert commands(client).count("speckit.tasks") == 1
    assert client.model.subagents == []


def test_begun_in_the_client_and_killed_it_is_finished_headless(
    headless: Headless, project: Project
) -> None:
    assert project.playbook("init", "--yes").code == 0
    both = Both("", supervising=Obedient(held={"speckit.tasks"}))
    client = headless(both)
    running = client.spawn("/playbook.run straight", *FREE)
    client.model.wait_for(lambda request: "Skill `speckit.tasks`" in request.prompt)
    running.kill()
    done = project.playbook("resume", "--agent", "claude")
    assert done.code == 0, done.err
    assert steps(project) == ["plan#1 done", "tasks#1 failed", "tasks#2 done"]
    assert project.journal()[2]["agent"]["name"] == "claude"
