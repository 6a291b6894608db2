"""Reminding people of a gate that still waits, and of no other."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cli.scripts import GATED, WORKS
from cli.terminal import Terminal
from support.controlled_time import gone, wait_until
from support.scratch_project import Project

from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers.notifications import Notice, claim, seconds_left
from playbook_supervisor.system.git import checkout

GATE = Notice("20260219-a7k", "publish#1?1", "It waits.", waits=True)
END = Notice("20260219-a7k", "completed after 3", "It is over.")

CLAIMS = """\
import sys
from pathlib import Path
from playbook_supervisor.drivers.notifications import Notice, claim
notice = Notice("20260219-a7k", "publish#1?1", "It waits.", waits=True)
print("ready", flush=True)
sys.stdin.readline()
print(claim(notice, Path(sys.argv[1]), float(sys.argv[2])))
"""


class Clock:
    """The time that `claim` sees."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("playbook_supervisor.drivers.notifications.time", clock)
    return clock


def claimed(clock: Clock, private: Path, *times: float, notice: Notice = GATE) -> list[bool]:
    """Whether the notice may be sent after each of these pauses, with `remind_after: 60`."""
    found = []
    for pause in times:
        clock.now += pause
        found.append(claim(notice, private, 60))
    return found


class TestAClaim:
    def test_of_a_gate_succeeds_again_after_so_many_seconds(
        self, tmp_path: Path, clock: Clock
    ) -> None:
        assert claimed(clock, tmp_path, 0, 59, 1, 59, 1) == [True, False, True, False, True]

    def test_of_an_end_succeeds_once(self, tmp_path: Path, clock: Clock) -> None:
        assert claimed(clock, tmp_path, 0, 3600, notice=END) == [True, False]

    def test_counts_from_now_if_the_clock_was_set_back(self, tmp_path: Path, clock: Clock) -> None:
        assert claim(GATE, tmp_path, 60)
        assert claimed(clock, tmp_path, -500_000, 59, 1) == [False, False, True]

    def test_of_what_an_earlier_version_recorded_is_due(self, tmp_path: Path, clock: Clock) -> None:
        (tmp_path / "called").write_text(GATE.about)
        assert not claim(GATE, tmp_path)
        assert claimed(clock, tmp_path, 0, 59) == [True, False]

    def test_says_how_long_it_takes_until_the_next(self, tmp_path: Path, clock: Clock) -> None:
        assert seconds_left(GATE, tmp_path, 60) == 60
        claim(GATE, tmp_path, 60)
        clock.now += 20
        assert seconds_left(GATE, tmp_path, 60) == 40
        assert seconds_left(END, tmp_path, 60) == 60
        clock.now += 50
        assert seconds_left(GATE, tmp_path, 60) == 0

    @pytest.mark.parametrize("remind_after", [3600])
    def test_succeeds_in_one_of_several_processes(self, tmp_path: Path, remind_after: int) -> None:
        if remind_after:
            (tmp_path / "called").write_text(f"{GATE.about}\n1000.0")  # long ago
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", CLAIMS, str(tmp_path), str(remind_after)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[0] for process in processes]
        assert sorted(said) == ["False\n"] * 3 + ["True\n"]


# ── while a runner waits ────────────────────────────────────────────────────────────────────


@pytest.fixture
def gated(project: Project) -> Project:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.write("call", "#!/bin/sh\ncat >> called\n").chmod(0o755)
    project.write(".playbooks/config.yaml", "notify: [./call]\nremind_after: 0.3\n")
    return project


def called(project: Project) -> list[str]:
    file = project.root / "called"
    return file.read_text().splitlines() if file.exists() else []


def test_a_runner_at_its_prompt_reminds_until_the_answer(gated: Project) -> None:
    with Terminal(gated, "run", "gated", "--agent", gated.script(WORKS)) as terminal:
        terminal.until("abort > ")
        wait_until(lambda: len(called(gated)) >= 3)
        terminal.type("continue\n")
        assert terminal.end() == 0
    *gates, end = called(gated)
    assert len(set(gates)) == 1
    assert "waits for you at publish#1?1" in gates[0]
    assert end.endswith("completed, 1/1 step")
    time.sleep(0.8)
    assert called(gated) == [*gates, end]


@pytest.mark.measured
def test_a_reminder_that_hangs_does_not_delay_the_end(gated: Project) -> None:
    """Its program is ended with the gate."""
    gated.write(
        "call", "#!/bin/sh\ncat >> called\n[ -e again ] || exit 0\necho $$ > pid\nexec sleep 600\n"
    )
    with Terminal(gated, "run", "gated", "--agent", gated.script(WORKS)) as terminal:
        terminal.until("abort > ")
        wait_until(lambda: len(called(gated)) >= 2)  # a reminder is the next, no first notice
        gated.write("again", "")
        pid = gated.root / "pid"
        wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        (gated.root / "again").unlink()
        terminal.type("abort\n")
        assert terminal.end() == 2
    wait_until(lambda: gone(int(pid.read_text())))


def test_a_runner_that_does_not_wait_leaves_no_thread(gated: Project) -> None:
    drive = DriveOptions(agent=gated.script(WORKS))
    before = threading.active_count()
    assert driving.run("gated", cwd=gated.root, drive=drive).why == "waiting"
    assert threading.active_count() == before
    time.sleep(0.6)
    assert len(called(gated)) == 1


def test_a_resumed_session_reminds_if_that_is_due(gated: Project) -> None:
    drive = DriveOptions(agent=gated.script(WORKS))
    assert driving.run("gated", cwd=gated.root, drive=drive).why == "waiting"
    time.sleep(0.4)
    assert driving.resume(cwd=gated.root).why == "waiting"
    assert len(called(gated)) == 2


@pytest.mark.measured
def test_a_reminder_leaves_an_answered_gate_alone(gated: Project) -> None:
    from playbook_supervisor.commands import locate
    from playbook_supervisor.drivers.notifier import still_waits

    drive = DriveOptions(agent=gated.script(WORKS))
    waiting = driving.run("gated", cwd=gated.root, drive=drive).snapshot
    assert still_waits(waiting)
    driving.answer(["continue"], cwd=gated.root)
    assert not still_waits(waiting)
    store, session = locate.select("", gated.root)
    assert not still_waits(locate.tree(store, session).look())
    assert checkout.find(gated.root).runtime == waiting.private.parent
