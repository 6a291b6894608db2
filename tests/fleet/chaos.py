"""A fleet at work while its machines, its database and its remotes fail.

People submit, answer and cancel; faults strike by a schedule that a seed determines. In the end
everything is healed, and what the steps wrote and the remotes accepted is judged.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import psycopg
from program import Result

from fleet import ledger
from fleet.chains import Answer
from fleet.machines import GATE, Machine, Site, in_time

MACHINE_FAULTS = {
    "kill the worker": 4,
    "kill the machine": 4,
    "freeze the worker": 2,
    "freeze the machine": 2,
    "end the worker": 1,
    "cut off the remotes": 1,
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
CANCELLED = "not needed any more"
_BRIEF = frozenset({*KILLS, "end the worker", "restart the database", "restore the database"})
_ENDED = ("completed", "failed", "aborted")
_START = 30.0
"""Seconds in which a worker may find that it cannot reach the database."""
_SUBMISSION = "submission"
_AT_ONCE = 3
"""Submissions."""


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
    repositories: int = 3
    one_in: int = 8
    patience: float = 120.0
    """Seconds until all sessions have to have ended, once everything is healed."""


@dataclass(frozen=True)
class Fault:
    """A fault, the machine that it strikes, what comes before, and how long it lasts in leases."""

    name: str
    machine: int
    pause: float
    length: float


@dataclass
class Asked:
    """A session that a person submitted, and what they were told."""

    session: str
    number: int
    at: float
    cancel_after: float | None = None
    cancelled: float = 0.0
    answers: list[Answer] = field(default_factory=list)
    answered: float = 0.0
    unknown: list[Answer] = field(default_factory=list)
    """Answers after which the connection broke: they may count or not."""
    taken_back: list[Answer] = field(default_factory=list)
    """Those that an older copy of the database did not have."""


def schedule(plan: Plan, machines: int, names: dict[str, int]) -> Iterator[Fault]:
    """The faults that the plan's seed determines, without end, each as often as `names` says."""
    chance = random.Random(plan.seed)  # noqa: S311 - it must repeat itself
    all_of_them = [name for name, times in names.items() for _ in range(times)]
    while True:
        for name in chance.sample(all_of_them, len(all_of_them)):
            pause, length = chance.uniform(*plan.pause), chance.uniform(0.4, 2.2)
            yield Fault(name, chance.randrange(machines), pause, length)


class Chaos:
    """One run. `workers` are the machines that work; people sit at `desk`."""

    def __init__(self, site: Site, plan: Plan, workers: list[Machine], desk: Machine) -> None:
        self.site, self.plan, self.workers, self.desk = site, plan, workers, desk
        self.urls = [site.remote(f"r{number}") for number in range(plan.repositories)]
        self.asked: dict[str, Asked] = {}
        self.counts: Counter[str] = Counter()
        self.faults: list[tuple[float, str, str]] = []
        self.thaws: list[tuple[float, str]] = []
        self.unexpected: list[str] = []
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._shared_fault = threading.Lock()
        self._jobs: list[Future[None]] = []
        self.restores: list[tuple[float, float]] = []
        self._over, self._closing = threading.Event(), threading.Event()
        self._numbers = count(1)
        self._people = ThreadPoolExecutor(4)
        self._destiny = ThreadPoolExecutor(8)

    def run(self) -> None:
        """Carry out the plan, and end the workers. `reports.report` judges what came of it."""
        for machine in self.workers:
            machine.start()
        crowd = threading.Thread(target=self._crowd)
        crowd.start()
        try:
            self._storm()
            self._over.set()
            for job in self._jobs:
                job.result()
            self._wait_for_ends()
        finally:
            self._closing.set()
            crowd.join()
            self._people.shutdown()
            self._destiny.shutdown()
        for machine in self.workers:
            self._terminate(machine)

    # ── faults ──────────────────────────────────────────────────────────────────────────────

    def _storm(self) -> None:
        in_time(lambda: len(self.site.attempts()) >= len(self.workers))
        names = MACHINE_FAULTS | SHARED_FAULTS | (DATABASE_FAULTS if self.site.server else {})
        until = time.monotonic() + self.plan.seconds
        for fault in schedule(self.plan, len(self.workers), names):
            due = time.monotonic() + fault.pause
            while time.monotonic() < due:
                self._watch()
                time.sleep(0.1)
            killed = sum(self.counts[name] for name in KILLS)
            if time.monotonic() > until and killed >= self.plan.kills:
                return
            self._strike(fault)

    def _watch(self) -> None:
        """Start a worker that has ended by itself.

        It must not, unless it was started while the database could not be reached.
        """
        for machine in self.workers:
            with self._lock:
                ended = machine.name not in self._busy and not machine.runs()
            if ended:
                said = machine.said()
                begun = "taken" in said or machine.age() > _START
                if "PB-FLEET-DATABASE" in said and not begun:
                    self.counts["starts without a database"] += 1
                else:
                    self.unexpected.append(f"{machine.name} has ended: {said[-300:]}")
                machine.start()

    def _strike(self, fault: Fault) -> None:
        with self._lock:
            free = [each for each in self.workers if each.name not in self._busy]
            if len(free) < (1 if fault.name in _BRIEF else 2):
                return
            wanted = self.workers[fault.machine]
            machine = wanted if wanted in free else free[0]
            if fault.name == "fill the disk" and not machine.disk:
                return
            self._busy.add(machine.name)
        self._jobs.append(self._destiny.submit(self._suffer, fault, machine))

    def _suffer(self, fault: Fault, machine: Machine) -> None:
        seconds = fault.length * self.site.lease
        acts: dict[str, Callable[[Machine, float], None]] = {
            "kill the worker": self._kill_worker,
            "kill the machine": self._kill_machine,
            "freeze the worker": self._freeze_worker,
            "freeze the machine": self._freeze_machine,
            "end the worker": self._end_worker,
            "cut off the remotes": self._cut_off_remotes,
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
                self._begin(fault.name, machine.name)
                acts[fault.name](machine, seconds)
            elif self._shared_fault.acquire(blocking=False):
                try:
                    self._begin(fault.name, "")
                    shared[fault.name](seconds)
                finally:
                    self._shared_fault.release()
        finally:
            with self._lock:
                self._busy.discard(machine.name)

    def _begin(self, name: str, machine: str) -> None:
        self.counts[name] += 1
        self.faults.append((ledger.now(), name, machine))

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
        self.thaws.append((ledger.now(), machine.name))
        machine.thaw()

    def _end_worker(self, machine: Machine, seconds: float) -> None:
        self._terminate(machine)
        machine.start()

    def _terminate(self, machine: Machine) -> None:
        """End a worker as its operator does. At its start, the signal may just kill it."""
        young = machine.age() < _START and "worker" not in machine.said()
        status = machine.terminate()
        if status != 128 + 15 and not (young and status == -15):
            self.unexpected.append(f"{machine.name}: exit status {status} after SIGTERM")

    def _cut_off_remotes(self, machine: Machine, seconds: float) -> None:
        machine.git_way.hold()
        time.sleep(seconds)
        machine.git_way.heal()

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
        assert self.site.server
        self.site.server.stop(hard=True)
        time.sleep(seconds / 8)
        self.site.server.start()

    def _pause_database(self, seconds: float) -> None:
        assert self.site.server
        with self.site.server.paused():
            time.sleep(seconds)

    def _restore_database(self, seconds: float) -> None:
        assert self.site.server
        copy, taken = self.site.server.dump(self.site.database), ledger.now()
        time.sleep(seconds)
        self.site.server.restore(self.site.database, copy)
        self.restores.append((taken, ledger.now()))
        repositories = [part for url in self.urls for part in ("--repo", url)]
        rebuilt = self.desk.playbook("fleet", "rebuild", *repositories)
        if rebuilt.code:
            self.unexpected.append(f"fleet rebuild: {rebuilt.err}")

    def _move_remotes_away(self, seconds: float) -> None:
        away = self.site.remotes.with_name("away")
        self.site.remotes.rename(away)
        time.sleep(seconds)
        away.rename(self.site.remotes)

    # ── people ──────────────────────────────────────────────────────────────────────────────

    def _crowd(self) -> None:
        """Submit, answer and cancel, in the time that there is for it."""
        at_work: dict[str, Future[None]] = {}
        while not self._closing.wait(0.3):
            for name in [name for name, job in at_work.items() if job.done()]:
                at_work.pop(name).result()
            submitting = sum(name.startswith(_SUBMISSION) for name in at_work)
            for name, act in self._due(self._rows(), submitting):
                if name not in at_work:
                    at_work[name] = self._people.submit(act)
        for job in at_work.values():
            job.result()

    def _due(
        self, rows: dict[str, tuple[str, str]], submitting: int
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        going = sum(state not in _ENDED for state, _ in rows.values()) + submitting
        room = 2 * len(self.workers) * self.site.slots - going
        if not self.plan.kills or self._over.is_set():
            room = min(room, self.plan.sessions - len(self.asked) - submitting)
        for _ in range(min(room, _AT_ONCE - submitting)):
            number = next(self._numbers)
            yield f"{_SUBMISSION} {number}", partial(self._submit, number)
        for asked in list(self.asked.values()):
            state, gate = rows.get(asked.session, ("", ""))
            late = asked.cancel_after is not None and ledger.now() > asked.at + asked.cancel_after
            if late and not asked.cancelled and state not in _ENDED:
                yield asked.session, partial(self._cancel, asked)
            elif state == "waiting" and gate == GATE and self._unanswered(asked):
                yield asked.session, partial(self._answer, asked)
            elif state in ("stuck", "failed"):
                yield asked.session, partial(self._retry, asked, state)

    def _unanswered(self, asked: Asked) -> bool:
        """Whether a gate that waits must be answered: also if the database has forgotten it."""
        if any(taken - 5 < asked.answered < restored + 5 for taken, restored in self.restores):
            asked.taken_back += asked.answers
            asked.answers = []
        return not asked.answers

    def _submit(self, number: int) -> None:
        chance = random.Random(f"{self.plan.seed} {number}")  # noqa: S311
        url = self.urls[chance.randrange(len(self.urls))]
        cancelled = chance.randrange(self.plan.one_in) == 0
        done = self.desk.submit(url, "--branch", f"work-{number}")
        if done.code:
            self.counts["submissions refused during faults"] += 1
            self._expect(done, "PB-FLEET-DATABASE", "PB-GIT-REMOTE")
            time.sleep(2)
            return
        session = done.out.strip()
        after = chance.uniform(1, 15) if cancelled else None
        self.asked[session] = Asked(session, number, ledger.now(), after)

    def _answer(self, asked: Asked) -> None:
        """One person answers, or two at once; the gate takes exactly one."""
        people = ("Ada", "Grace") if asked.number % 2 else ("Ada",)
        answers = [Answer(GATE, f"continue, says {name} {asked.number}") for name in people]
        processes = [
            self.desk.start_playbook("answer", asked.session, each.text) for each in answers
        ]
        accepted = []
        for each, process in zip(answers, processes, strict=True):
            out, err = process.communicate(timeout=120)
            done = Result(process.returncode, out, err)
            if not done.code:
                accepted.append(each)
            elif "PB-FLEET-DATABASE" in done.err:
                asked.unknown.append(each)
            else:
                self.counts["answers refused"] += 1
                self._expect(done, "PB-FLEET-ANSWERED", "PB-STATE-NO-GATE", "PB-STATE-NO-SESSION")
        self.counts["two answers at once"] += len(people) > 1
        if len(accepted) > 1 and not asked.taken_back:
            self.unexpected.append(f"{asked.session}: two answers were accepted")
        if accepted:
            asked.answered = ledger.now()
            asked.answers += accepted

    def _cancel(self, asked: Asked) -> None:
        done = self.desk.playbook("cancel", asked.session, CANCELLED)
        if done.code:
            self._expect(done, "PB-FLEET-DATABASE", "PB-STATE-ENDED", "PB-STATE-NO-SESSION")
        else:
            asked.cancelled = ledger.now()

    def _retry(self, asked: Asked, state: str) -> None:
        self.counts[f"{state}, tried again"] += 1
        self.desk.playbook("fleet", "retry", asked.session)

    def _expect(self, done: Result, *codes: str) -> None:
        if not any(code in done.err for code in codes):
            self.unexpected.append(f"a person was told: {done.err.strip()}")

    # ── ends ────────────────────────────────────────────────────────────────────────────────

    def _wait_for_ends(self) -> None:
        until = time.monotonic() + self.plan.patience
        while not self._ended(self._rows()):
            self._watch()
            if time.monotonic() > until:
                return
            time.sleep(0.5)

    def _ended(self, rows: dict[str, tuple[str, str]]) -> bool:
        enough = len(self.asked) >= self.plan.sessions
        return enough and all(rows.get(each, ("", ""))[0] in _ENDED for each in self.asked)

    def _rows(self) -> dict[str, tuple[str, str]]:
        """State and gate of each session, as a person sees them; empty while that cannot be."""
        columns = "SELECT id, state, gate FROM"
        if self.site.server is None:
            with suppress(sqlite3.Error):
                file = self.site.folder / "fleet.sqlite"
                with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as opened:
                    rows = opened.execute(f"{columns} fleet_session").fetchall()
                    return {name: (state, gate) for name, state, gate in rows}
            return {}
        with suppress(psycopg.Error):
            found = self.site.server.execute(f"{columns} fleet.session", self.site.database)
            return {name: (state, gate) for name, state, gate in found}
        return {}
