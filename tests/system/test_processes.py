"""Processes end as a group and in time, and their captured output is bounded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture
from support.controlled_time import HOUR, eventually, gone, put_clock_forward, python, shorten_grace

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.system.process.capture import Capture, LineSplitter, redact
from playbook_supervisor.system.process.process_groups import kill_worker, worker_alive
from playbook_supervisor.system.process.processes import Worker, run

FOREVER = 600
"""Seconds that no test waits for: tests put the clock forward instead."""


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    open("said", "w").close()
time.sleep(600)
"""
"""A leader and its child that ignore SIGTERM; the child prints its id."""


# ── short commands ──────────────────────────────────────────────────────────────────────────


def test_a_command_is_run_to_its_end_with_its_own_environment(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), dict(os.environ), file=sys.stderr); sys.exit(3)"
    done = run(python(code), cwd=tmp_path, env={"ONLY": "this", "LC_CTYPE": "C.UTF-8"})
    assert (done.returncode, done.stdout, done.timed_out, done.truncated) == (3, "", False, False)
    assert done.stderr == f"{tmp_path} {{'ONLY': 'this', 'LC_CTYPE': 'C.UTF-8'}}\n"


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    hostile = "$(touch pwned); `touch pwned` && * | touch pwned\n-rf"
    code = "import sys; sys.stdout.write(sys.argv[1])"
    assert run(python(code, hostile), cwd=tmp_path).stdout == hostile
    assert not list(tmp_path.iterdir())


def test_input_larger_than_a_pipe_is_fed_while_output_is_read(tmp_path: Path) -> None:
    assert run(["cat"], cwd=tmp_path, stdin=b"0123456789" * 30_000).stdout == "0123456789" * 30_000


def test_no_terminal_and_no_descriptor_is_inherited(tmp_path: Path) -> None:
    code = (
        "import os\nprint(os.getsid(0) == os.getpid())\n"
        "for fd in range(3, 256):\n"
        "    try: os.fstat(fd); print('inherited', fd)\n"
        "    except OSError: pass\n"
    )
    read, write = os.pipe()
    os.set_inheritable(read, True)
    try:
        assert run(python(code), cwd=tmp_path).stdout == "True\n"
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["no-such-program"], "No such file"),
        ([], "cannot start"),
        (["./not-executable"], "Permission denied"),
        (["echo", "nul\0"], "null byte"),
        (["echo", "x" * 10_000_000], "too long"),
    ],
)
def test_a_program_that_cannot_be_started_is_a_clear_error(
    tmp_path: Path, argv: list[str], reason: str
) -> None:
    (tmp_path / "not-executable").write_text("#!/bin/sh\n")
    with pytest.raises(StorageError, match=reason) as caught:
        run(argv, cwd=tmp_path)
    assert caught.value.code == "PB-IO-PROGRAM"
    assert caught.value.guidance


def test_a_vanished_folder_is_not_mistaken_for_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is gone") as caught:
        run(["true"], cwd=tmp_path / "gone")
    assert caught.value.code == "PB-IO-READ"


def test_at_the_timeout_the_whole_group_ends_even_if_it_ignores_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    put_clock_forward(monkeypatch, lambda: HOUR * (tmp_path / "said").exists())
    done = run(python(STUBBORN), cwd=tmp_path, timeout=FOREVER)
    assert (done.returncode, done.timed_out) == (-signal.SIGKILL, True)
    assert eventually(lambda: gone(int(done.stdout)))


def test_no_zombie_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say = "import os; print(os.getpid(), flush=True)"
    ended = run(python(say), cwd=tmp_path)
    put_clock_forward(monkeypatch, lambda: HOUR * (tmp_path / "said").exists())
    hang = f"{say}; open('said', 'w').close(); import time; time.sleep({FOREVER})"
    stopped = run(python(hang), cwd=tmp_path, timeout=FOREVER)
    for done in (ended, stopped):
        with pytest.raises(ProcessLookupError):
            os.kill(int(done.stdout), 0)


# ── workers ─────────────────────────────────────────────────────────────────────────────────


def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    code = (
        "import sys\nfor line in sys.stdin: pass\nprint('first', flush=True)\n"
        "import pathlib, time\nwhile not pathlib.Path('seen').exists(): time.sleep(0.01)\n"
        "sys.stdout.write('second\\r\\n\\nlast without an end')"
    )
    worker = Worker(python(code), cwd=tmp_path, stdin=b"a\nb\n")
    lines = worker.lines()
    assert next(lines) == "first"
    still_running = worker.returncode is None
    assert still_running
    (tmp_path / "seen").touch()
    assert list(lines) == ["second", "", "last without an end"]
    assert (worker.returncode, worker.stopped_by) == (0, "")
    assert worker.stdout == "first\nsecond\r\n\nlast without an end"


@pytest.mark.parametrize("leashed", [False, True])
def test_a_caller_can_talk_with_the_child(leashed: bool, tmp_path: Path) -> None:
    code = "import sys\nfor line in sys.stdin: print('re:', line, end='', flush=True)\n"
    theirs, ours = os.pipe()
    worker_file = tmp_path / "worker" if leashed else None
    worker = Worker(python(code), cwd=tmp_path, stdin=theirs, worker_file=worker_file)
    os.close(theirs)
    lines = worker.lines()
    for word in (b"one\n", b"two\n"):
        os.write(ours, word)
        assert next(lines) == f"re: {word.decode().strip()}"
    os.close(ours)
    assert list(lines) == []
    assert worker.returncode == 0


def test_a_giant_line_is_cut_and_the_next_one_is_whole(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('x' * 10_000_000 + '\\nnext\\n')"
    worker = Worker(python(code), cwd=tmp_path, cap=1000)
    assert list(worker.lines()) == ["x" * 1000 + " [… line cut]", "next"]
    assert len(worker.stdout) < 1100


def test_a_deadline_that_was_extended_is_later(tmp_path: Path) -> None:
    worker = Worker(["sleep", "0.3"], cwd=tmp_path, wall=0.01)
    worker.extend(60)
    assert list(worker.lines()) == []
    assert (worker.stopped_by, worker.returncode) == ("", 0)


def test_the_wall_deadline_ends_a_process_that_writes_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    put_clock_forward(monkeypatch, lambda: HOUR * bool(said))
    worker = Worker(["yes"], cwd=tmp_path, wall=FOREVER, cap=1000)
    for line in worker.lines():
        said[:] = [line]
    assert said == ["y"]
    assert (worker.stopped_by, worker.returncode) == ("wall", -signal.SIGTERM)


def test_the_idle_deadline_ends_only_a_silent_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import pathlib, sys, time\n"
        "for n in range(4):\n"
        "    print(n, file=sys.stderr, flush=True)\n"
        "    while not pathlib.Path(f'heard {n}').exists(): time.sleep(0.01)\n"
        "print('done', flush=True); time.sleep(600)"
    )
    worker = Worker(python(code), cwd=tmp_path, idle=FOREVER)

    def ahead() -> float:
        """Most of the deadline after each line, and all of it after the last."""
        words = worker.stderr.split()
        for word in words:
            (tmp_path / f"heard {word}").touch()
        return FOREVER * 0.9 * len(words) + HOUR * bool(worker.stdout)

    put_clock_forward(monkeypatch, ahead)
    assert list(worker.lines()) == ["done"]
    assert worker.stopped_by == "idle"
    assert worker.stderr == "".join(f"{n}\n" for n in range(4))


def test_a_process_that_only_closed_its_pipes_still_has_deadlines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_clock_forward(monkeypatch, lambda: HOUR * (tmp_path / "closed").exists())
    code = "import os, time; os.close(1); os.close(2); open('closed', 'w'); time.sleep(600)"
    worker = Worker(python(code), cwd=tmp_path, wall=FOREVER)
    assert list(worker.lines()) == []
    assert worker.stopped_by == "wall"


def test_stop_ends_the_group_from_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    worker = Worker(python(STUBBORN), cwd=tmp_path)
    lines = worker.lines()
    child = int(next(lines))
    threads = [threading.Thread(target=worker.stop) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert list(lines) == []
    for thread in threads:
        thread.join()
    assert (worker.stopped_by, worker.returncode) == ("stop", -signal.SIGKILL)
    assert eventually(lambda: gone(child))


def test_the_last_output_of_a_stopped_process_is_read(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time\n"
        "def end(*_): os.write(1, b'cleaned up\\n'); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(600)"
    )
    worker = Worker(python(code), cwd=tmp_path)
    lines = worker.lines()
    assert next(lines) == "ready"
    worker.stop()
    assert list(lines) == ["cleaned up"]
    assert worker.returncode == 5


def test_a_reader_who_leaves_early_ends_the_group(tmp_path: Path) -> None:
    worker = Worker(python("import time; print(1, flush=True); time.sleep(600)"), cwd=tmp_path)
    lines = worker.lines()
    assert next(lines) == "1"
    lines.close()  # type: ignore[attr-defined]
    assert worker.returncode == -signal.SIGTERM


def test_a_grandchild_that_keeps_the_pipes_open_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """A program of ours may leave a process behind; an agent may not (`test_leash`)."""
    code = (
        "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint(os.getpid(), flush=True)"
    )
    worker = Worker(python(code), cwd=tmp_path)
    (group,) = map(int, worker.lines())
    assert (worker.returncode, worker.stopped_by) == (0, "")
    os.killpg(group, signal.SIGKILL)


# ── worker files ────────────────────────────────────────────────────────────────────────────


def test_a_worker_file_names_its_worker_and_is_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "worker"
    worker = Worker(["cat"], cwd=tmp_path, stdin=b"x\n", worker_file=path)
    lines = worker.lines()
    named = json.loads(path.read_text())
    assert named["pid"] == named["pgid"]
    assert list(lines) == ["x"]
    assert not path.exists()
    assert not worker_alive(path)


def test_a_second_worker_on_the_same_file_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    path = tmp_path / "worker"
    first = Worker(["sleep", str(FOREVER)], cwd=tmp_path, worker_file=path)
    assert worker_alive(path)
    with pytest.raises(StateError) as caught:
        Worker(["true"], cwd=tmp_path, worker_file=path)
    assert caught.value.code == "PB-STATE-DRIVEN"
    kill_worker(path)
    assert list(first.lines()) == []
    assert (first.returncode, first.stopped_by) == (-signal.SIGTERM, "")
    second = Worker(["true"], cwd=tmp_path, worker_file=path)
    assert list(second.lines()) == []


def test_a_program_that_cannot_be_started_leaves_no_worker_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        Worker(["no-such-program"], cwd=tmp_path, worker_file=tmp_path / "worker")
    assert not list(tmp_path.iterdir())


RUNNER = """
import sys
from pathlib import Path
from playbook_supervisor.system.process import leash_process
from playbook_supervisor.system.process.processes import Worker
leash_process.GRACE = 0.2
worker = Worker([sys.executable, "-c", sys.argv[2]], cwd=Path.cwd(), worker_file=Path(sys.argv[1]))
for line in worker.lines():
    print(line, flush=True)
"""

"""As above, and the child moves to a group of its own."""


def test_an_orphan_that_ended_by_itself_is_not_alive(tmp_path: Path) -> None:
    path = tmp_path / "worker"
    code = (
        "import pathlib, time; print(1, flush=True)\n"
        "while not pathlib.Path('killed').exists(): time.sleep(0.01)"
    )
    runner = subprocess.Popen(python(RUNNER, path, code), cwd=tmp_path, stdout=subprocess.PIPE)
    assert runner.stdout is not None
    assert runner.stdout.readline() == b"1\n"
    runner.kill()
    runner.communicate()
    (tmp_path / "killed").touch()
    assert eventually(lambda: not worker_alive(path))
    assert path.exists()


def test_without_proc_the_recorded_group_is_ended(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("playbook_supervisor.system.process.process_groups._PROC", tmp_path / "no-proc")
    path = tmp_path / "worker"
    worker = Worker(["sleep", str(FOREVER)], cwd=tmp_path, worker_file=path)
    kill_worker(path)
    assert list(worker.lines()) == []
    assert worker.returncode == -signal.SIGTERM


@pytest.mark.parametrize("content", ["", "[" * 10_000, '{"pgid": -1}'])
def test_a_damaged_worker_file_is_an_error_and_no_signal_is_sent(
    tmp_path: Path, mocker: MockerFixture, content: str
) -> None:
    mocker.patch("playbook_supervisor.system.process.process_groups._PROC", tmp_path / "no-proc")
    mocker.patch("playbook_supervisor.system.process.leash_process.GRACE", 0.01)
    mocker.patch("playbook_supervisor.system.process.leash_process.PATIENCE", 0.01)
    killed = mocker.patch("os.killpg")
    path = tmp_path / "worker"
    worker = Worker(["sleep", str(FOREVER)], cwd=tmp_path, worker_file=path)
    path.write_text(content)
    with pytest.raises(StateError, match="cannot be ended") as caught:
        kill_worker(path)
    assert caught.value.code == "PB-STATE-BUSY"
    killed.assert_not_called()
    mocker.stopall()
    worker.stop()
    assert list(worker.lines()) == []


def test_a_worker_cannot_end_its_own_group(tmp_path: Path, mocker: MockerFixture) -> None:
    """A step that tries to end itself is refused."""
    import fcntl

    mocker.patch("playbook_supervisor.system.process.leash_process.GRACE", 0.01)
    mocker.patch("playbook_supervisor.system.process.leash_process.PATIENCE", 0.01)
    path = tmp_path / "worker"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StateError):
            kill_worker(path)


def test_a_worker_file_that_cannot_be_written_starts_nothing(tmp_path: Path) -> None:
    argv = python("import pathlib; pathlib.Path('started').touch()")
    with pytest.raises(StorageError) as caught:
        Worker(argv, cwd=tmp_path, worker_file=tmp_path / "gone" / "worker")
    assert caught.value.code == "PB-IO-WRITE"
    assert not list(tmp_path.iterdir())


# ── what is kept of the output ──────────────────────────────────────────────────────────────


@given(st.lists(st.binary()), st.integers(min_value=1, max_value=20))
def test_the_beginning_and_the_end_are_kept(chunks: list[bytes], cap: int) -> None:
    capture = Capture(cap)
    for chunk in chunks:
        capture.add(chunk)
    whole = b"".join(chunks)
    assert capture.cut == (len(whole) > cap)
    if not capture.cut:
        assert capture.text() == whole.decode("utf-8", "replace")
        return
    head, tail = whole[: cap - cap // 2], whole[len(whole) - cap // 2 :]
    assert capture.text() == (
        f"{head.decode('utf-8', 'replace')}\n[… {len(whole) - cap:,} bytes left out …]\n"
        f"{tail.decode('utf-8', 'replace')}"
    )


@given(st.text(), st.integers(min_value=1, max_value=7))
def test_lines_do_not_depend_on_the_chunks(text: str, size: int) -> None:
    data = text.encode()
    splitter = LineSplitter(1 << 20)
    lines = [
        line
        for start in range(0, len(data), size)
        for line in splitter.feed(data[start : start + size])
    ]
    lines += splitter.rest()
    assert lines == [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] or (
        not text and not lines
    )


# ── secrets ─────────────────────────────────────────────────────────────────────────────────


def test_secrets_are_hidden_by_value_the_longest_first() -> None:
    assert redact("token=abc123 and abc", ["abc", "abc123"]) == "token=[redacted] and [redacted]"
    assert redact("a.c abc", ["a.c"]) == "[redacted] abc"
    assert redact("red", ["red", "acted"]) == "[redacted]"


def test_a_secret_read_with_its_line_end_is_hidden_without_it() -> None:
    assert redact("the hunter2!", ["hunter2\n"]) == "the [redacted]!"


def test_each_long_line_of_a_secret_is_hidden_as_output_comes_line_by_line() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nshort\n"
    assert redact("MIIEvQIBADANBg", [key]) == "[redacted]"
    assert redact("short", [key]) == "short"


@given(st.text(), st.lists(st.text()))
def test_no_secret_of_many_is_left(text: str, secrets: list[str]) -> None:
    hidden = redact(text, secrets)
    pieces = hidden.split("[redacted]")
    assert not any(secret.strip() and secret in piece for secret in secrets for piece in pieces)
