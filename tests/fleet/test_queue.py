"""The queue: jobs, slots, limits and what becomes of a worker that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dbos
import pytest
from support.controlled_time import eventually

from fleet import migrated
from fleet.postgres import Server
from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Limits, NewSession, State

SITE, API = "https://git.example/acme/site", "https://git.example/acme/api"
IDS = [f"20261125-{letter}7k" for letter in "abcdefghijkl"]
LONG = 60.0


@pytest.fixture
def fleet(place: address.Address) -> Iterator[FleetDatabase]:
    with FleetDatabase.open(place) as opened:
        yield opened


def submit(
    fleet: FleetDatabase, id_: str, url: str = SITE, *, pool: str = "default", priority: int = 0
) -> None:
    fleet.submit(NewSession(id_, url, id_, "auto-feature", "001", pool, priority))


class Seen:
    """What a worker of this process was given, and how much of it at once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._seconds = seconds
        self.taken: list[tuple[str, int]] = []
        self.at_once = self.most = 0

    def __call__(self, session: str, number: int) -> bool:
        with self._lock:
            self.taken.append((session, number))
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        time.sleep(self._seconds)
        with self._lock:
            self.at_once -= 1
        return True

    def has(self, number: int) -> bool:
        return len(self.taken) >= number


# ── jobs ────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_carried_out_once_and_ends(fleet: FleetDatabase) -> None:
    seen = Seen()
    submit(fleet, IDS[0])
    job = fleet.queue.running()[0]
    assert (job.session, job.number, job.at_work, job.pool) == (IDS[0], 1, False, "default")
    with fleet.queue.work(["default"], 2, seen, "w-1"):
        assert eventually(lambda: not fleet.queue.running())
        time.sleep(1)
    assert seen.taken == [(IDS[0], 1)]


def test_a_job_and_its_row_are_written_together(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    with pytest.raises(FleetError, match="another session"):
        submit(fleet, IDS[0], API)
    with pytest.raises(ZeroDivisionError):
        fleet._run(lambda tx: (tx.queue(tx.get(IDS[0])), 1 // 0))
    assert [job.number for job in fleet.queue.running()] == [1]


def test_a_worker_that_starts_or_stops_leaves_what_it_does_not_take(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    seen = Seen()
    with fleet.queue.work(["default"], 1, seen, "w-1") as taking:
        assert eventually(lambda: seen.has(1))
        taking.stop()
        submit(fleet, IDS[1])
        time.sleep(1.5)
        assert seen.taken == [(IDS[0], 1)]
    assert [(job.session, job.at_work) for job in fleet.queue.running()] == [(IDS[1], False)]
    with fleet.queue.work(["default"], 1, seen, "w-2"):
        assert eventually(lambda: seen.has(2))


def test_the_end_waits_for_the_jobs_at_work(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    seen = Seen(seconds=2.0)
    with fleet.queue.work(["default"], 1, seen, "w-1"):
        assert eventually(lambda: seen.has(1))
        job = fleet.queue.running(at_work=True)[0]
        assert (job.session, job.at_work, job.worker) == (IDS[0], True, "w-1")
    assert seen.at_once == 0
    assert fleet.queue.running() == []


def test_a_job_whose_worker_fails_is_put_back(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    calls = []

    def advance(session: str, number: int) -> bool:
        calls.append(number)
        if len(calls) == 1:
            raise FleetError("PB-FLEET-DATABASE", "it is away")
        return True

    with fleet.queue.work(["default"], 1, advance, "w-1"):
        assert eventually(lambda: not fleet.queue.running())
    assert calls == [1, 1]


def test_a_job_that_was_put_back_no_longer_belongs_to_its_worker(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    began, go_on = threading.Semaphore(0), threading.Event()

    def advance(session: str, number: int) -> bool:
        began.release()
        return go_on.wait(30)

    with fleet.queue.work(["default"], 2, advance, "w-1"):
        assert began.acquire(timeout=30)
        assert fleet.queue.put_back(IDS[0], 1)
        assert began.acquire(timeout=30)
        go_on.set()
    assert fleet.queue.running() == []  # and the first call has ended, too
    assert not fleet.queue.put_back(IDS[0], 1)
    assert not fleet.queue.put_back(IDS[1], 1)


def test_a_job_that_its_worker_cannot_end_stays_until_it_is_put_back(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    left = threading.Event()

    def lost(session: str, number: int) -> bool:
        left.set()
        return False

    with fleet.queue.work(["default"], 1, lost, "w-1"):
        assert left.wait(30)
    assert [(job.session, job.at_work) for job in fleet.queue.running()] == [(IDS[0], True)]
    assert fleet.queue.put_back(IDS[0], 1)
    with fleet.queue.work(["default"], 1, Seen(), "w-2"):
        assert eventually(lambda: not fleet.queue.running())


def test_a_job_that_ends_while_it_is_put_back_is_not_taken_for_one_that_goes_on(
    fleet: FleetDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(fleet, IDS[0])
    began, go_on = threading.Event(), threading.Event()
    resume = dbos.DBOSClient.resume_workflow

    def advance(session: str, number: int) -> bool:
        began.set()
        return go_on.wait(30)

    def too_late(*args: Any, **options: Any) -> Any:
        go_on.set()
        assert eventually(lambda: not fleet.queue.running())
        return resume(*args, **options)

    monkeypatch.setattr(dbos.DBOSClient, "resume_workflow", too_late)
    with fleet.queue.work(["default"], 1, advance, "w-1"):
        assert began.wait(30)
        assert not fleet.queue.put_back(IDS[0], 1)


def test_jobs_are_removed_whatever_their_state(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    submit(fleet, IDS[1])
    seen = Seen(seconds=1.5)
    with fleet.queue.work(["default"], 1, seen, "w-1"):
        assert eventually(lambda: seen.has(1))
        fleet.queue.cancel([(IDS[0], 1), (IDS[1], 1), (IDS[2], 1)])
        assert fleet.queue.running() == []
    assert len(seen.taken) == 1


def test_the_higher_priority_goes_first_within_a_repository(fleet: FleetDatabase) -> None:
    for number, id_ in enumerate(IDS[:4]):
        submit(fleet, id_, priority=number - 2)
    seen = Seen()
    with fleet.queue.work(["default"], 1, seen, "w-1"):
        assert eventually(lambda: seen.has(4))
    assert [session for session, _ in seen.taken] == list(reversed(IDS[:4]))


# ── slots and pools ─────────────────────────────────────────────────────────────────────────


def test_a_worker_has_its_slots_over_all_its_pools(fleet: FleetDatabase) -> None:
    for number, id_ in enumerate(IDS[:9]):
        submit(fleet, id_, f"{SITE}{number}", pool=("default", "large", "other")[number % 3])
    seen = Seen(seconds=0.3)
    with fleet.queue.work(["default", "large"], 2, seen, "w-1"):
        assert eventually(lambda: seen.has(6))
        time.sleep(1)
    taken = {session for session, _ in seen.taken}
    assert taken == {id_ for number, id_ in enumerate(IDS[:9]) if number % 3 != 2}
    assert seen.most == 2
    assert {job.pool for job in fleet.queue.running()} == {"other"}


def test_a_pool_has_no_limits_until_they_are_set(fleet: FleetDatabase) -> None:
    queue = fleet.queue
    assert queue.limits("default") == Limits()
    for limits in (Limits(4, 1, (2, 10.0)), Limits(per_repository=2), Limits(in_all=3), Limits()):
        assert queue.limits("default", limits) == limits
        assert queue.limits("default") == limits
    assert queue.limits("default", Limits(in_all=2, per_repository=9)) == Limits(in_all=2)
    assert queue.limits("other") == Limits()


WORKER = """
import os, sys, time
from pathlib import Path
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
ledger, worker, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
def tell(*words):
    fd = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, (" ".join(map(str, words)) + "\\n").encode())
    os.close(fd)
with FleetDatabase.open(address.find()) as fleet:
    def advance(session, number):
        row = fleet.row(session)
        tell("begin", session, row.repository, time.monotonic())
        time.sleep(seconds)
        tell("end", session, row.repository, time.monotonic())
        return True
    with fleet.queue.work(["default"], 3, advance, worker):
        tell("ready", worker)
        sys.stdin.read()
"""


@contextmanager
def workers(
    place: address.Address,
    ledger: Path,
    number: int = 3,
    seconds: float = 0.6,
    packages: Path | None = None,
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers in processes of their own, which write to the ledger when jobs begin and end.

    Packages in that folder come first.
    """
    environment = environment_for(place, packages)
    with ExitStack() as stack:
        started = []
        for each in range(number):
            command = [sys.executable, "-c", WORKER, str(ledger), f"w-{each}", str(seconds)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            started.append(process)
        assert eventually(lambda: lines(ledger, "ready") >= number)
        yield started


def environment_for(place: address.Address, packages: Path | None = None) -> dict[str, str]:
    url = place.url if place.file is None else str(place.file)
    first = {"PYTHONPATH": str(packages)} if packages else {}
    return os.environ | {"PLAYBOOK_FLEET": url} | first


def lines(ledger: Path, word: str) -> int:
    return (
        sum(line.startswith(word) for line in ledger.read_text().splitlines())
        if (ledger.exists())
        else 0
    )


def most_at_once(ledger: Path, of: Callable[[str], str]) -> int:
    """How many jobs for which `of` says the same were at work at once."""
    now: Counter[str] = Counter()
    most = 0
    for line in ledger.read_text().splitlines():
        word, *rest = line.split()
        if word != "ready":
            now[of(rest[1])] += 1 if word == "begin" else -1
            most = max(most, *now.values())
    return most


def test_limits_hold_over_several_workers(place: address.Address, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with FleetDatabase.open(place) as fleet:
        fleet.queue.limits("default", Limits(in_all=3, per_repository=1))
        for number, id_ in enumerate(IDS[:8]):
            submit(fleet, id_, f"{SITE}{number % 4}")
        with workers(place, ledger):
            assert eventually(lambda: lines(ledger, "end") == 8)
    assert most_at_once(ledger, lambda repository: repository) == 1
    assert 2 <= most_at_once(ledger, lambda _: "all") <= 3
    assert lines(ledger, "begin") == 8


def test_a_limit_per_time_holds_over_several_workers(
    place: address.Address, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    with FleetDatabase.open(place) as fleet:
        fleet.queue.limits("default", Limits(per_time=(2, 3.0)))
        for number, id_ in enumerate(IDS[:4]):
            submit(fleet, id_, f"{SITE}{number}")
        with workers(place, ledger, 2, 0.1):
            assert eventually(lambda: lines(ledger, "end") == 4)
    begun = [float(line.split()[3]) for line in ledger.read_text().splitlines() if "begin" in line]
    assert begun[2] - begun[0] > 1.5  # without the limit it would be half a second


# ── workers that are killed, and databases that go away ─────────────────────────────────────


def test_the_job_of_a_killed_worker_is_put_back_and_frees_its_limit(
    place: address.Address, tmp_path: Path
) -> None:
    ledger, seen = tmp_path / "ledger", Seen()
    with FleetDatabase.open(place) as fleet:
        fleet.queue.limits("default", Limits(per_repository=1))
        submit(fleet, IDS[0])
        with workers(place, ledger, 1, 60) as (killed,):
            assert eventually(lambda: lines(ledger, "begin") == 1)
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        submit(fleet, IDS[1])
        assert fleet.sweep(4.0).put_back == ()  # it may be about to take the lease
        with fleet.queue.work(["default"], 1, seen, "w-9"):
            time.sleep(1.0)
            assert seen.taken == []
            assert eventually(lambda: fleet.sweep(4.0).put_back == (IDS[0],))
            assert fleet.sweep(4.0).put_back == ()
            assert eventually(lambda: seen.has(2))
    assert seen.taken == [(IDS[0], 1), (IDS[1], 1)]


def test_a_job_that_a_killed_worker_did_not_end_is_removed_once_its_session_waits(
    place: address.Address, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    with FleetDatabase.open(place) as fleet:
        submit(fleet, IDS[0])
        with workers(place, ledger, 1, 60) as (killed,):
            assert eventually(lambda: lines(ledger, "begin") == 1)
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        lease = fleet.take(IDS[0], 1, "w-0", LONG)
        assert lease is not None
        fleet.wait(lease, "pr#1?1", ("continue",))
        assert fleet.sweep(LONG).removed == 0  # its worker may be about to end it
        fleet.answer(IDS[0], "pr#1?1", "continue", "Ada <ada@example.org>")
        assert fleet.sweep(LONG).removed == 1
        assert [(job.number, job.at_work) for job in fleet.queue.running()] == [(2, False)]
        assert fleet.row(IDS[0]).state is State.QUEUED  # type: ignore[union-attr]


def test_a_worker_outlives_a_restart_of_the_server(postgres: Server) -> None:
    place = migrated.of_server(postgres)
    seen = Seen(seconds=2.0)
    with FleetDatabase.open(place) as fleet:
        submit(fleet, IDS[0])
        with fleet.queue.work(["default"], 1, seen, "w-1"):
            assert eventually(lambda: seen.has(1))
            postgres.stop(hard=True)
            time.sleep(2.5)  # the end of the job cannot be written
            postgres.start()
            submit(fleet, IDS[1])
            assert eventually(lambda: seen.has(2))
            began = time.monotonic()
            postgres.stop(hard=True)
        assert time.monotonic() - began < 20  # nothing waits for the server to come back
    postgres.start()


def test_an_older_queue_is_refused(place: address.Address, fleet: FleetDatabase) -> None:
    with fleet._engine.begin() as connection:
        name = "dbos_migrations" if place.file is not None else "dbos.dbos_migrations"
        connection.exec_driver_sql(f"UPDATE {name} SET version = 1")  # noqa: S608
    with pytest.raises(FleetError) as caught, fleet.queue.work(["default"], 1, Seen(), "w-1"):
        pass
    assert caught.value.code == "PB-FLEET-NOT-UP"


def test_a_hostile_job_runs_nothing(place: address.Address, fleet: FleetDatabase) -> None:
    """A pickle in the database would run code on each worker that reads it."""
    import base64
    import pickle

    made = Path(place.file.parent if place.file else "/nowhere")

    class Harm:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
            return os.mkdir, (str(made / "harm"),)

    path = '{"positionalArgs":["../../etc",1],"namedArgs":{}}'
    for id_ in IDS[:4]:
        submit(fleet, id_)
    harm = base64.b64encode(pickle.dumps({"args": (Harm(),), "kwargs": {}})).decode()
    seen = Seen()
    prefix = "" if place.file is not None else "dbos."
    with fleet._engine.begin() as connection:
        for column, table, value, id_ in (
            ("serialization", "workflow_status", "py_pickle", IDS[0]),
            ("inputs", "workflow_input", harm, IDS[0]),
            ("inputs", "workflow_input", path, IDS[1]),
            ("name", "workflow_status", "something", IDS[2]),
        ):
            connection.exec_driver_sql(
                f"UPDATE {prefix}{table} SET {column} = '{value}' "  # noqa: S608
                f"WHERE workflow_uuid = '{id_}:1'"
            )
    with fleet.queue.work(["default"], 4, seen, "w-1"):
        assert eventually(lambda: seen.has(1))
        time.sleep(1)
    assert seen.taken == [(IDS[3], 1)]
    assert not (made / "harm").exists()


# ── versions ────────────────────────────────────────────────────────────────────────────────

OLDER = Path(sys.prefix) / "older-dbos"
SUBMIT = """
import sys
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import NewSession
with FleetDatabase.open(address.find()) as fleet:
    fleet.submit(NewSession(sys.argv[1], sys.argv[2], sys.argv[1], "auto-feature", "001"))
"""


@pytest.mark.long
def test_workers_with_an_older_dbos_share_the_jobs(place: address.Address, tmp_path: Path) -> None:
    if not OLDER.is_dir():
        pytest.skip("make .venv/older-dbos could not install it")
    ledger, seen = tmp_path / "ledger", Seen()
    with FleetDatabase.open(place) as fleet:
        submit(fleet, IDS[0])
        with workers(place, ledger, 1, 0, OLDER):
            assert eventually(lambda: lines(ledger, "end") == 1)
        command = [sys.executable, "-c", SUBMIT, IDS[1], SITE]
        subprocess.run(command, env=environment_for(place, OLDER), check=True)
        with fleet.queue.work(["default"], 1, seen, "w-9"):
            assert eventually(lambda: seen.has(1))
        assert seen.taken == [(IDS[1], 1)]
