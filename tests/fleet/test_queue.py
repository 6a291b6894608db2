"""The queue: what comes next, its limits, and the connections of a worker."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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


@dataclass
class Ledger:
    """The sessions that begin and end in threads which work as workers do."""

    place: address.Address
    seconds: float
    begun: list[float] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    most: Counter[str] = field(default_factory=Counter)
    """How many of each repository, and of all, were at work at once."""

    @contextmanager
    def working(self, number: int) -> Iterator[None]:
        over, turn, now = threading.Event(), threading.Lock(), Counter[str]()

        def note(key: str, by: int) -> None:
            with turn:
                for each in (key, "all"):
                    now[each] += by
                    self.most[each] = max(self.most[each], now[each])

        def work(name: str) -> None:
            with FleetDatabase.open(self.place) as fleet:
                while not over.is_set():
                    lease = fleet.take_next(["default"], name, LONG)
                    if not isinstance(lease, Lease):
                        over.wait(0.02)
                        continue
                    self.begun.append(time.monotonic())
                    note(lease.row.repository, 1)
                    time.sleep(self.seconds)
                    note(lease.row.repository, -1)
                    fleet.finish(lease, State.COMPLETED)
                    self.ended.append(lease.session)

        threads = [threading.Thread(target=work, args=(f"w-{each}",)) for each in range(number)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_limits_hold_over_several_workers(place: address.Address) -> None:
    ledger = Ledger(place, 0.1)
    with FleetDatabase.open(place) as fleet, ledger.working(6):
        fleet.limit("default", Limits(in_all=3, per_repository=1))
        for number, id_ in enumerate(IDS):
            submit(fleet, id_, f"{SITE}{number % 4}")
        assert eventually(lambda: len(ledger.ended) == len(IDS))
    assert 2 <= ledger.most.pop("all") <= 3
    assert set(ledger.most.values()) == {1}
    assert len(ledger.begun) == len(IDS)


def test_a_limit_per_time_holds_over_several_workers(place: address.Address) -> None:
    ledger = Ledger(place, 0.0)
    with FleetDatabase.open(place) as fleet:
        fleet.limit("default", Limits(per_time=(2, 1.0)))
        for number, id_ in enumerate(IDS[:4]):
            submit(fleet, id_, f"{SITE}{number}")
        with ledger.working(3):
            assert eventually(lambda: len(ledger.ended) == 4)
    first, _, third, _ = sorted(ledger.begun)
    assert third - first > 0.7


# ── connections ─────────────────────────────────────────────────────────────────────────────


def test_a_worker_has_a_connection_for_each_slot_and_one_more(postgres: Server) -> None:
    place = migrated.of_server(postgres)
    name = place.url.rpartition("/")[2]
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        f"WHERE application_name = 'playbook' AND datname = '{name}'"
    )
    with FleetDatabase.open(place) as fleet:
        fleet.serve(slots=3)
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
        assert 1 < max(seen) <= 4
        assert eventually(lambda: int(postgres.execute(query)[0][0]) == 1)
