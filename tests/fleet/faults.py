"""The faults that strike a fleet, by a schedule that a seed determines."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from fleet import ledger
from fleet.machines import Machine, Site

MACHINE_FAULTS = {
    "kill the worker": 4,
    "kill the machine": 4,
    "freeze the worker": 2,
    "freeze the machine": 2,
    "end the worker": 1,
    "cut off the remotes": 1,
    "revoke the key": 1,
}
"""And how often each comes in a round of all of them."""
DATABASE_FAULTS = {
    "cut off the database": 1,
    "restart the database": 1,
    "pause the database": 1,
    "restore the database": 1,
}
SHARED_FAULTS = {"move the remotes away": 1, "fill the disk": 1}
KILLS = frozenset({"kill the worker", "kill the machine"})
LASTING = frozenset(
    {
        "freeze the machine",
        "cut off the database",
        "pause the database",
        "move the remotes away",
    }
)
"""Those that last for three leases when they strike for the first time."""
_LASTS = 3.0
KILLED_BY_A_SESSION = "workers that a session killed"
_BRIEF = frozenset({*KILLS, "end the worker", "restart the database", "restore the database"})
_START = 30.0
"""Seconds in which a worker may find that it cannot reach the database."""


@dataclass(frozen=True)
class Plan:
    """What happens. Once steps are at work, faults come, between `pause` apart, for `seconds`.

    With `kills`, there are further faults until there were so many, and further sessions that keep
    the workers busy. Of `one_in` sessions, one is cancelled; two people answer each second one.
    """

    seed: int
    sessions: int = 12
    seconds: float = 40.0
    kills: int = 0
    pause: tuple[float, float] = (1.0, 3.0)
    faults: frozenset[str] = frozenset()
    """The names of those that may strike; empty for all."""
    repositories: int = 3
    one_in: int = 8
    patience: float = 120.0
    """Seconds until all sessions have to have ended, once everything is healed."""
    lasting: frozenset[str] = LASTING
    bad: bool = False
    """Whether one more session's remote refuses it, and one more kills the workers that take it."""


@dataclass(frozen=True)
class Fault:
    """A fault, the machine that it strikes, what comes before, and how long it lasts in leases.

    One that is aimed waits for a while until a step is at work, and strikes its machine.
    """

    name: str
    machine: int
    pause: float
    length: float
    aimed: bool


@dataclass
class Happened:
    """What was done to the fleet, and what was not to be expected. Times are the ledger's."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[float, str, str]] = field(default_factory=list)
    """When, which, and the machine."""
    thaws: list[tuple[float, str]] = field(default_factory=list)
    """Of whole machines."""
    restores: list[tuple[float, float]] = field(default_factory=list)
    """When the older copy of the database was made, and when it had been rebuilt from git."""
    lasting: set[str] = field(default_factory=set)
    """The faults that have lasted for three leases."""
    unexpected: list[str] = field(default_factory=list)

    def took_back(self, at: float) -> bool:
        """Whether a restored database may have forgotten an answer given at this time."""
        return any(taken - 5 < at < rebuilt + 5 for taken, rebuilt in self.restores)

    def told(self, act: Callable[[], None]) -> None:
        """Do something; what goes wrong with the tests themselves is told in the report."""
        try:
            act()
        except Exception:
            self.unexpected.append(traceback.format_exc())


def schedule(plan: Plan, machines: int, names: dict[str, int]) -> Iterator[Fault]:
    """The faults that the plan's seed determines, without end, each as often as `names` says."""
    chance = random.Random(plan.seed)  # noqa: S311 - it must repeat itself
    all_of_them = [name for name, times in names.items() for _ in range(times)]
    while True:
        for name in chance.sample(all_of_them, len(all_of_them)):
            pause, length = chance.uniform(*plan.pause), chance.uniform(0.4, 2.2)
            aimed = chance.random() < 0.7
            yield Fault(name, chance.randrange(machines), pause, length, aimed)


class Storm:
    """Faults on these machines. `urls` are the repositories from which a database is rebuilt."""

    def __init__(
        self,
        site: Site,
        plan: Plan,
        workers: Sequence[Machine],
        desk: Machine,
        urls: Sequence[str],
        happened: Happened,
    ) -> None:
        self._site, self._plan, self._workers, self._desk = site, plan, workers, desk
        self._urls, self._happened = urls, happened
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._shared_fault = threading.Lock()

    def rage(self) -> None:
        """Let faults strike as the plan says, and then heal everything."""
        names = MACHINE_FAULTS | SHARED_FAULTS | (DATABASE_FAULTS if self._site.server else {})
        if wanted := self._plan.faults:
            assert wanted <= names.keys(), wanted - names.keys()
            names = {name: times for name, times in names.items() if name in wanted}
        until = time.monotonic() + self._plan.seconds
        with ThreadPoolExecutor(8) as self._destiny:
            for fault in schedule(self._plan, len(self._workers), names):
                self._wait(fault)
                killed = sum(self._happened.counts[name] for name in KILLS)
                if time.monotonic() > until and killed >= self._plan.kills:
                    return
                self._strike(fault)

    def _wait(self, fault: Fault) -> None:
        """Wait for the time of a fault and, if it is aimed, for a step that it can cut off."""
        due = time.monotonic() + fault.pause
        latest = due + 2 * self._site.lease
        while (now := time.monotonic()) < latest:
            self.watch()
            if now > due and (not fault.aimed or self._at_work()):
                return
            time.sleep(0.1)

    def _at_work(self) -> list[Machine]:
        """The machines that no fault has struck and on which a step is at work."""
        at_work = ledger.at_work(self._site.ledger)
        return [
            each for each in self._workers if each.name in at_work and each.name not in self._busy
        ]

    def watch(self) -> None:
        """Start a worker that has ended by itself.

        It must not, unless it was started while the database could not be reached, or a session
        that does so has killed it.
        """
        for machine in self._workers:
            with self._lock:
                ended = machine.name not in self._busy and not machine.runs()
            if ended:
                said = machine.said()
                begun = "taken" in said or "put back" in said
                if "PB-FLEET-DATABASE" in said and not begun:
                    self._happened.counts["starts without a database"] += 1
                elif self._plan.bad and machine.killed():
                    self._happened.counts[KILLED_BY_A_SESSION] += 1
                else:
                    self._happened.unexpected.append(f"{machine.name} has ended: {said[-300:]}")
                machine.start()

    def _strike(self, fault: Fault) -> None:
        with self._lock:
            free = [each for each in self._workers if each.name not in self._busy]
            if len(free) < (1 if fault.name in _BRIEF else 2):
                return
            if fault.name == "fill the disk":
                free = [each for each in free if each.disk]
            if not free:
                return
            if fault.aimed:
                free = [each for each in self._at_work() if each in free] or free
            wanted = self._workers[fault.machine]
            machine = wanted if wanted in free else free[0]
            self._busy.add(machine.name)
        suffer = partial(self._suffer, fault, machine)
        self._destiny.submit(self._happened.told, suffer)

    def _suffer(self, fault: Fault, machine: Machine) -> None:
        acts: dict[str, Callable[[Machine, float], None]] = {
            "kill the worker": self._kill_worker,
            "kill the machine": self._kill_machine,
            "freeze the worker": self._freeze_worker,
            "freeze the machine": self._freeze_machine,
            "end the worker": self._end_worker,
            "cut off the remotes": self._cut_off_remotes,
            "revoke the key": self._revoke_key,
            "cut off the database": self._cut_off_database,
            "fill the disk": self._fill_disk,
        }
        shared: dict[str, Callable[[float], None]] = {
            "restart the database": self._restart_database,
            "pause the database": self._pause_database,
            "restore the database": self._restore_database,
            "move the remotes away": self._move_remotes_away,
        }
        try:
            if fault.name in acts:
                seconds = self._begin(fault, machine.name)
                acts[fault.name](machine, seconds)
            elif self._shared_fault.acquire(blocking=False):
                try:
                    seconds = self._begin(fault, "")
                    shared[fault.name](seconds)
                finally:
                    self._shared_fault.release()
        finally:
            with self._lock:
                self._busy.discard(machine.name)

    def _begin(self, fault: Fault, machine: str) -> float:
        """Write a fault down; how many seconds it lasts."""
        with self._lock:
            self._happened.counts[fault.name] += 1
            self._happened.faults.append((ledger.now(), fault.name, machine))
            lasts = fault.name in self._plan.lasting - self._happened.lasting
            if lasts:
                self._happened.lasting.add(fault.name)
        return (_LASTS if lasts else fault.length) * self._site.lease

    def _kill_worker(self, machine: Machine, seconds: float) -> None:
        machine.kill_worker()
        time.sleep(seconds / 4)
        machine.start()

    def _kill_machine(self, machine: Machine, seconds: float) -> None:
        machine.kill()
        time.sleep(seconds / 4)
        machine.start()

    def _freeze_worker(self, machine: Machine, seconds: float) -> None:
        machine.freeze_worker()
        time.sleep(seconds)
        machine.thaw()

    def _freeze_machine(self, machine: Machine, seconds: float) -> None:
        machine.freeze()
        time.sleep(seconds)
        self._happened.thaws.append((ledger.now(), machine.name))
        machine.thaw()

    def _end_worker(self, machine: Machine, seconds: float) -> None:
        self.terminate(machine)
        machine.start()

    def terminate(self, machine: Machine) -> None:
        young = machine.age() < _START and "worker" not in machine.said()
        status = machine.terminate()
        expected = {128 + 15, *((-15,) if young else ()), *((-9,) if self._plan.bad else ())}
        if status not in expected:
            self._happened.unexpected.append(f"{machine.name}: exit status {status} after SIGTERM")

    def _cut_off_remotes(self, machine: Machine, seconds: float) -> None:
        machine.git_way.hold()
        time.sleep(seconds)
        machine.git_way.heal()

    def _revoke_key(self, machine: Machine, seconds: float) -> None:
        """The remotes answer the machine alternately as an unknown and as a forbidden client."""
        status = (403, 401)[self._happened.counts["revoke the key"] % 2]
        self._site.git_server.refuse(machine.name, status)
        time.sleep(seconds)
        self._site.git_server.allow(machine.name)

    def _cut_off_database(self, machine: Machine, seconds: float) -> None:
        assert machine.database_way
        machine.database_way.drop()
        time.sleep(seconds)
        machine.database_way.heal()

    def _fill_disk(self, machine: Machine, seconds: float) -> None:
        file = machine.fill_disk()
        time.sleep(seconds)
        file.unlink(missing_ok=True)

    def _restart_database(self, seconds: float) -> None:
        assert self._site.server
        self._site.server.stop(hard=True)
        time.sleep(seconds / 8)
        self._site.server.start()

    def _pause_database(self, seconds: float) -> None:
        assert self._site.server
        with self._site.server.paused():
            time.sleep(seconds)

    def _restore_database(self, seconds: float) -> None:
        assert self._site.server
        copy, taken = self._site.server.dump(self._site.database), ledger.now()
        time.sleep(seconds)
        self._site.server.restore(self._site.database, copy)
        repositories = [part for url in self._urls for part in ("--repo", url)]
        rebuilt = self._desk.playbook("fleet", "rebuild", *repositories)
        self._happened.restores.append((taken, ledger.now()))
        if rebuilt.code:
            self._happened.unexpected.append(f"fleet rebuild: {rebuilt.err}")

    def _move_remotes_away(self, seconds: float) -> None:
        away = self._site.remotes.with_name("away")
        self._site.remotes.rename(away)
        time.sleep(seconds)
        away.rename(self._site.remotes)
