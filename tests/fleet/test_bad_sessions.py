"""Sessions that behave badly cost the others nothing, and end where a person can mend them."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fleet import chains, ledger
from fleet.machines import DEADLY, Machine, Site, in_time
from fleet.postgres import Server

WORDS = "quota exceeded"
DEATHS = 5
PATIENCE = 120.0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_sessions_of_the_same_workers_complete(postgres: Server, tmp_path: Path) -> None:
    """One remote refuses, one session kills whatever works for it, and four are healthy."""
    with Site(tmp_path / "site", postgres, lease=4.0) as site:
        workers = [site.machine("m1", work=2), site.machine("m2", work=2)]
        desk = workers[0]
        assert desk.playbook("fleet", "migrate").code == 0
        url = site.remote("r1")
        refused = submitted(desk, site.remote("full"))
        deadly = submitted(desk, url, playbook="deadly")
        healthy = [submitted(desk, url, "--branch", f"work-{number}") for number in range(4)]
        for machine in workers:
            machine.start()
        assert in_time(lambda: worked(site, refused), PATIENCE), logs(workers)
        site.refuse("full", WORDS)
        kills = [0]

        def completed() -> bool:
            kills[0] += started_again(workers)
            answer(desk, healthy)
            tips = {name: chain.tip.status for name, chain in site.chains().items()}
            return all(tips[name] == "completed" for name in healthy)

        begun = time.monotonic()
        assert in_time(completed, PATIENCE), logs(workers)
        took = time.monotonic() - begun

        def both_stuck() -> bool:
            kills[0] += started_again(workers)
            return {stuck(site, each) for each in (refused, deadly)} == {True}

        assert in_time(both_stuck, PATIENCE), logs(workers)
        assert_refused(desk, refused)
        error = row(desk, deadly)["error"]
        assert error["code"] == "PB-FLEET-DIED"
        assert f"died {DEATHS} times during {DEADLY}" in error["message"]
        assert 0 < sum(each.step == DEADLY for each in site.attempts()) <= DEATHS
        assert 0 < kills[0] <= DEATHS
        assert site.chains()[deadly].tip.done == ("one#1",)
        assert took < 60
        assert_nothing_twice(site)


# ── people ──────────────────────────────────────────────────────────────────────────────────


def submitted(desk: Machine, url: str, *options: str, playbook: str = "six") -> str:
    done = desk.submit(url, *options, playbook=playbook)
    assert done.code == 0, done.err
    return done.out.strip()


def row(desk: Machine, session: str) -> dict[str, Any]:
    """What `fleet status` shows of a session; empty before and after."""
    done = desk.playbook("fleet", "status", "--json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["sessions"]
    return next((each for each in rows if each["session"] == session), {})


def waits(desk: Machine, session: str) -> bool:
    return row(desk, session).get("state") == "waiting"


def answer(desk: Machine, sessions: list[str]) -> None:
    """Answer at each gate of these sessions that is shown as waiting."""
    for each in sessions:
        if waits(desk, each):
            desk.playbook("answer", each, "continue")


def stuck(site: Site, session: str) -> bool:
    """Whether the session is stuck. The pauses for which it is put off are cut short."""
    state = row(site.machines[0], session)["state"]
    if state == "queued":
        change = f"SET due_at = 1 WHERE id = '{session}' AND state = 'queued' AND due_at > 0"
        if site.server:
            site.server.execute(f"UPDATE fleet.session {change}", site.database)
        else:
            with closing(sqlite3.connect(site.folder / "fleet.sqlite", timeout=10)) as file, file:
                file.execute(f"UPDATE fleet_session {change}")
    return bool(state == "stuck")


def started_again(workers: list[Machine]) -> int:
    """How many workers had ended, and are started again."""
    ended = [machine for machine in workers if not machine.runs()]
    for machine in ended:
        machine.start()
    return len(ended)


def worked(site: Site, session: str) -> bool:
    return any(each.session == session for each in site.attempts())


# ── judges ──────────────────────────────────────────────────────────────────────────────────


def assert_refused(desk: Machine, session: str) -> None:
    error = row(desk, session)["error"]
    assert error["code"] == "PB-FLEET-REFUSED"
    assert WORDS in error["message"]


def assert_nothing_twice(site: Site) -> None:
    found = site.chains()
    settled = {session: chain.tip.done for session, chain in found.items()}
    assert ledger.begun_after(site.attempts(), settled) == []
    assert ledger.repeated(site.attempts()) == []
    for chain in found.values():
        for judge in (chains.broken_lines, chains.dropped, chains.undone, chains.done_twice):
            assert judge(chain) == []


def logs(workers: list[Machine]) -> str:
    return "\n".join(machine.log.read_text() for machine in workers)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_remote_that_refuses_holds_no_slot(tmp_path: Path) -> None:
    with Site(tmp_path / "site", None, lease=4.0, slots=1) as site:
        worker = site.machine("m1", work=2)
        assert worker.playbook("fleet", "migrate").code == 0
        refused = submitted(worker, site.remote("full"))
        worker.start()
        assert in_time(lambda: ledger.at_work(site.ledger) != set(), PATIENCE), worker.said()
        site.refuse("full", WORDS)
        healthy = submitted(worker, site.remote("r1"))
        assert in_time(lambda: waits(worker, healthy), PATIENCE), worker.said()
        assert in_time(lambda: stuck(site, refused), PATIENCE), worker.said()
        assert_refused(worker, refused)
        site.accept("full")
        assert worker.playbook("fleet", "retry", "--stuck").code == 0
        assert in_time(lambda: waits(worker, refused), PATIENCE), worker.said()
        assert_nothing_twice(site)
