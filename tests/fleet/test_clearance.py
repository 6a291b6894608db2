"""A runner launches nothing before the worker of the fleet that started it has said so."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from support.controlled_time import eventually, python, wait_until
from support.scratch_project import Project
from test_journeys import playbook

from playbook_supervisor.drivers import clearance
from playbook_supervisor.drivers.clearance import Clearances
from playbook_supervisor.errors import FleetError, StorageError
from playbook_supervisor.system.process.channel import NAME, Listener

RESUME = (sys.executable, "-m", "playbook_supervisor", "resume", "--json")
# An agent that notes what it does: each step a line, and its environment.
AGENT = """\
#!{python}
import os
with open("{notes}", "a") as file:
    print("work", os.environ["PLAYBOOK_STEP"], "PLAYBOOK_CLEARANCE" in os.environ, file=file)
print("noted")
"""


class Session:
    """A session before its first step, and all that happened with it, in order."""

    def __init__(self, project: Project, *steps: str, name: str = "", settings: str = "") -> None:
        """`name` is that of a playbook that is there, whose first step is a gate."""
        self.project = project
        self.folder = project.root.with_name("private")
        self.notes = project.root.with_name("notes")
        self.notes.touch()
        agent = project.root.with_name("agent")
        agent.write_text(AGENT.format(python=sys.executable, notes=self.notes))
        agent.chmod(0o755)
        project.write(".playbooks/config.yaml", f"commit_sessions: never\n{settings}")
        name = name or playbook(project, "begin /qa.plan gate_always stop", *steps)
        ran = project.playbook("run", name, "013", "--agent", f"exec:{agent}")
        assert ran.code == 4, ran.err
        assert project.process("answer", "continue").code == 0

    def note(self, line: str) -> None:
        with self.notes.open("a") as file:
            print(line, file=file)

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines()

    def steps(self) -> list[str]:
        return [f"{each['step_id']} {each['status']}" for each in self.project.journal()]

    @contextmanager
    def asked(self, answer: Callable[[], str]) -> Iterator[subprocess.Popen[bytes]]:
        with Clearances(self.folder, answer) as clearances:
            process = subprocess.Popen(
                RESUME,
                cwd=self.project.root,
                env={**self.project.environment, **clearances.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            with process:
                clearances.admit(process.pid)
                try:
                    yield process
                finally:
                    process.kill()

    def driven(self, answer: Callable[[], str]) -> tuple[int, str]:
        """Drive it to its end; exit code and what it said on stderr."""
        with self.asked(answer) as process:
            _, err = process.communicate(timeout=120)
            return process.returncode, err.decode()


@pytest.mark.measured
def test_each_launch_is_asked_for_once_and_is_journaled_by_then(project: Project) -> None:
    session = Session(project, "second /qa.run auto stop", "third /speckit.plan auto stop")
    seen: list[list[str]] = []

    def answer() -> str:
        session.note("asked")
        seen.append(session.steps())
        return ""

    code, err = session.driven(answer)
    assert code == 0, err
    assert session.noted() == [
        *("asked", "work begin False"),
        *("asked", "work second False"),
        *("asked", "work third False"),
    ]
    assert seen == [
        ["begin in_progress"],
        ["begin done", "second in_progress"],
        ["begin done", "second done", "third in_progress"],
    ]


@pytest.mark.measured
def test_a_refusal_starts_nothing_and_the_launch_stays_journaled(project: Project) -> None:
    session = Session(project)
    code, err = session.driven(lambda: "another worker\nhas claimed it")
    assert code == 3
    assert "nothing more is launched here: another worker has claimed it" in err
    assert "PB-FLEET-OVERTAKEN" in err
    assert session.noted() == []
    assert session.steps() == ["begin in_progress"]
    code, err = session.driven(lambda: "")
    assert code == 0, err
    assert session.noted() == ["work begin False"], "it was lost, and runs again"


def test_the_members_of_a_group_and_steps_without_agents_ask_together(project: Project) -> None:
    session = Session(
        project,
        "first /qa.run auto stop parallel_group=both",
        "second /speckit.plan auto stop parallel_group=both",
    )
    asked: list[str] = []

    def answer() -> str:
        asked.append(" ".join(session.steps()))
        return ""

    code, err = session.driven(answer)
    assert code == 0, err
    assert asked == ["begin in_progress", "begin done first in_progress second in_progress"]


def test_a_step_of_an_executor_and_one_of_a_child_session_ask(project: Project) -> None:
    playbook(project, "below /speckit.plan auto stop", name="inner")
    said = project.root.with_name("said")
    project.write(
        ".playbooks/playbooks/outer.yaml",
        'name: outer\ndescription: of the test\nversion: "1.1"\n'
        "args: [{name: feature, description: its number, required: true}]\nsteps:\n"
        "  - {id: begin, command: /qa.plan, autonomy: gate_always, error_policy: stop}\n"
        f"  - {{id: own, command: cli touch {said}, autonomy: auto, error_policy: stop}}\n"
        "  - {id: nested, command: playbook inner, with: {args: {feature: '013'}},"
        " autonomy: auto, error_policy: stop}\n",
    )
    session = Session(project, name="outer")

    def answer() -> str:
        session.note(f"asked {said.exists()}")
        return ""

    code, err = session.driven(answer)
    assert code == 0, err
    assert session.noted() == [
        *("asked False", "work begin False"),
        "asked False",
        *("asked True", "work below False"),
    ]


@pytest.mark.long
def test_an_answer_may_take_long_and_an_interrupted_runner_does_not_wait_for_it(
    project: Project,
) -> None:
    """It journals the interruption, as at any other time."""
    session = Session(project)
    asked, answered, let_go = (threading.Event() for _ in range(3))

    def answer() -> str:
        asked.set()
        let_go.wait(60)
        answered.set()
        return ""

    with session.asked(answer) as process:
        assert asked.wait(60)
        time.sleep(6)  # longer than any other request may take
        assert process.poll() is None
        assert session.noted() == []
        process.send_signal(signal.SIGTERM)
        sent = time.monotonic()
        process.communicate(timeout=30)
        assert time.monotonic() - sent < 3
        assert process.returncode == 128 + signal.SIGTERM
        assert not answered.is_set()
        let_go.set()
    assert answered.is_set(), "the context ends after the answer"
    assert session.noted() == []
    assert session.steps() == ["begin failed"]


@pytest.mark.measured
def test_agents_end_with_their_runner_also_where_they_might_outlive_it(project: Project) -> None:
    """Another machine goes on: there is no one who could wait for them."""
    session = Session(project, settings="orphans: wait\n")
    agent = project.root.with_name("agent")
    agent.write_text(f"#!/bin/sh\necho $$ >> {session.notes}\nexec sleep 600\n")
    with session.asked(lambda: "") as process:
        wait_until(session.noted)
        (pid,) = map(int, session.noted())
        process.kill()
        assert eventually(lambda: not Path(f"/proc/{pid}").exists())


# ── who is at the other end ─────────────────────────────────────────────────────────────────

# Asks as a runner does, as often as it is told, and prints what it is told.
ASKS = """
import sys
from playbook_supervisor.drivers import clearance
from playbook_supervisor.errors import FleetError
ask = clearance.from_environment()
for _ in range(int(sys.argv[1])):
    try:
        ask(lambda: False)
    except FleetError as error:
        print(error.code, error.message, flush=True)
    else:
        print("cleared", flush=True)
"""
# Sends a line to the socket in a folder, without further ado.
SENDS = """
import sys
from pathlib import Path
from playbook_supervisor.system.process.channel import Connection
print(Connection(Path(sys.argv[1])).ask(sys.argv[2].encode()).decode())
"""
# Listens there, as if it were a worker.
LISTENS = """
import sys, time
from pathlib import Path
from playbook_supervisor.system.process.channel import Listener
listener = Listener(Path(sys.argv[1]), lambda pid: "", lambda line: "cleared")
print("ready", flush=True)
time.sleep(60)
"""


def started(argv: list[str], folder: Path) -> subprocess.Popen[str]:
    env = {**os.environ, clearance.VARIABLE: str(folder)}
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)


def told(argv: list[str], folder: Path, clearances: Clearances | None = None) -> list[str]:
    """What a process is told; the one that is admitted, where `clearances` are given."""
    with started(argv, folder) as process:
        if clearances is not None:
            clearances.admit(process.pid)
        out, _ = process.communicate(timeout=60)
        return out.splitlines()


def test_only_the_process_that_is_admitted_is_answered(tmp_path: Path) -> None:
    """Not one that knows the folder, nor one that asks for something else."""
    folder, answered = tmp_path / "private", SimpleQueue[int]()

    def answer() -> str:
        answered.put(1)
        return ""

    with Clearances(folder, answer) as clearances:
        assert folder.stat().st_mode & 0o777 == 0o700
        clearances.admit(os.getppid())
        (said,) = told(python(SENDS, folder, "launch"), folder)
        assert said.endswith("is not the session's runner")
        (said,) = told(python(SENDS, folder, "other"), folder, clearances)
        assert said == "the request cannot be understood"
        assert answered.empty()
        assert told(python(ASKS, 2), folder, clearances) == ["cleared", "cleared"]
        assert answered.qsize() == 2


def test_a_runner_that_is_never_admitted_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clearance, "_ADMISSION", 0.1)
    with Clearances(tmp_path, lambda: ""):
        (said,) = told(python(ASKS, 1), tmp_path)
    assert "is not the session's runner" in said


@pytest.mark.measured
def test_a_runner_believes_no_process_that_has_not_started_it(tmp_path: Path) -> None:
    """An agent may put a socket of its own into the folder."""
    with started(python(LISTENS, tmp_path), tmp_path) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "ready\n"
        (said,) = told(python(ASKS, 1), tmp_path)
        agent.kill()
    assert said.startswith("PB-FLEET-OVERTAKEN ")
    assert said.endswith(f"process {agent.pid}, which has not started this one, listens there")


@pytest.mark.measured
def test_a_runner_whose_worker_has_ended_launches_nothing(tmp_path: Path) -> None:
    (said,) = told(python(ASKS, 1), tmp_path)
    assert "its worker cannot be asked: No such file" in said


def test_a_worker_that_ends_meanwhile_clears_nothing(tmp_path: Path) -> None:
    asked, seen = threading.Event(), SimpleQueue[bool]()

    def answer() -> str:
        seen.put(clearances.waited)
        asked.set()
        while clearances.waited:  # as a push that is tried again and again
            time.sleep(0.01)
        return ""

    with started(python(ASKS, 1), tmp_path) as runner:
        with Clearances(tmp_path, answer) as clearances:
            clearances.admit(runner.pid)
            assert asked.wait(60)
        out, _ = runner.communicate(timeout=60)
    assert seen.get()
    assert not clearances.waited
    assert "its worker has ended" in out


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FleetError("PB-FLEET-BRANCH", "the branch has moved"), "the branch has moved"),
        (KeyError("x"), "internal error: KeyError: 'x'"),
    ],
    ids=["ours", "bug"],
)
def test_an_answer_that_fails_is_a_refusal(error: Exception, expected: str, tmp_path: Path) -> None:
    def answer() -> str:
        raise error

    with Clearances(tmp_path, answer) as clearances:
        (said,) = told(python(ASKS, 1), tmp_path, clearances)
    assert said == f"PB-FLEET-OVERTAKEN nothing more is launched here: {expected}"


@pytest.mark.measured
def test_a_runner_whose_worker_is_beset_tries_again(tmp_path: Path) -> None:
    """Others have connected first, as many as the system lets wait."""
    name = str(tmp_path / NAME)
    with socket.socket(socket.AF_UNIX) as ours, socket.socket(socket.AF_UNIX) as other:
        ours.bind(name)
        ours.listen(0)
        other.connect(name)
        with started(python(ASKS, 1), tmp_path) as runner:
            assert runner.stdout is not None
            time.sleep(1.0)
            assert runner.poll() is None
            ours.accept()[0].close()
            accepted, _ = ours.accept()
            with accepted:
                assert accepted.recv(100) == b"launch\n"
                accepted.sendall(b"cleared\n")
            assert runner.stdout.readline() == "cleared\n"


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot use .*file/private"):
        Clearances(tmp_path / "file" / "private", lambda: "").__enter__()


def test_a_runner_of_no_fleet_asks_no_one() -> None:
    assert clearance.from_environment() is None


def test_a_folder_that_is_gone_holds_no_socket(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot listen at"):
        Listener(tmp_path / "gone", lambda _: "", lambda _: "")
