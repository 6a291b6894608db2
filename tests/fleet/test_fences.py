"""Each fence alone: what it holds while another is taken away, and the damage without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import chains, ledger
from fleet.chains import Link
from fleet.machines import Machine, Site, in_time
from fleet.postgres import Server

pytestmark = pytest.mark.long
UNLEASHED = str(Path(__file__).with_name("unleashed.py"))
LEASE = 4.0  # seconds
BEATS = 50
"""A step works for longer than a lease lasts, however late the worker begins."""


@pytest.fixture
def site(postgres: Server, tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "site", postgres, lease=LEASE, slots=1) as site:
        yield site


class Succession:
    """A worker is frozen while its agent works; another takes the session over; the first thaws."""

    def __init__(self, site: Site, *program: str) -> None:
        self.site = site
        self.first = site.machine("first", work=BEATS)
        self.second = site.machine("second", work=BEATS)
        self.first.program = program or self.first.program
        assert self.first.playbook("fleet", "migrate").code == 0
        submitted = self.first.submit(site.remote("r1"))
        assert submitted.code == 0, submitted.err
        self.session = submitted.out.strip()

    def take_place(self) -> None:
        self.first.start()
        assert in_time(lambda: bool(self.site.attempts())), self.first.log.read_text()
        self.first.freeze_worker()
        self.second.start()
        assert in_time(lambda: self._begun_by(self.second)), self.second.log.read_text()
        self.first.thaw()

    def chain(self) -> chains.Chain:
        return self.site.chains()[self.session]

    def held(self) -> list[Link]:
        """What the remote has of the second worker's claims and snapshots."""
        worker = self.chain().tip.worker
        return [link for link in self.chain().links if link.worker == worker]

    def _begun_by(self, machine: Machine) -> bool:
        return any(each.machine == machine.name for each in self.site.attempts())


def test_a_frozen_worker_has_no_agent_when_another_takes_over(site: Site) -> None:
    """The leash: it ends the agents although their worker cannot."""
    succession = Succession(site)
    succession.take_place()
    assert in_time(lambda: "given up" in succession.first.log.read_text())
    assert ledger.overlaps(site.attempts()) == []
    chain = succession.chain()
    assert chains.broken_lines(chain) == chains.dropped(chain) == []


def test_the_remote_refuses_an_overtaken_worker_that_does_not_know(site: Site) -> None:
    """The ref, with the leash off: the judge of the steps sees two agents, git has one line."""
    succession = Succession(site, UNLEASHED)
    succession.take_place()
    assert in_time(lambda: "given up" in succession.first.log.read_text())
    assert "moved by another worker" in succession.first.log.read_text()
    assert ledger.overlaps(site.attempts()) != []
    chain = succession.chain()
    assert chains.broken_lines(chain) == chains.dropped(chain) == []


def test_without_compare_and_swap_the_judges_find_the_damage(site: Site) -> None:
    """The control: an overtaken worker that forces its pushes drops its successor's claim."""
    succession = Succession(site, UNLEASHED, "--unfenced")
    succession.take_place()
    assert in_time(lambda: chains.dropped(succession.chain()) != [])
