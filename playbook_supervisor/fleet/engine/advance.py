"""Advance one session until it waits or ends: take it, claim it, drive it, push it, let it go.

The database says who may try, git who did: nothing is written to the database that is not in the
repository already. What this worker cannot do now is put off; what no worker can do is stuck.

A child process, `playbook resume`, drives the session exactly as at a terminal. It is on a leash
that ends it with all that it has started when the lease's deadline passes, and asks for clearance
before each launch.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.agents import registry
from playbook_supervisor.drivers import clearance, driver_lock, gate_answer, run_agents
from playbook_supervisor.drivers.driver_lock import Request
from playbook_supervisor.errors import (
    ArgumentError,
    FleetError,
    GitError,
    PlaybookError,
    PolicyError,
    StateError,
    StorageError,
)
from playbook_supervisor.fleet.engine import outcome
from playbook_supervisor.fleet.engine.late_push import LatePush
from playbook_supervisor.fleet.engine.lease import LeaseKeeper, Term, overtaken
from playbook_supervisor.fleet.engine.outcome import NextState
from playbook_supervisor.fleet.engine.remotes import repository_name
from playbook_supervisor.fleet.engine.session_ref import Mirror, SessionClone, Tip
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Lease, State, StoredAnswer
from playbook_supervisor.fleet.worker_settings import WorkerSettings
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.versions import is_newer
from playbook_supervisor.kernel.directives import Ask, Check, Run
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project.settings.config import ISOLATION
from playbook_supervisor.sessions.engine.session_engine import EngineOptions
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.sessions.store.selection import OPEN
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.disk.files import ensure_folder, remove, require_space
from playbook_supervisor.system.process.processes import Worker

_CLAIMS = 3  # a former worker's last push may come before a claim
_MOST_DEATHS = 5  # workers in a row that ended with the session in hand
# No wait below ends with the lease, which is renewed for as long as the worker lives: each has a
# limit of its own. A first try to push, and what is fetched before, have git's own limits
# (`git_plumbing`): bytes may flow for long.
_AGAIN = 30.0  # seconds from the first failure on, for what may be over in a moment: a remote or
# the database is away, a disk is full
_REFUSED = 2.0  # the same if the remote refuses: it seldom changes its mind
_STOPPING = 15.0  # the same once the worker is asked to stop
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # seconds between two tries
_LOOK = 0.1  # seconds between two looks at whether to wait on
_UNFIT = 30.0  # seconds that the slot is kept if the worker cannot write to its disk: its next
# session would fail, too, and is left to other workers
_ABORTING = 60.0  # seconds that the child may take to end what runs; then it is ended
_PRINTED = 1 << 20  # bytes of the child's output that are kept
_OF_BRANCHES = frozenset({"PB-FLEET-BRANCH", "PB-FLEET-BRANCH-REFUSED", "PB-FLEET-REFUSED"})
_OURS = frozenset(
    {"PLAYBOOK_FLEET", "PLAYBOOK_SESSION", "PGPASSFILE", "PGPASSWORD", "PGSERVICE", "PGSERVICEFILE"}
)
"""The variables that the child does not get: it does not speak to the database."""


@dataclass(frozen=True, slots=True)
class LocalWorker:
    """The worker of this process. `folder` is its own, `mirrors` all workers' of this user.

    `tell` is given a session and a sentence for the person who watches, `log` what its child says.
    `late` are the pushes that take-ups have left, by their sessions.
    """

    name: str
    database: FleetDatabase
    settings: WorkerSettings
    term: Term
    folder: Path
    mirrors: Path
    stopping: threading.Event
    tell: Callable[[str, str], None]
    log: Callable[[str, str], None]
    late: dict[str, LatePush] = field(default_factory=dict)

    def mirror(self, url: str) -> Mirror:
        """The mirror of a repository. FleetError PB-FLEET-REPOSITORY if it is not served here."""
        mirror = Mirror.of(self.mirrors, url, self.settings.transports)
        self.settings.require_admitted(mirror.url)
        return mirror


def advance(worker: LocalWorker, lease: Lease, asked: float) -> None:
    """Advance a session whose lease was just taken; `asked` is when that began, as of `now`.

    It ends once the session's row says what comes next. If this worker has lost the session, or
    cannot write to the row, the lease lapses, and another worker takes it.
    """
    session_id = lease.session
    tell = partial(worker.tell, session_id)
    died = ", after its worker died" if lease.row.deaths else ""
    tell(f"taken (epoch {lease.epoch}){died}: {lease.row.playbook} {lease.row.feature}".rstrip())
    with LeaseKeeper(worker.database, lease, worker.term, asked, tell) as keeper:
        take_up = _TakeUp(worker, keeper)
        try:
            take_up.carry_out()
        except Exception as error:  # whatever it is, the session is not lost
            take_up.give_up(outcome.reported(error))
        finally:
            take_up.clean_up()
    take_up.tidy_up()


class _TakeUp:
    def __init__(self, worker: LocalWorker, keeper: LeaseKeeper) -> None:
        self._worker, self._keeper = worker, keeper
        self._session = keeper.lease.session
        self._tell = partial(worker.tell, self._session)
        own = f"{self._session}-{keeper.lease.epoch}-{secrets.token_hex(3)}"
        self._folder = worker.folder / own
        self._mirror: Mirror | None = None
        self._clone: SessionClone | None = None
        self._tip: Tip | None = None
        self._refused = ""  # why the last answer does not count
        self._hindrance: PlaybookError | None = None  # why no snapshot could be pushed
        self._cleared = 0  # launches of the child: all but the first follow a settled attempt
        self._failing = 0.0  # since when nothing can be pushed
        self._deaths = keeper.lease.row.deaths

    def carry_out(self) -> None:
        row = self._keeper.lease.row
        require_space(self._worker.folder)
        if is_newer(row.needs, __version__):
            raise StateError("PB-STATE-NEWER", f"it needs playbook {row.needs}")
        self._mirror = mirror = self._worker.mirror(row.repository)
        self._tip = self._claim(mirror)
        ensure_folder(self._folder)
        self._clone = mirror.checkout(self._tip, self._folder / repository_name(row.repository))
        DiskStore(self._clone.here()).clock.follow(self._worker.database.now())
        child = _Child(self._clone, self._worker, self._keeper)
        if self._deaths >= _MOST_DEATHS and not self._keeper.cancelled[0]:
            said = f"its worker died {self._deaths} times during {child.outstanding()}"
            raise FleetError("PB-FLEET-DIED", said)
        answer = self._worker.database.answer_due(self._keeper.lease)
        if answer is not None:
            self._journal(child, answer)
        child.drive(self._clearance)
        self._settle(child)

    def _journal(self, child: _Child, answer: StoredAnswer) -> None:
        database, lease = self._worker.database, self._keeper.lease
        self._refused = child.journal(answer)
        if self._refused:
            self._tell(self._refused)
        else:
            self._push()
        settle = database.refuse_answer if self._refused else database.journaled
        with suppress(FleetError):  # then the next take-up finds it again
            settle(lease, answer.gate)

    def _claim(self, mirror: Mirror) -> Tip:
        if late := self._worker.late.get(self._session):
            late.hurry()
        for _ in range(_CLAIMS):
            tip = mirror.tip(self._session)
            if tip.epoch >= self._keeper.lease.epoch:  # the database is older than the repository
                self._keeper.lift(tip.epoch + 1)
            self._keeper.require()
            try:
                return mirror.claim(tip, self._keeper.lease.epoch, self._worker.name)
            except FleetError as error:
                if error.code != "PB-FLEET-OVERTAKEN":
                    raise
        raise overtaken(self._session)

    # ── pushing ─────────────────────────────────────────────────────────────────────────────

    def _clearance(self) -> str:
        """Empty if the child may launch its next steps, else why not."""
        if self._hindrance is None:
            try:
                self._push()
                self._cleared += 1
                self._forget_deaths()
            except Exception as error:
                self._hindrance = outcome.reported(error)
        return self._hindrance.message if self._hindrance else ""

    def _forget_deaths(self) -> None:
        if self._deaths and self._cleared > 1:
            with suppress(FleetError):  # then after the next step
                self._worker.database.settled(self._keeper.lease)
                self._deaths = 0

    def _push(self, *, branch: bool = False) -> None:
        """Push a snapshot. What may be over in a moment is tried again: work is expensive."""
        assert self._clone is not None  # noqa: S101 - it was checked out
        assert self._tip is not None  # noqa: S101 - it was claimed
        pause, pushed = _FIRST_PAUSE, False
        while not pushed:
            self._keeper.require()
            try:
                self._tip = self._clone.snapshot(
                    self._tip, branch=branch, children=self._clone.other_sessions(self._session)
                )
                pushed = True
            except (FleetError, GitError, StorageError) as error:
                self._failing = self._failing or time.monotonic()
                goes_on = partial(self._goes_on, self._failing, error)
                if goes_on():
                    self._tell(f"not pushed yet: {error.message}")
                if error.code == "PB-GIT-REMOTE":
                    pushed = self._push_late(error, goes_on)
                elif not self._rest(pause, goes_on):
                    raise
                pause = min(pause * 2, _LONGEST_PAUSE)
        self._failing = 0.0

    def _push_late(self, away: PlaybookError, goes_on: Callable[[], bool]) -> bool:
        """Let a thread push what the remote has not got; False if another snapshot is to follow."""
        assert self._clone is not None  # noqa: S101 - as above
        assert self._mirror is not None  # noqa: S101 - as above
        assert self._clone.unpushed is not None  # noqa: S101 - it could not be pushed
        unpushed = self._clone.unpushed
        late = LatePush(self._mirror, unpushed, self._worker.stopping, self._tell)
        try:
            at = late.awaited(goes_on)
        finally:
            late.leave()
        if at is None:
            ended = [each for each, other in [*self._worker.late.items()] if other.ended]
            for each in ended:
                self._worker.late.pop(each, None)
            self._worker.late[self._session] = late
            self._keeper.require()
            raise away
        self._tip = at
        return at.commit == unpushed[0].commit

    def _goes_on(self, since: float, error: PlaybookError | None = None) -> bool:
        """True if what began to fail at that time is tried again; not for a cancelled session."""
        limit = _STOPPING if self._worker.stopping.is_set() else _AGAIN
        if error is not None and isinstance(error, FleetError):
            limit = min(limit, _REFUSED if error.code == "PB-FLEET-REFUSED" else 0.0)
        if error is not None and (self._keeper.cancelled[0] or not self._keeper.held):
            return False
        return time.monotonic() - since < limit

    def _rest(self, seconds: float, goes_on: Callable[[], bool]) -> bool:
        """Wait that long, unless the other try is not made; whether it is."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not goes_on():
                return False
            time.sleep(_LOOK)
        return goes_on()

    def _push_result(self, *, branch: bool) -> FleetError | None:
        """Push the last snapshot, with the branch if it goes there; else without, and return why
        the remote refuses the branch. Commits of others on the branch are an error."""
        try:
            self._push(branch=branch)
        except FleetError as error:
            if not branch or error.code not in _OF_BRANCHES:
                raise
            self._failing = 0.0
            self._push()  # a hook may have refused both because of the branch
            if error.code == "PB-FLEET-BRANCH":
                raise
            return FleetError("PB-FLEET-BRANCH-REFUSED", error.message, cause=error.cause)
        return None

    # ── the end of the take-up ──────────────────────────────────────────────────────────────

    def _settle(self, child: _Child) -> None:
        database = self._worker.database
        self._keeper.require()
        if self._hindrance is not None:
            raise self._hindrance
        following = child.next_state()
        if following.retry is not None:
            raise following.retry
        refusal = self._push_result(branch=following.state is not State.QUEUED)
        if following.state is State.WAITING:
            notices = (self._refused, outcome.sentence(refusal) if refusal else "")
            said = "; ".join(filter(None, notices))
            self._persist(database.wait, following.gate, following.choices, said)
            how = f"playbook answer {self._session} {'|'.join(following.choices)}"
            self._tell(f"waits at gate {following.gate}: {how}")
        elif following.state is State.QUEUED:
            seconds = 0.0 if self._worker.stopping.is_set() else None
            self._put_off(following.code, following.said, seconds)
        elif refusal is not None:
            raise refusal
        elif not self._is_recorded():
            raise GitError(outcome.UNCOMMITTED, "git has not committed the end of the session")
        else:
            self._persist(database.finish, following.state)
            self._tell(following.state.value)

    def _is_recorded(self) -> bool:
        """False if the session's branch has an older record of it than the snapshot."""
        assert self._mirror is not None  # noqa: S101 - it was claimed there
        assert self._tip is not None  # noqa: S101 - as above
        file = f"{SESSIONS}/{self._session}/session.yaml"
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        kept, pushed = (
            self._mirror.git(*asked, f"{commit}:{file}").stdout
            for commit in (self._tip.head, self._tip.commit)
        )
        return kept in ("", pushed)  # empty where sessions are not committed

    def give_up(self, error: PlaybookError) -> None:
        """Put the session off, or back, or say that it is stuck, after an error."""
        database = self._worker.database
        said = outcome.sentence(error)
        for line in (error.message, *error.cause.splitlines()):
            self._worker.log(self._session, line)
        if error.code == "PB-FLEET-OVERTAKEN":
            self._tell(f"given up: {first_line(error.message)}")
            return
        needs = self._needs(error)
        if needs:
            self._tell(f"left to a newer worker: {said}")
            self._persist(database.need, needs)
        elif outcome.lasts(error):
            lacks = (
                "on its branch" if error.code.startswith("PB-FLEET-BRANCH") else "in its journal"
            )
            became = f"ended, not {lacks}" if self._keeper.cancelled[0] else "stuck"
            self._tell(f"{became}: {said} [{error.code}]")
            self._persist(database.stick, error.code, said)
        else:
            self._put_off(error.code, said)
            if isinstance(error, StorageError):  # it would fail with every session
                self.clean_up()
                self._worker.stopping.wait(_UNFIT)

    def _put_off(self, code: str, said: str, seconds: float | None = None) -> None:
        write, progressed = self._worker.database.put_off, self._cleared > 1
        state = self._persist(write, code, said, seconds=seconds, progressed=progressed)
        ended = {State.STUCK: "stuck", State.ABORTED: "ended, not in its journal"}
        became = ended.get(state, "put off") if isinstance(state, State) else "put off"
        self._tell(f"{became}: {said}" + (f" [{code}]" if code else ""))

    def _needs(self, error: PlaybookError) -> str:
        if error.code != "PB-STATE-NEWER":
            return ""
        needs = self._keeper.lease.row.needs or (self._tip.version if self._tip else "")
        return needs if is_newer(needs, __version__) else ""

    def _persist(self, write: Callable[..., object], *what: object, **options: object) -> object:
        """The result of writing to the database; while it is away, try again. If it stays away, the
        next worker that takes the session finds in git what was not written."""
        since, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                return write(self._keeper.lease, *what, **options)
            except FleetError as error:
                goes_on = error.code == "PB-FLEET-DATABASE"
                if not goes_on or not self._rest(pause, partial(self._goes_on, since)):
                    self._tell(f"not written to the database: {error.message}")
                    return None
                pause = min(pause * 2, _LONGEST_PAUSE)

    def clean_up(self) -> None:
        try:
            if self._clone is not None:
                self._clone.remove()
            remove(self._folder)
        except PlaybookError as error:  # the next start of a worker here removes it
            self._tell(f"its clone is not removed: {error.message}")

    def tidy_up(self) -> None:
        """Keep the mirror small, once the session has been let go."""
        if self._mirror is not None and not self._worker.stopping.is_set():
            try:
                self._mirror.tidy()
            except PlaybookError as error:
                self._worker.log(self._session, f"its mirror is not packed: {error.message}")


class _Child:
    def __init__(self, clone: SessionClone, worker: LocalWorker, keeper: LeaseKeeper) -> None:
        self._clone, self._session = clone, keeper.lease.session
        self._worker, self._keeper = worker, keeper
        self._log = partial(worker.log, self._session)
        self._ended: PlaybookError | None = None
        self._aborting = threading.Lock()

    def journal(self, answer: StoredAnswer) -> str:
        """Record the answer at the gate that it was given to; why it does not count, or nothing."""
        tree = self._tree()
        snapshot = tree.look()
        asked = snapshot.directive
        if not isinstance(asked, Ask) or asked.id != answer.gate:
            return ""  # it is in the journal already
        person = Principal(answer.by, via=answer.via or "fleet", role=answer.role)
        try:
            decided = gate_answer.resolution(answer.text, asked.choices, snapshot.question)
            tree.answer(asked.id, decided, answer.text, person, answer.at)
        except (ArgumentError, PolicyError) as error:
            return f"the answer of {first_line(answer.by, 80)} does not count: {error.message}"
        return ""

    def drive(self, cleared: Callable[[], str]) -> None:
        """Drive it to its end or to a gate, unless it is over; abort it if it is cancelled.

        `cleared` is called before each launch; it returns why not, or nothing.
        """
        snapshot = self._tree().look()
        going_on = snapshot.manifest.status in OPEN or self._retries(snapshot)
        if self._keeper.lease.row.error == outcome.UNCOMMITTED and not going_on:
            self._run(self._resume, cleared)  # which commits it
        elif going_on and not (self._keeper.cancelled[0] or self._worker.stopping.is_set()):
            self._require_admitted(snapshot)
            self._run(self._argv(snapshot), cleared)
        if self._keeper.cancelled[0]:
            self._abort(cleared)

    def _abort(self, cleared: Callable[[], str]) -> None:
        """End the session, unless its child has; a second child commits that."""
        tree, (words, by) = self._tree(), self._keeper.cancelled
        if tree.look().manifest.status not in OPEN:
            return
        with driver_lock.driving(tree.private, "abort"):
            aborted = tree.abort(words, Principal(by, via="fleet"))
        if not self._worker.stopping.is_set():
            self._run([*self._resume, *self._isolation(aborted)], cleared)

    def _retries(self, snapshot: Snapshot) -> bool:
        return snapshot.manifest.status is SessionStatus.FAILED and self._keeper.lease.row.retry

    def _require_admitted(self, snapshot: Snapshot) -> None:
        config, manifest = snapshot.config, snapshot.manifest
        spec = manifest.driver.agent or config.agent or "claude"
        with snapshot.store.open(manifest.session_id) as opened:
            children = opened.pinned.tightened_children
        playbook = snapshot.state.playbook
        named = run_agents.shares(playbook, manifest.driver.agent, children, manifest.args)
        for name in ("", *named):
            kind = registry.kind_of(name or spec, config)
            if not self._worker.settings.admits_agent(kind):
                raise FleetError(
                    "PB-FLEET-SETTINGS",
                    f"the settings of worker {self._worker.name} do not allow the agent "
                    f"{first_line(kind, 60)}",
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
        argv += self._isolation(snapshot)
        most = self._worker.settings.max_cost_usd
        if most is not None:
            limit = snapshot.manifest.driver.limits.get("max_cost_usd", most)
            argv += ["--max-cost-usd", f"{min(most, limit):g}"]
        return argv

    def _isolation(self, snapshot: Snapshot) -> list[str]:
        least, known = self._worker.settings.isolation, snapshot.config.isolation.mode
        return ["--isolation", least] if ISOLATION.index(least) > ISOLATION.index(known) else []

    def outstanding(self) -> str:
        """The steps that are next or at work, such as `release#1/plan#1`; `a gate` at a gate."""
        directive = self._tree().look().directive
        work = directive.meanwhile if isinstance(directive, Ask) else directive
        members = work.members if isinstance(work, Check | Run) else ()
        return ", ".join(member.id for member in members) or "a gate"

    def _run(self, argv: list[str], cleared: Callable[[], str]) -> None:
        beside = self._clone.path.parent
        with clearance.Clearances(beside / "clearance", cleared) as clearances:
            repository = self._keeper.lease.row.repository
            withheld = _OURS | self._worker.settings.withheld(repository)
            environment = {name: each for name, each in os.environ.items() if name not in withheld}
            self._keeper.require()
            process = Worker(
                argv,
                cwd=self._clone.path,
                env={**environment, **clearances.environment},
                worker_file=beside / "child",
                deadline=self._keeper.deadline,
                notice=self._worker.term.notice,
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
            if self._worker.stopping.wait(0.5):
                process.stop()
                return

    def _ask_to_abort(self, process: Worker, words: str, by: str) -> None:
        """Ask the child to abort the session, in a thread: leases are renewed meanwhile."""
        if self._aborting.acquire(blocking=False):
            _in_background(self._end, process, Request("abort", words, by))

    def _end(self, process: Worker, request: Request) -> None:
        try:
            private = self._tree().private
            driver_lock.send_request(private, request, timeout=_ABORTING)
        except PlaybookError as error:
            self._log(f"not aborted, and ended instead: {error.message}")
            process.stop()
        finally:
            self._aborting.release()  # a child that was only starting is asked again

    def next_state(self) -> NextState:
        tree = self._tree()
        snapshot = tree.look()
        entries = tree.store.journal(self._session).entries
        return outcome.of_session(snapshot, entries, self._ended)

    def _tree(self) -> SessionTree:
        """The session as the worker looks at it: it starts no program in the clone, for an agent
        may have chosen it, and it would run without a leash."""
        options = EngineOptions(
            exports=False, runs_programs=False, runs_checks=False, copies=True, commits=False
        )
        return SessionTree(DiskStore(self._clone.here()), self._session, options)


def _in_background(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()
