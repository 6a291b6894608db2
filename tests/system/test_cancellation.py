"""A request to stop ends the program that this thread waits for, and no other."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from support.controlled_time import gone

from playbook_supervisor.system.process.cancellation import (
    Interrupted,
    cancel_requested,
    cancelled_by,
    uncancellable,
    within,
)
from playbook_supervisor.system.process.child_process import read_outputs
from playbook_supervisor.system.process.processes import run


def test_a_request_to_stop_ends_the_program(tmp_path: Path) -> None:
    calls = iter([False, True])
    with cancelled_by(lambda: next(calls)), pytest.raises(Interrupted):
        run(["sleep", "600"], cwd=tmp_path)


def test_a_request_to_stop_ends_programs_that_run_side_by_side(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    sleeps = 'echo $$ > "$0.half"; mv "$0.half" "$0"; exec sleep 600'
    commands = [["sh", "-c", sleeps, str(file)] for file in files]
    both_started = cancelled_by(lambda: all(file.exists() for file in files))
    with both_started, pytest.raises(Interrupted):
        read_outputs(commands, os.environ, timeout=60, cap=1000)
    assert all(gone(int(file.read_text())) for file in files)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="the system cannot wait without reaping")
def test_a_request_after_the_end_of_the_program_changes_nothing(tmp_path: Path) -> None:
    """It is called at the moment after its end."""
    pid = tmp_path / "pid"

    def once_it_has_ended() -> bool:
        if not pid.exists():
            return False
        os.waitid(os.P_PID, int(pid.read_text()), os.WEXITED | os.WNOWAIT)
        return True

    says = "echo yes; echo $$ > half; mv half pid; sleep 0.5"
    with cancelled_by(once_it_has_ended):
        done = run(["sh", "-c", says], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "yes\n")


def test_cleaning_up_is_not_cancelled(tmp_path: Path) -> None:
    with cancelled_by(lambda: True):
        with uncancellable():
            assert run(["sleep", "0.3"], cwd=tmp_path).returncode == 0
        assert cancel_requested()
    assert not cancel_requested()


@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGHUP, SystemExit)],
)
def test_a_signal_without_a_handler_ends_the_program_and_then_us(
    number: int, raised: type[BaseException], tmp_path: Path
) -> None:
    """The program itself sends it, so that we are waiting for it."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    sends = f"echo $$ > pid; kill -{number} {os.getpid()}; exec sleep 600"
    with pytest.raises(raised) as caught:
        run(["sh", "-c", sends], cwd=tmp_path)
    after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    signal.signal(signal.SIGHUP, former)
    assert after == handlers
    assert gone(int((tmp_path / "pid").read_text()))
    if raised is SystemExit:
        assert caught.value.args == (128 + number,)


def test_a_signal_with_a_handler_is_left_to_it(tmp_path: Path) -> None:
    heard: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        sends = f"kill -TERM {os.getpid()}; sleep 0.1; echo on"
        assert run(["sh", "-c", sends], cwd=tmp_path).stdout == "on\n"
    finally:
        signal.signal(signal.SIGTERM, former)
    assert heard == [signal.SIGTERM]


def test_a_program_of_another_thread_continues() -> None:
    heard: list[bool] = []
    with cancelled_by(lambda: True):
        other = threading.Thread(target=lambda: heard.append(cancel_requested()))
        other.start()
        other.join()
    assert heard == [False]


def test_programs_have_so_much_time_together(tmp_path: Path) -> None:
    with within(600):
        assert run(["true"], cwd=tmp_path).returncode == 0
    with pytest.raises(TimeoutError), within(0.3):
        run(["sleep", "600"], cwd=tmp_path)


def test_a_request_to_stop_is_not_taken_for_a_deadline(tmp_path: Path) -> None:
    with cancelled_by(lambda: True), pytest.raises(Interrupted), within(600):
        run(["sleep", "600"], cwd=tmp_path)
