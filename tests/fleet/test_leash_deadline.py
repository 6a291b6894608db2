"""A leash with a deadline ends all that it holds in time, whatever becomes of the worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.controlled_time import eventually, gone, python, wait_until
from support.scratch_project import Project
from test_journeys import playbook, summary

from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.leash_process import now
from playbook_supervisor.system.process.process_groups import worker_alive
from playbook_supervisor.system.process.processes import Worker

LATE = 1.0
"""Seconds after a deadline within which a busy machine has ended everything."""
# A child that lets SIGTERM pass, a process below it that does so, and one that has also left its
# session, its parent and its descriptors. It prints the three numbers, its own last.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
reader, writer = os.pipe()
def say(): os.write(writer, b"%d\\n" % os.getpid())
if os.fork() == 0:
    say()
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    say()
    os.closerange(0, 1000)
    os.execve("/bin/sleep", ["sleep", "600"], {})
os.wait()
said = b""
while said.count(b"\\n") < 2: said += os.read(reader, 100)
os.write(1, said + b"%d\\n" % os.getpid())
time.sleep(600)
"""
# Stands for a worker of the fleet: `term notice argv…`. It puts the deadline off five times within
# the term, as long as it runs. A term of 0: the child has no deadline.
WORKER = """
import os, sys, threading, time
from pathlib import Path
from playbook_supervisor.system.process.leash_process import now
from playbook_supervisor.system.process.processes import Worker
term, notice, *argv = sys.argv[1:]
term = float(term)
kept = {"deadline": now() + term, "notice": float(notice)} if term else {}
worker = Worker(argv, cwd=Path.cwd(), worker_file=Path("child"), **kept)
def keep():
    while term:
        time.sleep(term / 5)
        worker.prolong(now() + term)
threading.Thread(target=keep, daemon=True).start()
for line in worker.lines():
    print(line, flush=True)
print("ended", worker.returncode, worker.stopped_by, flush=True)
"""


@contextmanager
def working(
    folder: Path, *argv: str, term: float, notice: float = 0.5
) -> Iterator[subprocess.Popen[str]]:
    """A worker of the fleet with that child. What is left of it is killed in the end."""
    folder.mkdir(exist_ok=True)
    words = [*python(WORKER, term, notice), *argv]
    with subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def numbers(worker: subprocess.Popen[str], how_many: int) -> list[int]:
    assert worker.stdout is not None
    return [int(worker.stdout.readline()) for _ in range(how_many)]


def all_gone(pids: list[int]) -> bool:
    return all(gone(pid) for pid in pids)


def test_at_the_deadline_nothing_is_left(tmp_path: Path) -> None:
    deadline = now() + 2.0
    worker = Worker(
        python(STUBBORN), cwd=tmp_path, worker_file=tmp_path / "w", deadline=deadline, notice=0.5
    )
    left = [int(line) for line in worker.lines()]
    assert deadline <= now() < deadline + LATE
    assert len(left) == 3
    assert all_gone(left)
    assert (worker.returncode, worker.stopped_by) == (-signal.SIGKILL, "deadline")
    assert not worker.kept
    assert not worker_alive(tmp_path / "w")


def test_a_deadline_that_is_put_off_ends_nothing(tmp_path: Path) -> None:
    with working(tmp_path, "sh", "-c", "sleep 3; echo 1", term=1.0, notice=0.2) as worker:
        assert numbers(worker, 1) == [1]
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ended 0 \n"


def test_a_child_that_ends_by_itself_leaves_nothing_behind(tmp_path: Path) -> None:
    """The notice is for the child: what it has left behind is not given as long."""
    began = now()
    worker = Worker(
        python("import os, sys\nif os.fork() == 0: exec(sys.argv[1])", STUBBORN),
        cwd=tmp_path,
        worker_file=tmp_path / "w",
        deadline=began + 60,
        notice=20,
    )
    list(worker.lines())
    assert now() - began < 10
    assert (worker.returncode, worker.stopped_by) == (0, "")
    assert len(worker.left) == 3


def test_the_child_is_asked_first_and_the_others_after_half_of_the_notice(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\n"
        "from playbook_supervisor.system.process.leash_process import now\n"
        "signal.signal(signal.SIGTERM, lambda *_: print(os.getpid(), now(), flush=True))\n"
        "child = os.fork()\n"
        "if child: print(os.getpid(), child, flush=True)\n"
        "else: os.setsid()\n"
        "while True: time.sleep(60)"
    )
    deadline = now() + 3.0
    worker = Worker(
        python(code), cwd=tmp_path, worker_file=tmp_path / "w", deadline=deadline, notice=2.0
    )
    (first, second), *asked = [line.split() for line in worker.lines()]
    asked_at = {pid: float(when) for pid, when in reversed(asked)}
    assert worker.pid == int(first)
    assert deadline - 2.0 <= asked_at[first] < deadline - 1.0
    assert deadline - 1.0 <= asked_at[second] < deadline


@pytest.mark.long
def test_a_frozen_worker_holds_nothing_up(tmp_path: Path) -> None:
    with working(tmp_path, *python(STUBBORN), term=1.5) as worker:
        pids = numbers(worker, 3)
        time.sleep(2.0)
        assert not any(map(gone, pids)), "the worker puts the deadline off"
        worker.send_signal(signal.SIGSTOP)
        frozen = now()
        assert eventually(lambda: all_gone(pids))
        assert now() < frozen + 1.5 + LATE
        worker.send_signal(signal.SIGCONT)
        assert worker.stdout is not None
        assert worker.stdout.read() == "ended -9 deadline\n"


def test_what_thaws_after_the_deadline_is_killed_at_once(tmp_path: Path) -> None:
    """Everything was stopped, as in a machine that is suspended: there is no time to ask."""
    deadline = now() + 1.5
    worker = Worker(
        python(STUBBORN), cwd=tmp_path, worker_file=tmp_path / "w", deadline=deadline, notice=1.0
    )
    lines = worker.lines()
    pids = [int(next(lines)) for _ in range(3)]
    leash = worker._process.pid
    for pid in (leash, *pids):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(deadline - now() + 0.5)
    assert not any(map(gone, pids))
    for pid in (leash, *pids):
        with suppress(ProcessLookupError):  # the leash was fast
            os.kill(pid, signal.SIGCONT)
    thawed = now()
    assert eventually(lambda: all_gone(pids))
    assert now() < thawed + 0.8, "not after the notice of a second"
    assert list(lines) == []


def test_only_what_the_child_has_started_is_signalled(tmp_path: Path) -> None:
    """Not the worker, its other children, nor a program in the group of either."""
    heard = (
        "import signal, sys, time\n"
        "for each in set(signal.valid_signals()) - {9, 19}:\n"
        "    signal.signal(each, lambda number, _: print(number, flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )
    other = Worker(
        python(heard), cwd=tmp_path, worker_file=tmp_path / "o", deadline=now() + 60, notice=1.0
    )
    beside = subprocess.Popen(python(heard), stdout=subprocess.PIPE, text=True)
    with beside:
        assert beside.stdout is not None
        assert beside.stdout.readline() == "ready\n"
        lines = other.lines()
        assert next(lines) == "ready"
        worker = Worker(
            python(STUBBORN),
            cwd=tmp_path,
            worker_file=tmp_path / "w",
            deadline=now() + 1.0,
            notice=0.8,
        )
        assert all_gone([int(line) for line in worker.lines()])
        assert not gone(other.pid)
        beside.kill()
        assert beside.stdout.read() == ""
    os.kill(other.pid, signal.SIGKILL)
    assert list(lines) == [], "no signal has reached it"


def test_a_deadline_is_on_the_clock_that_suspension_does_not_stop() -> None:
    if sys.platform == "linux":
        assert abs(now() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1.0


# ── the real runner as the child ────────────────────────────────────────────────────────────

RESUME = (sys.executable, "-m", "playbook_supervisor", "resume", "--json")
# Writes the time into a file, again and again, and lets SIGTERM pass; so does its daemon, which
# has left everything. Both give their numbers first, and end after some seconds by themselves.
AGENT = """\
#!{python}
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def beat(kind):
    with open("{beats}", "a", buffering=1) as file:
        print(kind, os.getpid(), time.time(), file=file)
def work(kind, until):
    while time.monotonic() < until:
        beat(kind)
        time.sleep(0.02)
until = time.monotonic() + {seconds}
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.closerange(0, 1000)
    work("daemon", until)
    os._exit(0)
work("agent", until)
"""


class Session:
    """A session whose gate is answered, so that `resume` starts its agent."""

    def __init__(self, project: Project, *, seconds: float, settings: str = "") -> None:
        self.project = project
        self.beats = project.root.with_name(f"{project.root.name}-beats")
        agent = project.root.with_name(f"{project.root.name}-agent")
        agent.write_text(AGENT.format(python=sys.executable, beats=self.beats, seconds=seconds))
        agent.chmod(0o755)
        project.write(".playbooks/config.yaml", f"commit_sessions: never\n{settings}")
        name = playbook(project, "qa /qa.plan gate_always stop")
        assert project.playbook("run", name, "013", "--agent", f"exec:{agent}").code == 4
        assert project.process("answer", "continue").code == 0

    @contextmanager
    def driven(self, term: float, notice: float = 0.5) -> Iterator[subprocess.Popen[str]]:
        """A worker drives it; both kinds of process are at work."""
        with working(self.project.root, *RESUME, term=term, notice=notice) as worker:
            wait_until(lambda: len(self.processes()) == 2)
            yield worker

    def processes(self) -> dict[str, int]:
        return {kind: int(pid) for kind, pid, _ in self.read()}

    def times(self) -> list[float]:
        return [float(when) for _, _, when in self.read()]

    def read(self) -> list[list[str]]:
        lines = self.beats.read_text().splitlines() if self.beats.exists() else []
        return [words for line in lines if len(words := line.split()) == 3]


def test_a_frozen_worker_keeps_no_agent_at_work(project: Project) -> None:
    """Nor its daemon, and also where agents may outlive their runner."""
    session = Session(project, seconds=60, settings="orphans: wait\n")
    with session.driven(term=2.0) as worker:
        ours = [*session.processes().values()]
        (resumes,) = (
            each.pid
            for each in ancestry.ancestors(session.processes()["agent"])
            if "resume" in Path(f"/proc/{each.pid}/cmdline").read_text() and each.pid != worker.pid
        )
        worker.send_signal(signal.SIGSTOP)
        frozen = time.time()
        assert eventually(lambda: all_gone([*ours, resumes]))
        assert max(session.times()) < frozen + 2.0 + LATE


@pytest.mark.long
def test_a_child_that_is_asked_to_end_journals_it(project: Project) -> None:
    session = Session(project, seconds=60)
    with session.driven(term=12.0, notice=11.0) as worker:
        worker.send_signal(signal.SIGSTOP)
        assert eventually(lambda: all_gone([*session.processes().values()]))
        assert eventually(lambda: not worker_alive(project.root / "child"))
        worker.send_signal(signal.SIGCONT)
        assert worker.stdout is not None
        *printed, ended = worker.stdout.read().splitlines()
        assert ended == f"ended {128 + signal.SIGTERM} deadline"
        assert json.loads("\n".join(printed))["session"]
    assert summary(project.journal())[-1][:2] == ("qa", "failed")
    assert "interrupted" in json.dumps(project.journal()[-1])
