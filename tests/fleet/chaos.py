"""A fleet at work while its machines, its database and its remotes fail.

People submit, answer and cancel; faults strike. In the end everything is healed, and `reports`
judges what the steps wrote and the remotes accepted.
"""

from __future__ import annotations

import threading
import time

from fleet.faults import Happened, Plan, Storm
from fleet.machines import Machine, Site, in_time
from fleet.people import Crowd

_FULL = "full"
"""The name of the remote that refuses."""


class Chaos:
    """One run. `workers` are the machines that work; people sit at `desk`."""

    def __init__(self, site: Site, plan: Plan, workers: list[Machine], desk: Machine) -> None:
        self.site, self.plan, self.workers, self.desk = site, plan, workers, desk
        self.happened = Happened()
        urls = [site.remote(f"r{number}") for number in range(plan.repositories)]
        full = [site.remote(_FULL)] if plan.bad else []
        self._storm = Storm(site, plan, workers, desk, urls + full, self.happened)
        self.crowd = Crowd(site, plan, len(workers), desk, urls, self.happened)
        self.asked = self.crowd.asked

    def run(self) -> None:
        if self.plan.bad:
            self.crowd.submit_bad(_FULL)
        for machine in self.workers:
            machine.start()
        crowd = threading.Thread(target=self.crowd.act)
        crowd.start()
        try:
            in_time(lambda: len(self.site.attempts()) >= len(self.workers))
            self._storm.rage()
            self.crowd.settle()
            self._wait_for_ends()
        finally:
            self.crowd.leave()
            crowd.join()
        for machine in self.workers:
            self._storm.terminate(machine)

    def _wait_for_ends(self) -> None:
        until = time.monotonic() + self.plan.patience
        while not self.crowd.done() and time.monotonic() < until:
            self._storm.watch()
            time.sleep(0.5)
