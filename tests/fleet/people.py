"""People who submit sessions to a fleet, answer at their gates, and cancel some of them."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import psycopg
from support.in_process import Result

from fleet import ledger
from fleet.chains import Answer
from fleet.faults import Happened, Plan
from fleet.machines import GATE, HOST, Machine, Site

CANCELLED = "not needed any more"
_ENDED = ("completed", "failed", "aborted")
_SUBMISSION = "submission"
_UNKNOWN = ("PB-STATE-NO-SESSION", "PB-STATE-NO-REPOSITORY")
"""The codes for a session of which a restored database does not know."""
_AT_ONCE = 3
"""Submissions."""


@dataclass
class Asked:
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


class Crowd:
    """People at one machine. They keep so many `workers` busy."""

    def __init__(
        self,
        site: Site,
        plan: Plan,
        workers: int,
        desk: Machine,
        urls: Sequence[str],
        happened: Happened,
    ) -> None:
        self.asked: dict[str, Asked] = {}
        self.refused = self.deadly = ""
        self._site, self._plan, self._workers, self._desk = site, plan, workers, desk
        self._urls, self._happened = urls, happened
        self._over, self._closing = threading.Event(), threading.Event()
        self._numbers = count(1)

    def submit_bad(self, remote: str) -> None:
        """Submit a session that this remote refuses from now on, and one that kills workers."""
        refused = self._desk.submit(f"{HOST}{remote}.git")
        self._site.refuse(remote, "quota exceeded")
        deadly = self._desk.submit(self._urls[0], "--branch", "deadly", playbook="deadly")
        for done in (refused, deadly):
            assert done.code == 0, done.err
        self.refused, self.deadly = refused.out.strip(), deadly.out.strip()

    def act(self) -> None:
        """Submit, answer and cancel until `leave`."""
        at_work: dict[str, Future[None]] = {}
        with ThreadPoolExecutor(4) as people:
            while not self._closing.wait(0.3):
                at_work = {name: job for name, job in at_work.items() if not job.done()}
                submitting = sum(name.startswith(_SUBMISSION) for name in at_work)
                for name, act in self._due(self._rows(), submitting):
                    if name not in at_work:
                        at_work[name] = people.submit(self._happened.told, act)

    def settle(self) -> None:
        """Begin no further sessions than the plan's."""
        self._over.set()

    def leave(self) -> None:
        self._closing.set()

    def done(self) -> bool:
        """Whether all sessions have ended, by the database; the judges ask git."""
        rows = self._rows()
        bad = filter(None, (self.refused, self.deadly))
        return (
            len(self.asked) >= self._plan.sessions
            and all(rows.get(each, ("", ""))[0] in _ENDED for each in self.asked)
            and all(rows.get(each, ("", ""))[0] == "stuck" for each in bad)
        )

    def _due(
        self, rows: dict[str, tuple[str, str]], submitting: int
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        going = sum(state not in _ENDED for state, _ in rows.values()) + submitting
        room = 2 * self._workers * self._site.slots - going
        if not self._plan.kills or self._over.is_set():
            room = min(room, self._plan.sessions - len(self.asked) - submitting)
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
        if self._happened.took_back(asked.answered):
            asked.taken_back += asked.answers
            asked.answers = []
        return not asked.answers

    def _submit(self, number: int) -> None:
        chance = random.Random(f"{self._plan.seed} {number}")  # noqa: S311
        url = self._urls[chance.randrange(len(self._urls))]
        cancelled = chance.randrange(self._plan.one_in) == 0
        done = self._desk.submit(url, "--branch", f"work-{number}")
        if done.code:
            self._happened.counts["submissions refused during faults"] += 1
            # A remote that is moved away during a request may seem to be none.
            self._expect(done, "PB-FLEET-DATABASE", "PB-GIT-REMOTE", "PB-FLEET-REFUSED")
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
            self._desk.start_playbook("answer", asked.session, each.text) for each in answers
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
                self._happened.counts["answers refused"] += 1
                self._expect(done, "PB-FLEET-ANSWERED", "PB-STATE-NO-GATE", *_UNKNOWN)
        self._happened.counts["two answers at once"] += len(people) > 1
        if len(accepted) > 1 and not asked.taken_back:
            self._happened.unexpected.append(f"{asked.session}: two answers were accepted")
        if accepted:
            asked.answered = ledger.now()
            asked.answers += accepted

    def _cancel(self, asked: Asked) -> None:
        done = self._desk.playbook("abort", asked.session, "-m", CANCELLED)
        if done.code:
            self._expect(done, "PB-FLEET-DATABASE", "PB-STATE-ENDED", *_UNKNOWN)
        else:
            asked.cancelled = ledger.now()

    def _retry(self, asked: Asked, state: str) -> None:
        self._happened.counts[f"{state}, tried again"] += 1
        self._desk.playbook("fleet", "retry", asked.session)

    def _expect(self, done: Result, *codes: str) -> None:
        if not any(code in done.err for code in codes):
            self._happened.unexpected.append(f"a person was told: {done.err.strip()}")

    def _rows(self) -> dict[str, tuple[str, str]]:
        """State and gate of each session, as a person sees them; empty while that cannot be."""
        columns = "SELECT id, state, gate FROM"
        if self._site.server is None:
            with suppress(sqlite3.Error):
                file = self._site.folder / "fleet.sqlite"
                with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as opened:
                    rows = opened.execute(f"{columns} fleet_session").fetchall()
                    return {name: (state, gate) for name, state, gate in rows}
            return {}
        with suppress(psycopg.Error):
            found = self._site.server.execute(f"{columns} fleet.session", self._site.database)
            return {name: (state, gate) for name, state, gate in found}
        return {}
