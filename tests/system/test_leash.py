"""What a worker has started ends with it, and both end with their runner."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.controlled_time import eventually, gone, python, shorten_grace

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.process import leash
from playbook_supervisor.system.process.ancestry import process
from playbook_supervisor.system.process.process_groups import kill_worker, worker_alive
from playbook_supervisor.system.process.processes import Worker

SLEEPS = "os.write(1, b'%d\\n' % os.getpid()); import time; time.sleep(600)"
LEAVES = {
    "deaf": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    f"if os.fork() == 0: {SLEEPS}",
    # a session, a parent and an environment of its own, and no descriptor of the worker's
    "escaped": (
        "reader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.write(writer, b'%d\\n' % os.getpid())\n"
        "    os.closerange(0, 1000)\n"
        "    os.execve('/bin/sleep', ['sleep', '600'], {})\n"
        "os.write(1, os.read(reader, 20))"
    ),
}
"""Each prints the number of the process that it leaves."""


def leaving(how: str, then: str = "") -> list[str]:
    return python(f"import os\n{LEAVES[how]}\n{then}")


@pytest.mark.parametrize("how", LEAVES)
def test_what_a_worker_leaves_behind_is_ended_and_named(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    worker = Worker(leaving(how, "raise SystemExit(3)"), cwd=tmp_path, worker_file=tmp_path / "w")
    (child,) = map(int, worker.lines())
    assert gone(child)
    assert (worker.returncode, worker.stopped_by) == (3, "")
    (left,) = worker.left
    assert left.endswith(f" ({child})")
    assert not worker.kept
    assert not (tmp_path / "w").exists()


def test_what_ends_shortly_after_the_worker_is_not_named(tmp_path: Path) -> None:
    code = "import os\nme = os.getpid()\nif os.fork() == 0:\n    while os.getppid() == me: pass"
    worker = Worker(python(code), cwd=tmp_path, worker_file=tmp_path / "w")
    assert list(worker.lines()) == []
    assert (worker.returncode, worker.left) == (0, ())


def test_only_the_processes_of_the_worker_that_ended_are_ended(tmp_path: Path) -> None:
    other = Worker(
        leaving("escaped", "import time; time.sleep(600)"), cwd=tmp_path, worker_file=tmp_path / "o"
    )
    lines = other.lines()
    neighbour = int(next(lines))
    worker = Worker(leaving("escaped"), cwd=tmp_path, worker_file=tmp_path / "w")
    (child,) = map(int, worker.lines())
    assert (gone(child), gone(neighbour), other.returncode) == (True, False, None)
    other.stop()
    assert list(lines) == []
    assert gone(neighbour)
    assert (other.returncode, other.stopped_by) == (-signal.SIGTERM, "stop")
    assert other.left == (), "it was asked to end all"


def test_the_worker_and_its_status_are_its_own(tmp_path: Path) -> None:
    """The leash changes neither its environment nor its signals, and reports how it ended."""
    code = (
        "import json, os, signal\n"
        "print(json.dumps([sorted(os.environ), os.getcwd(), os.getsid(0) == os.getpid(),"
        " os.listdir('/proc/self/fd')]), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)"
    )
    env = {"ONLY": "this", "LC_ALL": "C.UTF-8"}
    worker = Worker(python(code), cwd=tmp_path, env=env, worker_file=tmp_path / "w")
    (said,) = worker.lines()
    names, folder, leads, descriptors = json.loads(said)
    assert names == ["LC_ALL", "ONLY", "PLAYBOOK_WORKER"]
    assert (folder, leads) == (str(tmp_path), True)
    assert len(descriptors) == 5, "the standard three, its worker file, and the listing's own"
    assert worker.returncode == -signal.SIGUSR1


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for program, reason in (("no-such", "No such file"), ("./folder", "Permission denied")):
        with pytest.raises(StorageError, match=f"cannot start '{program}': {reason}"):
            Worker([program], cwd=tmp_path, worker_file=tmp_path / "w")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


# ── a runner that was killed ────────────────────────────────────────────────────────────────

RUNNER = """
import sys
from pathlib import Path
from playbook_supervisor.system.process import leash_process
from playbook_supervisor.system.process.processes import Worker
leash_process.GRACE = 0.2
code, outlives = sys.argv[1:]
worker = Worker(
    [sys.executable, "-c", code], cwd=Path.cwd(), worker_file=Path("w"), outlives=bool(outlives)
)
for line in worker.lines():
    print(line, flush=True)
"""


def killed(folder: Path, how: str, *, outlives: bool) -> tuple[int, int]:
    """SIGKILL a runner while its worker runs; the worker's number and that of its child."""
    code = f"import os\n{LEAVES[how]}\nos.write(1, b'%d\\n' % os.getpid())\n{SLEEPS}"
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, code, "yes" * outlives], cwd=folder, stdout=subprocess.PIPE
    )
    assert runner.stdout is not None
    child, worker = int(runner.stdout.readline()), int(runner.stdout.readline())
    runner.kill()
    runner.communicate()
    return worker, child


@pytest.mark.parametrize("how", LEAVES)
def test_a_worker_ends_with_its_runner(how: str, tmp_path: Path) -> None:
    worker, child = killed(tmp_path, how, outlives=False)
    assert eventually(lambda: gone(worker) and gone(child))
    assert eventually(lambda: not worker_alive(tmp_path / "w"))


@pytest.mark.parametrize("how", LEAVES)
def test_a_worker_that_may_outlive_its_runner_is_ended_with_all_that_it_started(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    worker, child = killed(tmp_path, how, outlives=True)
    assert worker_alive(tmp_path / "w")
    assert [gone(worker), gone(child)] == [False, False]
    kill_worker(tmp_path / "w")
    assert eventually(lambda: gone(worker) and gone(child))


def signals_its_leash(name: str, folder: Path) -> Worker:
    """A worker that sends its leash this signal, once the leash has reported the start."""
    code = (
        "import os, signal, sys\nsys.stdin.readline()\n"
        f"os.kill(os.getppid(), signal.{name}); {SLEEPS}"
    )
    return Worker(python(code), cwd=folder, worker_file=folder / "w", stdin=b"go\n")


def test_a_worker_that_kills_its_leash_ends_with_it(tmp_path: Path) -> None:
    worker = signals_its_leash("SIGKILL", tmp_path)
    said = list(worker.lines())
    assert worker.returncode == -signal.SIGKILL
    assert eventually(lambda: all(gone(int(pid)) for pid in said))
    assert not worker_alive(tmp_path / "w")


def test_a_stopped_leash_cannot_keep_the_worker_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.system.process.leash_process.GRACE", 0.1)
    monkeypatch.setattr("playbook_supervisor.system.process.leash_process.PATIENCE", 0.5)
    worker = signals_its_leash("SIGSTOP", tmp_path)
    lines = worker.lines()
    pid = int(next(lines))
    worker.stop()
    assert list(lines) == []
    assert worker.stopped_by == "stop"
    assert eventually(lambda: gone(pid)), "its pipes close a moment before it is gone"


# ── the process that forks leashes ──────────────────────────────────────────────────────────


def its_server(worker: Worker) -> int:
    found = process(worker._process.pid)
    assert found is not None
    return found.parent


def test_a_server_that_is_killed_takes_its_leashes_along_and_is_replaced(tmp_path: Path) -> None:
    worker = Worker(python(f"import os\n{SLEEPS}"), cwd=tmp_path, worker_file=tmp_path / "w")
    lines, server = worker.lines(), its_server(worker)
    pid = int(next(lines))
    os.kill(server, signal.SIGKILL)
    assert list(lines) == []
    assert worker.returncode == -signal.SIGTERM
    assert gone(pid)
    other = Worker(["echo", "again"], cwd=tmp_path, worker_file=tmp_path / "w")
    assert list(other.lines()) == ["again"]


def test_a_system_that_allows_no_more_processes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    theirs.send(b"-%d" % errno.EAGAIN)
    list(Worker(["true"], cwd=tmp_path, worker_file=tmp_path / "w").lines())
    (server,) = leash._servers.values()
    with ours, theirs, monkeypatch.context() as patched:
        patched.setattr(server, "_socket", ours)
        with pytest.raises(StorageError, match="cannot start 'true': Resource temporarily"):
            Worker(["true"], cwd=tmp_path, worker_file=tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_a_large_request_is_passed_on(tmp_path: Path) -> None:
    env = {**os.environ, "LARGE": "x" * 100_000}
    argv = ["sh", "-c", 'echo "${#LARGE} ${#1}"', "sh", "y" * 100_000]
    worker = Worker(argv, cwd=tmp_path, env=env, worker_file=tmp_path / "w")
    assert list(worker.lines()) == ["100000 100000"]


@pytest.mark.parametrize("word", ["a\0b", "\ud800"], ids=["NUL", "surrogate"])
def test_what_no_program_can_be_given_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot start 'echo'"):
        Worker(["echo", word], cwd=tmp_path, worker_file=tmp_path / "w")
