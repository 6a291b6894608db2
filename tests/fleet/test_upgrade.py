"""Workers of the release before and of this one share a database while it is upgraded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet import chains, ledger
from fleet.machines import GATE, Machine, Site, in_time
from fleet.postgres import Server

OLDER = Path(sys.prefix) / "older-fleet/bin/python"
PATIENCE = 300.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not OLDER.exists(), reason="make .venv/older-fleet could not install the release before"
    ),
]


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.thorough), "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    server: Server | None = None
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
    with Site(tmp_path / "site", server) as made:
        yield made


def test_the_database_is_upgraded_while_older_workers_run(site: Site) -> None:
    older = [site.machine(f"older{number}", python=str(OLDER)) for number in range(2)]
    newer = [site.machine(f"newer{number}") for number in range(2)]
    urls = [site.remote(f"r{number}") for number in range(3)]
    assert older[0].playbook("fleet", "migrate").code == 0
    started(older)
    sessions = [submitted(older[0], url) for url in urls]
    assert in_time(partial(at_gates, older[0], 2), PATIENCE), logs(older)
    sessions += [submitted(older[0], url) for url in urls]
    assert in_time(lambda: ledger.at_work(site.ledger) != set(), PATIENCE), logs(older)

    migrated = newer[0].playbook("fleet", "migrate")
    assert migrated.code == 0, migrated.err
    started(newer)
    sessions += [submitted(newer[0], url) for url in urls]
    assert in_time(completed(site, newer[0], sessions), PATIENCE), logs(older + newer)
    assert all(machine.runs() for machine in older), logs(older)
    assert_promises_kept(site, sessions)

    older[1].terminate()
    assert "Upgrade playbook here" in refused(older[1], "PB-FLEET-NEWER")


@pytest.mark.thorough
def test_newer_workers_wait_for_the_upgrade_and_older_ones_go_on(site: Site) -> None:
    older, newer = site.machine("older", python=str(OLDER)), site.machine("newer")
    urls = [site.remote(f"r{number}") for number in range(2)]
    assert older.playbook("fleet", "migrate").code == 0
    started([older])
    sessions = [submitted(older, url) for url in urls]
    assert in_time(lambda: ledger.at_work(site.ledger) != set(), PATIENCE), logs([older])

    assert "playbook fleet migrate" in refused(newer, "PB-FLEET-NOT-UP")
    assert in_time(completed(site, older, sessions), PATIENCE), logs([older])
    assert all(each.machine == "older" for each in site.attempts())

    sessions += [submitted(older, url) for url in urls * 2]
    assert in_time(lambda: at_gates(older, 1), PATIENCE), logs([older])
    assert older.terminate() == 128 + 15
    assert newer.playbook("fleet", "migrate").code == 0
    started([newer])
    assert in_time(completed(site, newer, sessions), PATIENCE), logs([older, newer])
    assert_promises_kept(site, sessions)


# ── people ──────────────────────────────────────────────────────────────────────────────────


def submitted(desk: Machine, url: str) -> str:
    done = desk.submit(url)
    assert done.code == 0, done.err
    return done.out.strip()


def waiting(desk: Machine) -> list[str]:
    """The sessions that wait at gates, as `fleet status` shows them."""
    done = desk.playbook("fleet", "status", "--json")
    assert done.code == 0, done.err
    rows: list[dict[str, Any]] = json.loads(done.out)["sessions"]
    return [row["session"] for row in rows if row["state"] == "waiting"]


def at_gates(desk: Machine, number: int) -> bool:
    return len(waiting(desk)) >= number


def completed(site: Site, desk: Machine, sessions: Sequence[str]) -> Callable[[], bool]:
    """Whether all have completed, by git; until then, their gates are answered."""

    def have() -> bool:
        for session in waiting(desk):
            desk.playbook("answer", session, "--gate", GATE, "continue")
        found = site.chains()
        return all(found[session].tip.status == "completed" for session in sessions)

    return have


# ── workers ─────────────────────────────────────────────────────────────────────────────────


def started(machines: Sequence[Machine]) -> None:
    for machine in machines:
        machine.start()
    assert in_time(lambda: all("pools" in machine.said() for machine in machines)), logs(machines)


def refused(machine: Machine, code: str) -> str:
    """What a worker says that ends at once with this error."""
    machine.start()
    assert in_time(lambda: not machine.runs()), machine.said()
    assert machine.worker
    assert machine.worker.returncode > 0
    assert code in machine.said()
    assert "Traceback" not in machine.said()
    return machine.said()


def logs(machines: Sequence[Machine]) -> str:
    return "\n".join(machine.log.read_text() for machine in machines)


def assert_promises_kept(site: Site, sessions: Sequence[str]) -> None:
    found, attempts = site.chains(), site.attempts()
    settled = {session: found[session].tip.done for session in sessions}
    assert ledger.begun_after(attempts, settled) == []
    assert ledger.repeated(attempts) == []
    assert ledger.overlaps(attempts) == []
    for session in sessions:
        for judge in (
            chains.broken_lines,
            chains.dropped,
            chains.undone,
            chains.done_twice,
            chains.unpublished,
        ):
            assert judge(found[session]) == []
