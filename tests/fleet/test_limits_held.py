"""Limits hold while workers are killed, by what the steps wrote."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fleet import ledger
from fleet.machines import Machine, Site, in_time
from fleet.postgres import Server

IN_ALL, OF_ONE, IN_SECONDS = 3, 1, 5.0
PATIENCE = 180.0


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_limits_hold_under_kills(postgres: Server, tmp_path: Path) -> None:
    with Site(tmp_path / "site", postgres, lease=5.0) as site:
        workers = [site.machine(f"m{number}") for number in range(3)]
        limits = ("--in-all", str(IN_ALL), "--per-repository", str(OF_ONE))
        assert workers[0].playbook("fleet", "migrate").code == 0
        assert workers[0].playbook("fleet", "limits", *limits).code == 0
        urls = [site.remote(f"r{number}") for number in range(4)]
        of = {workers[0].submit(url).out.strip(): url for url in urls * 2}
        for machine in workers:
            machine.start()
        assert in_time(lambda: len(ledger.at_work(site.ledger)) > 1, PATIENCE)
        for machine in workers:
            assert in_time(partial(_works_or_all_wait, site, machine, len(of)), PATIENCE)
            machine.kill()
            machine.start()
        assert in_time(lambda: _at_gates(site) == len(of), PATIENCE)
        attempts = site.attempts()
        in_all = ledger.most_at_once(attempts, lambda _: "all")["all"]
        of_one = ledger.most_at_once(attempts, lambda each: of[each.session])
        assert 1 < in_all <= IN_ALL
        assert set(of_one.values()) == {OF_ONE}
        assert ledger.cut_off(attempts) > 0


@pytest.mark.long
def test_no_more_sessions_begin_than_a_rate_allows(postgres: Server, tmp_path: Path) -> None:
    with Site(tmp_path / "site", postgres) as site:
        workers = [site.machine(f"m{number}", work=1) for number in range(2)]
        rate = f"2/{IN_SECONDS:g}"
        assert workers[0].playbook("fleet", "migrate").code == 0
        assert workers[0].playbook("fleet", "limits", "--per-time", rate).code == 0
        url = site.remote("r1")
        for _ in range(6):
            assert workers[0].submit(url).code == 0
        for machine in workers:
            machine.start()
        assert in_time(lambda: _at_gates(site) == 6, PATIENCE)
        begun = sorted(
            min(each.began for each in attempts)
            for attempts in ledger.by_session(site.attempts()).values()
        )
        pairs = zip(begun, begun[2:], strict=False)
        assert all(third - first > IN_SECONDS - 2 for first, third in pairs)
        assert begun[-1] - begun[0] > 2 * (IN_SECONDS - 1)


def _works_or_all_wait(site: Site, machine: Machine, sessions: int) -> bool:
    return machine.name in ledger.at_work(site.ledger) or _at_gates(site) == sessions


def _at_gates(site: Site) -> int:
    """How many sessions have done what comes before their gate."""
    return sum(len(chain.tip.done) >= 3 for chain in site.chains().values())
