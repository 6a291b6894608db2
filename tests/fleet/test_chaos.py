"""A fleet keeps its promises while its machines, its database and its remotes fail.

docs/decisions/0240-steps-and-git-are-the-judges.md says how it is proved. Variables: FLEET_SEED
repeats a schedule of faults, and FLEET_REPORT is a file for the report. `make fleet-chaos` takes
FLEET_SESSIONS, FLEET_WORKERS, FLEET_MINUTES, FLEET_KILLS, FLEET_FAULTS, FLEET_PAUSE and
FLEET_DATABASE, too.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from fleet import reports
from fleet.chaos import Chaos
from fleet.faults import DATABASE_FAULTS, Plan
from fleet.machines import Site
from fleet.postgres import Server

SEED = int(os.environ.get("FLEET_SEED") or 20261125)
BEATS, FEW = 10, 3
"""Of each step. With kills all the time, long ones would never be done."""
WORKERS = int(os.environ.get("FLEET_WORKERS") or 3)
PAUSE = os.environ.get("FLEET_PAUSE", "")
"""Seconds between two faults, `2-5`: the least and the most."""
FAULTS = os.environ.get("FLEET_FAULTS", "")
"""The names of those that may strike, with commas between them; empty for all."""
LONG = int(os.environ.get("FLEET_MINUTES") or 0)
ENOUGH = 5
"""Minutes in which each fault strikes."""


def suffered(plan: Plan, folder: Path, server: Server | None, number: int = 3) -> dict[str, Any]:
    """The report of a run with that many workers, three or more.

    The clock of one is an hour ahead; with SQLite, all are on one machine, so it is not.
    """
    with Site(folder, server) as site:
        desk = site.machine("desk")
        beats = FEW if plan.kills or number > 3 else BEATS
        workers = [
            site.machine("m1", work=beats),
            site.machine("m2", work=beats, clock=3600 if server else 0),
            site.machine("m3", work=beats, disk=48),
            *(site.machine(f"m{each}", work=beats) for each in range(4, number + 1)),
        ]
        made = desk.playbook("fleet", "migrate")
        assert made.code == 0, made.err
        chaos = Chaos(site, plan, workers, desk)
        try:
            chaos.run()
            return reports.report(chaos)
        finally:
            if kept := os.environ.get("FLEET_KEPT"):
                for machine in workers:
                    Path(kept, f"{machine.name}.log").write_bytes(machine.log.read_bytes())


def judge(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Print the report, and fail if a promise was broken."""
    text = json.dumps(report, indent=1)
    with capsys.disabled():
        print(f"\n{text}")
    if file := os.environ.get("FLEET_REPORT"):
        Path(file).write_text(text)
    assert report["broken"] == {}
    assert report["kills"] > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_fleet_keeps_its_promises_for_a_minute(
    postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(seed=SEED, sessions=8, seconds=20.0, lasting=frozenset({"freeze the machine"}))
    judge(suffered(plan, tmp_path / "site", postgres), capsys)


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="`make fleet-chaos` takes many minutes")
def test_a_fleet_keeps_its_promises_for_long(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_postgres = os.environ.get("FLEET_DATABASE", "postgres") == "postgres"
    server = request.getfixturevalue("postgres") if on_postgres else None
    kills = int(os.environ.get("FLEET_KILLS") or 0)
    usual: tuple[float, float] = (0.4, 1.4) if kills else (1.0, 3.0)
    least, _, most = PAUSE.partition("-")
    plan = Plan(
        seed=int(os.environ.get("FLEET_SEED") or secrets.randbelow(10**6)),
        sessions=int(os.environ.get("FLEET_SESSIONS") or 60),
        seconds=LONG * 60.0,
        kills=kills,
        pause=(float(least), float(most or least)) if least else usual,
        faults=frozenset(filter(None, FAULTS.split(","))),
        repositories=6,
        patience=3600.0,
        bad=True,
    )
    report = suffered(plan, tmp_path / "site", server, WORKERS)
    judge(report, capsys)
    if LONG >= ENOUGH and not FAULTS:
        possible = plan.lasting - (frozenset() if server else DATABASE_FAULTS.keys())
        assert report["lasted for three leases"] == sorted(possible)
