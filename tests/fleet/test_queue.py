"""The queue: what comes next, limits, news of it, and what a worker costs the database."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.controlled_time import eventually

from fleet import migrated
from fleet.postgres import Server
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Lease, Limits, NewSession, State

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


def take(fleet: FleetDatabase, *pools: str) -> Lease | None:
    taken = fleet.take_next(pools or ("default",), "w-1", LONG)
    assert taken is None or isinstance(taken, Lease)
    return taken


def taken(fleet: FleetDatabase, *pools: str) -> list[str]:
    return [lease.session for lease in iter(lambda: take(fleet, *pools), None)]


# ── the order ───────────────────────────────────────────────────────────────────────────────


def test_the_higher_priority_goes_first_and_then_the_older(fleet: FleetDatabase) -> None:
    for id_, priority in zip(IDS[:4], (0, 5, 0, 9), strict=True):
        submit(fleet, id_, priority=priority)
        time.sleep(0.002)
    assert taken(fleet) == [IDS[3], IDS[1], IDS[0], IDS[2]]


def test_repositories_have_turns(fleet: FleetDatabase) -> None:
    for number, id_ in enumerate(IDS[:5]):
        submit(fleet, id_, API if number == 4 else SITE)
        time.sleep(0.002)
    assert taken(fleet) == [IDS[0], IDS[4], IDS[1], IDS[2], IDS[3]]


def test_a_worker_takes_from_its_pools_alone(fleet: FleetDatabase) -> None:
    for number, pool in enumerate(("default", "large", "other")):
        submit(fleet, IDS[number], pool=pool)
    assert fleet.due(["other", "none"]) == 0
    assert fleet.due(["none"]) is None
    assert taken(fleet, "default", "large") == IDS[:2]


def test_a_lease_that_lapsed_is_taken_by_the_next_worker(fleet: FleetDatabase) -> None:
    submit(fleet, IDS[0])
    assert fleet.take_next(["default"], "w-0", 0.5)
    due = fleet.due(["default"])
    assert due is not None
    assert 0 < due <= 0.5
    assert take(fleet) is None
    time.sleep(0.6)
    lease = take(fleet)
    assert lease is not None
    assert (lease.epoch, lease.row.deaths) == (2, 1)


# ── limits ──────────────────────────────────────────────────────────────────────────────────


def test_a_pool_has_no_limits_until_they_are_set(fleet: FleetDatabase) -> None:
    assert fleet.limits("default") == Limits()
    for limits in (Limits(4, 1, (2, 10.0)), Limits(per_repository=2), Limits(in_all=3), Limits()):
        fleet.limit("default", limits)
        assert fleet.limits("default") == limits
    assert fleet.limits("other") == Limits()


def test_a_limit_of_a_repository_leaves_room_for_the_others(fleet: FleetDatabase) -> None:
    fleet.limit("default", Limits(in_all=3, per_repository=1))
    for number, id_ in enumerate(IDS[:8]):
        submit(fleet, id_, f"{SITE}{number % 2}")
    submit(fleet, IDS[8], API)
    submit(fleet, IDS[9], f"{API}2")
    first = take(fleet)
    assert first is not None
    assert taken(fleet) == [IDS[1], IDS[8]]
    fleet.finish(first, State.COMPLETED)
    assert taken(fleet) == [IDS[2]]


def test_the_sessions_of_a_worker_that_was_killed_take_no_room(fleet: FleetDatabase) -> None:
    fleet.limit("default", Limits(in_all=1))
    submit(fleet, IDS[0])
    submit(fleet, IDS[1])
    assert fleet.take_next(["default"], "w-0", 0.3)
    assert take(fleet) is None
    time.sleep(0.4)
    assert len(taken(fleet)) == 1


WORKER = """
import sys, time
from pathlib import Path
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import State
ledger, worker, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
def tell(*words):
    with ledger.open("a") as file:
        file.write(" ".join(map(str, words)) + "\\n")
with FleetDatabase.open(address.find()) as fleet:
    tell("ready", worker)
    while True:
        lease = fleet.take_next(["default"], worker, 60.0)
        if lease is None:
            time.sleep(0.05)
            continue
        tell("begin", lease.session, lease.row.repository, time.monotonic())
        time.sleep(seconds)
        tell("end", lease.session, lease.row.repository, time.monotonic())
        fleet.finish(lease, State.COMPLETED)
"""


@contextmanager
def workers(place: address.Address, ledger: Path, number: int, seconds: float) -> Iterator[None]:
    """Workers in processes of their own, which write to the ledger when sessions begin and end."""
    url = place.url if place.file is None else str(place.file)
    with ExitStack() as stack:
        for each in range(number):
            command = [sys.executable, "-c", WORKER, str(ledger), f"w-{each}", str(seconds)]
            process = subprocess.Popen(command, env=os.environ | {"PLAYBOOK_FLEET": url})
            stack.callback(process.wait)
            stack.callback(process.kill)
        assert eventually(lambda: lines(ledger, "ready") >= number)
        yield


def lines(ledger: Path, word: str) -> int:
    found = ledger.read_text().splitlines() if ledger.exists() else []
    return sum(line.startswith(word) for line in found)


def most_at_once(ledger: Path, of: Callable[[str], str]) -> int:
    """How many sessions for which `of` says the same were at work at once."""
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
        fleet.limit("default", Limits(in_all=3, per_repository=1))
        with workers(place, ledger, 6, 0.2):
            for number, id_ in enumerate(IDS):
                submit(fleet, id_, f"{SITE}{number % 4}")
            assert eventually(lambda: lines(ledger, "end") == len(IDS))
    assert most_at_once(ledger, lambda repository: repository) == 1
    assert 2 <= most_at_once(ledger, lambda _: "all") <= 3
    assert lines(ledger, "begin") == len(IDS)


def test_a_limit_per_time_holds_over_several_workers(
    place: address.Address, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    with FleetDatabase.open(place) as fleet:
        fleet.limit("default", Limits(per_time=(2, 2.0)))
        for number, id_ in enumerate(IDS[:5]):
            submit(fleet, id_, f"{SITE}{number}")
        with workers(place, ledger, 3, 0.0):
            assert eventually(lambda: lines(ledger, "end") == 5)
    begun = [float(line.split()[3]) for line in ledger.read_text().splitlines() if "begin" in line]
    assert all(later - earlier > 1.5 for earlier, later in zip(begun, begun[2:], strict=False))


# ── news ────────────────────────────────────────────────────────────────────────────────────


def heard(fleet: FleetDatabase, act: Callable[[], object], *pools: str) -> float:
    """Seconds until a worker that waits hears of it; 30 if it does not."""
    never = threading.Event()
    with fleet.working(pools or ("default",), 2) as arrivals:
        arrivals.wait(0.1, never)
        timer = threading.Timer(0.5, act)
        timer.start()
        began = time.monotonic()
        arrivals.wait(30.0, never)
        timer.join()
        return time.monotonic() - began - 0.5


def test_a_waiting_worker_hears_of_what_it_can_take(postgres: Server) -> None:
    place = migrated.of_server(postgres)
    with FleetDatabase.open(place) as fleet, FleetDatabase.open(place) as desk:
        submit(desk, IDS[1], pool="large")
        lease = take(desk, "large")
        assert lease is not None
        desk.submit(NewSession(IDS[2], API, "b", "p", "f", after=IDS[1]))
        assert heard(fleet, lambda: submit(desk, IDS[0])) < 1
        assert heard(fleet, lambda: desk.wait(lease, "pr#1?1", ("continue",)), "large") < 1
        assert heard(fleet, lambda: desk.answer(IDS[1], "pr#1?1", "continue", "Ada"), "large") < 1
        again = take(desk, "large")
        assert again is not None
        assert heard(fleet, lambda: desk.finish(again, State.COMPLETED)) < 1  # of the one after it


def test_a_waiting_worker_hears_again_after_a_restart_of_the_server(postgres: Server) -> None:
    place = migrated.of_server(postgres)
    with FleetDatabase.open(place) as fleet, FleetDatabase.open(place) as desk:

        def restart_and_submit() -> None:
            postgres.restart(hard=True)
            submit(desk, IDS[0])

        assert heard(fleet, restart_and_submit) < 15


def test_a_waiting_worker_stops_at_once(place: address.Address) -> None:
    with FleetDatabase.open(place) as fleet, fleet.working(["default"], 2) as arrivals:
        stopping = threading.Event()
        arrivals.wait(0.1, stopping)
        threading.Timer(0.2, stopping.set).start()
        began = time.monotonic()
        while not stopping.is_set():
            arrivals.wait(30.0, stopping)
        assert time.monotonic() - began < 2


def test_a_worker_has_a_connection_for_each_slot_and_two_more(postgres: Server) -> None:
    place = migrated.of_server(postgres)
    name = place.url.rpartition("/")[2]
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        f"WHERE application_name = 'playbook' AND datname = '{name}'"
    )
    with FleetDatabase.open(place) as fleet, fleet.working(["default"], 3) as arrivals:
        arrivals.wait(0.1, threading.Event())
        stopped = threading.Event()

        def load() -> None:
            while not stopped.is_set():
                fleet.rows()

        threads = [threading.Thread(target=load) for _ in range(12)]
        for thread in threads:
            thread.start()
        seen = [int(postgres.execute(query)[0][0]) for _ in range(20)]
        stopped.set()
        for thread in threads:
            thread.join()
        assert 2 < max(seen) <= 5
        assert eventually(lambda: int(postgres.execute(query)[0][0]) == 2)
