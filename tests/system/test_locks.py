"""A lock belongs to one holder, and is free when that has died."""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path

import pytest
from pytest_mock import MockerFixture
from support.controlled_time import running

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.system.disk.files import locked

COUNTER = """
import json, sys
from pathlib import Path
from playbook_supervisor.system.disk.files import write_atomically
from playbook_supervisor.system.disk.files import locked
path = Path(sys.argv[1])
for _ in range(40):
    with locked(path.with_name("lock")):
        count = json.loads(path.read_bytes())
        write_atomically(path, json.dumps(count + 1).encode(), durable=False)
"""

HOLDER = """
import sys, time
from pathlib import Path
from playbook_supervisor.system.disk.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_processes_lose_none_of_their_increments(tmp_path: Path) -> None:
    path = tmp_path / "count.json"
    path.write_bytes(b"0")
    counters = [running(COUNTER, path) for _ in range(4)]
    for counter in counters:
        counter.communicate()
    assert [counter.returncode for counter in counters] == [0] * 4
    assert json.loads(path.read_bytes()) == 4 * 40


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    holder = running(HOLDER, lock)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StateError) as caught, locked(lock, timeout=0.05):
        pytest.fail("two hold one lock")
    assert caught.value.code == "PB-STATE-BUSY"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with locked(lock, timeout=60):
        assert lock.exists()


def test_a_lock_keeps_out_the_other_threads_of_the_same_process(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), pytest.raises(StateError), locked(tmp_path / "lock", timeout=0):
        pytest.fail("two hold one lock")


def test_a_lock_is_freed_when_its_holder_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "lock"):
        1 / 0  # noqa: B018
    with locked(tmp_path / "lock", timeout=0):
        assert [each.name for each in tmp_path.iterdir()] == ["lock"]


def test_a_lock_file_removed_during_locking_is_locked_again(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    """Otherwise two processes would hold a lock, one of them on a removed file."""
    import fcntl

    lock = tmp_path / "lock"
    real = fcntl.flock
    removed: list[int] = []

    def removing(descriptor: int, operation: int) -> None:
        if len(removed) < 2:
            lock.unlink()
            if removed:
                lock.write_bytes(b"")  # the first time it is gone, the second time another's
            removed.append(descriptor)
        real(descriptor, operation)

    mocker.patch("fcntl.flock", removing)
    with locked(lock), pytest.raises(StateError), locked(lock, timeout=0):
        pytest.fail("two hold one lock")
    assert len(removed) == 2


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(StorageError, match="cannot lock"), locked(tmp_path / "lock"):
        pytest.fail("locked through a link")
    assert not (tmp_path / "elsewhere").exists()


def test_eight_processes_lose_none_of_their_increments(tmp_path: Path) -> None:
    path = tmp_path / "count.json"
    path.write_bytes(b"0")
    counters = [running(COUNTER, path) for _ in range(8)]
    for counter in counters:
        counter.communicate()
    assert [counter.returncode for counter in counters] == [0] * 8
    assert json.loads(path.read_bytes()) == 8 * 40


def test_a_file_system_without_locks_is_a_storage_error(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("fcntl.flock", side_effect=OSError(errno.ENOLCK, "No locks available"))
    with pytest.raises(StorageError, match="No locks"), locked(tmp_path / "lock"):
        pytest.fail("locked without a lock")
