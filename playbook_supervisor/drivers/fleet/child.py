"""A session in its clone: `playbook resume` as a child process, and what a person has decided.

The child drives the session exactly as at a terminal. It is on a leash that ends it with all that
it has started when the lease's deadline passes, and asks for clearance before each launch.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import partial

from playbook_supervisor.drivers import clearance, driver_lock, gate_answer
from playbook_supervisor.drivers.driver_lock import Request
from playbook_supervisor.drivers.fleet import outcome
from playbook_supervisor.drivers.fleet.lease import LeaseKeeper
from playbook_supervisor.drivers.fleet.outcome import Became
from playbook_supervisor.drivers.fleet.session_clone import SessionClone
from playbook_supervisor.drivers.fleet.storage.rows import StoredAnswer
from playbook_supervisor.errors import ArgumentError, FleetError, PlaybookError, PolicyError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.sessions.engine import EngineOptions
from playbook_supervisor.sessions.principal import Principal
from playbook_supervisor.sessions.selection import OPEN
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system.processes import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.advance import Station

_ABORTING = 60.0  # seconds that the child may take to end what runs
_PRINTED = 1 << 20  # bytes of the child's output that are kept
_OURS = frozenset(
    {"PLAYBOOK_FLEET", "PLAYBOOK_SESSION", "PGPASSFILE", "PGPASSWORD", "PGSERVICE", "PGSERVICEFILE"}
)
"""The variables that the child does not get: it does not speak to the database."""


class Driven:
    """The session in its clone, under a lease."""

    def __init__(
        self, clone: SessionClone, session_id: str, station: Station, keeper: LeaseKeeper
    ) -> None:
        self._clone, self._session = clone, session_id
        self._station, self._keeper = station, keeper
        self._ended: PlaybookError | None = None
        self._aborting = threading.Lock()

    # ── what a person has decided ───────────────────────────────────────────────────────────

    def journal(self, answer: StoredAnswer) -> str:
        """Record the answer at the gate that it was given to; why it does not count, or nothing."""
        supervisor = self._supervisor()
        snapshot = supervisor.look()
        asked = snapshot.directive
        if not isinstance(asked, Ask) or asked.id != answer.gate:
            return ""  # it is in the journal already
        vouching = f"the database role {answer.role}"
        person = Principal(answer.by, vouching, via=answer.via or "fleet", role=answer.role)
        try:
            decided = gate_answer.resolution(answer.text, asked.choices, snapshot.question)
            supervisor.answer(asked.id, decided, answer.text, person, answer.at)
        except (ArgumentError, PolicyError) as error:
            return f"the answer of {first_line(answer.by, 80)} does not count: {error.message}"
        return ""

    # ── the child ───────────────────────────────────────────────────────────────────────────

    def drive(self, cleared: Callable[[], str]) -> None:
        """Drive it to its end or to a gate, unless it is over; abort it if it is cancelled.

        `cleared` is called before each launch; it returns why not, or nothing.
        """
        snapshot = self._supervisor().look()
        going_on = snapshot.manifest.status in OPEN or self._retries(snapshot)
        if going_on and not (self._keeper.cancelled[0] or self._station.stopping.is_set()):
            self._require_admitted(snapshot)
            self._run(self._argv(snapshot), cleared)
        if self._keeper.cancelled[0]:
            self._abort(cleared)

    def _abort(self, cleared: Callable[[], str]) -> None:
        """End the session, unless its child has; a second child commits that."""
        supervisor, (words, by) = self._supervisor(), self._keeper.cancelled
        if supervisor.look().manifest.status not in OPEN:
            return
        with driver_lock.driving(supervisor.private, "abort"):
            supervisor.abort(words, Principal(by, via="fleet"))
        if not self._station.stopping.is_set():
            self._run(self._resume, cleared)

    def _retries(self, snapshot: Snapshot) -> bool:
        return snapshot.manifest.status is SessionStatus.FAILED and self._keeper.lease.row.retry

    def _require_admitted(self, snapshot: Snapshot) -> None:
        """FleetError PB-FLEET-SETTINGS if the settings of this worker do not allow the agent."""
        config = snapshot.config
        spec = snapshot.manifest.driver.agent or config.agent or "claude"
        kind = "exec" if spec in config.agents_exec else spec.partition(":")[0]
        if not self._station.settings.admits_agent(kind):
            raise FleetError(
                "PB-FLEET-SETTINGS",
                f"the settings of worker {self._station.name} do not allow the agent {kind}",
            )

    @property
    def _resume(self) -> list[str]:
        # Without -P, modules in the clone would be imported, and an agent may write there.
        program = [sys.executable, "-P", "-m", "playbook_supervisor"]
        return [*program, "resume", self._session, "--json", "--kill"]

    def _argv(self, snapshot: Snapshot) -> list[str]:
        argv = self._resume
        if self._retries(snapshot):
            argv.append("--retry")
        most = self._station.settings.max_cost_usd
        if most is not None:
            known = snapshot.manifest.driver.limits.get("max_cost_usd", most)
            argv += ["--max-cost-usd", f"{min(most, known):g}"]
        return argv

    def _run(self, argv: list[str], cleared: Callable[[], str]) -> None:
        beside = self._clone.path.parent
        with clearance.Clearances(beside / "clearance", cleared) as clearances:
            environment = {name: each for name, each in os.environ.items() if name not in _OURS}
            self._keeper.require()
            process = Worker(
                argv,
                cwd=self._clone.path,
                env={**environment, **clearances.environment},
                worker_file=beside / "child",
                deadline=self._keeper.deadline,
                notice=self._station.term.notice,
                cap=_PRINTED,
            )
            try:
                clearances.admit(process.pid)
                self._keeper.watch(
                    process.prolong, partial(self._ask_to_abort, process), process.stop
                )
                _in_background(self._stop_with_worker, process)
                for _ in process.lines(self._log):
                    pass
            finally:
                self._keeper.forget()
                process.stop()
        self._ended = outcome.of_child(process.returncode or 0, process.stdout)

    def _stop_with_worker(self, process: Worker) -> None:
        """Interrupt the child, which journals it, when the worker is asked to stop."""
        while process.returncode is None:
            if self._station.stopping.wait(0.5):
                process.stop()
                return

    def _ask_to_abort(self, process: Worker, words: str, by: str) -> None:
        """Ask the child to abort the session, in a thread: leases are renewed meanwhile."""
        if self._aborting.acquire(blocking=False):
            _in_background(self._end, process, Request("abort", words, by))

    def _end(self, process: Worker, request: Request) -> None:
        try:
            private = self._supervisor().private
            driver_lock.send_request(private, request, timeout=_ABORTING)
        except PlaybookError as error:
            self._log(f"not aborted, and ended instead: {error.message}")
            process.stop()
        finally:
            self._aborting.release()  # a child that was only starting is asked again

    def _log(self, line: str) -> None:
        self._station.log(self._session, line)

    # ── afterwards ──────────────────────────────────────────────────────────────────────────

    def became(self) -> Became:
        """What the session is now."""
        supervisor = self._supervisor()
        snapshot = supervisor.look()
        entries = supervisor.store.journal(self._session).entries
        return outcome.of_session(snapshot, entries, self._ended)

    def _supervisor(self) -> Supervisor:
        """The session as the worker looks at it: it starts no program in the clone, for an agent
        may have chosen it, and it would run without a leash."""
        options = EngineOptions(
            exports=False, runs_programs=False, runs_checks=False, copies=True, commits=False
        )
        return Supervisor(DiskStore(self._clone.here()), self._session, options)


def _in_background(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()
