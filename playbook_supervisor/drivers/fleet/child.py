"""A session in its clone: `playbook resume` as a child process, and what a person has decided.

The child drives the session exactly as at a terminal. It is on a leash that ends it with all that
it has started when the lease's deadline passes, and asks for clearance before each launch.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.drivers import clearance, driver_lock, gate_answer
from playbook_supervisor.drivers.driver_lock import Request
from playbook_supervisor.drivers.fleet import outcome
from playbook_supervisor.drivers.fleet.database import StoredAnswer
from playbook_supervisor.drivers.fleet.lease import LeaseKeeper
from playbook_supervisor.drivers.fleet.outcome import Became
from playbook_supervisor.errors import ArgumentError, FleetError, PlaybookError, PolicyError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.sessions import publishing
from playbook_supervisor.sessions.principal import Principal
from playbook_supervisor.sessions.selection import OPEN
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system import checkout
from playbook_supervisor.system.processes import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.advance import Station

_ABORTING = 60.0  # seconds that the child may take to end what runs
_PRINTED = 1 << 20  # bytes of the child's output that are kept
_GIT = 60.0  # seconds for the commit at a gate
_OURS = frozenset(
    {"PLAYBOOK_FLEET", "PLAYBOOK_SESSION", "PGPASSFILE", "PGPASSWORD", "PGSERVICE", "PGSERVICEFILE"}
)
"""The variables that the child does not get: it does not speak to the database."""


class Driven:
    """The session in its clone at `root`, under a lease."""

    def __init__(self, root: Path, session_id: str, station: Station, keeper: LeaseKeeper) -> None:
        self._root, self._session = root, session_id
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
            gate_answer.answer(supervisor, snapshot, answer.text, person, answer.at)
        except (ArgumentError, PolicyError) as error:
            return f"the answer of {first_line(answer.by, 80)} does not count: {error.message}"
        return ""

    # ── the child ───────────────────────────────────────────────────────────────────────────

    def drive(self, cleared: Callable[[], str]) -> None:
        """Drive it to its end or to a gate, unless it is over or cancelled.

        `cleared` is called before each launch; it returns why not, or nothing.
        """
        supervisor = self._supervisor()
        snapshot = supervisor.look()
        if snapshot.manifest.status not in OPEN and not self._retries(snapshot):
            return
        words, by = self._keeper.cancelled
        if words:
            with driver_lock.driving(supervisor.private, "abort"):
                supervisor.end_workers()
                supervisor.abort(words, Principal(by, via="fleet"))
            return
        self._require_admitted(snapshot)
        if self._station.stopping.is_set():
            return
        self._run(self._argv(snapshot), supervisor.private, cleared)

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

    def _argv(self, snapshot: Snapshot) -> list[str]:
        # Without -P, modules in the clone would be imported, and an agent may write there.
        argv = [sys.executable, "-P", "-m", "playbook_supervisor", "resume", self._session]
        argv += ["--json", "--kill"]
        if self._retries(snapshot):
            argv.append("--retry")
        most = self._station.settings.max_cost_usd
        if most is not None:
            known = snapshot.manifest.driver.limits.get("max_cost_usd", most)
            argv += ["--max-cost-usd", f"{min(most, known):g}"]
        return argv

    def _run(self, argv: list[str], private: Path, cleared: Callable[[], str]) -> None:
        beside = self._root.parent
        with clearance.Clearances(beside / "clearance", cleared) as clearances:
            environment = {name: each for name, each in os.environ.items() if name not in _OURS}
            self._keeper.require()
            process = Worker(
                argv,
                cwd=self._root,
                env={**environment, **clearances.environment},
                worker_file=beside / "child",
                deadline=self._keeper.deadline,
                notice=self._station.term.notice,
                cap=_PRINTED,
            )
            clearances.admit(process.pid)
            self._keeper.on_renewed = process.prolong
            self._keeper.on_lost = process.stop
            self._keeper.on_cancel = lambda words, by: self._abort(private, words, by)
            ending = threading.Thread(target=self._stop_with_worker, args=(process,), daemon=True)
            ending.start()
            try:
                for _ in process.lines(self._log):
                    pass
            finally:
                self._keeper.forget()
        self._ended = outcome.of_child(process.returncode or 0, process.stdout)

    def _stop_with_worker(self, process: Worker) -> None:
        """Interrupt the child, which journals it, when the worker is asked to stop."""
        while process.returncode is None:
            if self._station.stopping.wait(0.5):
                process.stop()
                return

    def _abort(self, private: Path, words: str, by: str) -> None:
        """Ask the child to abort the session, in a thread: leases are renewed meanwhile."""
        if self._aborting.acquire(blocking=False):
            request = Request("abort", words, by)
            threading.Thread(target=self._ask_to_abort, args=(private, request)).start()

    def _ask_to_abort(self, private: Path, request: Request) -> None:
        try:
            driver_lock.send_request(private, request, timeout=_ABORTING)
        except PlaybookError as error:  # the next renewal asks again
            self._log(f"not aborted yet: {error.message}")
        finally:
            self._aborting.release()

    def _log(self, line: str) -> None:
        self._station.log(self._session, line)

    # ── afterwards ──────────────────────────────────────────────────────────────────────────

    def became(self) -> Became:
        """What the session is now. At a gate its folder is committed, for the branch to show it."""
        supervisor = self._supervisor()
        snapshot = supervisor.look()
        entries = supervisor.store.journal(self._session).entries
        became = outcome.of_session(snapshot, entries[-1] if entries else None, self._ended)
        if became.gate and became.retry is None:
            publishing.at_gate(snapshot, timeout=_GIT)
        return became

    def _supervisor(self) -> Supervisor:
        return Supervisor(DiskStore(checkout.find(self._root)), self._session, copies=True)
