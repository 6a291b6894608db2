"""The supervisor of one session: it asks the kernel what is due, and answers every `Check` itself.

A driver asks for a snapshot, carries out its directive, and reports. Every call takes the lock,
journals what it learned before anything else happens, and returns the snapshot that follows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import (
    Answered,
    Ask,
    Attempt,
    Begun,
    Cancellation,
    Cancelled,
    Check,
    Lost,
    Observation,
    Outcome,
    Returned,
    TakenUp,
)
from playbook_supervisor.kernel.state import Change, Event
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.manifest import Driver
from playbook_supervisor.sessions.session import OpenSession
from playbook_supervisor.sessions.snapshot import Snapshot, Work, running, take_snapshot
from playbook_supervisor.system import checkout
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.process_groups import kill_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.conditions import Workspace
    from playbook_supervisor.project.config import Config
    from playbook_supervisor.sessions.evidence import CheckInputs
    from playbook_supervisor.sessions.principal import Principal
    from playbook_supervisor.sessions.session_store import SessionStore

# What most calls do not need is imported where it is needed: `evidence` for a check to answer or a
# launch to record, `publishing` for what has happened, `feedback` for a retry.
_SPECKIT = "/speckit"
_GIT_TIMEOUT, _GIT_TIMEOUT_IN_HOOK = 120.0, 20.0  # seconds; a client waits half a minute for a hook

Observe = Callable[[OpenSession], Observation]
"""Makes the observation once the session is open."""


class Supervisor:
    """Supervises one session of one worktree. Never talks to people or agents.

    `exports` says whether the driver gives `environment` to its workers; `runs_programs` whether
    it may wait for programs that conditions start (if not, such a check is left outstanding).
    `copies`: keep copies of the files with each change; a long drive makes them when it waits.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        *,
        exports: bool = True,
        runs_programs: bool = True,
        copies: bool = False,
    ) -> None:
        self.store, self.id = store, session_id
        self.exports, self.runs_programs, self.copies = exports, runs_programs, copies
        self.root = store.checkout.root

    # ── what drivers call ───────────────────────────────────────────────────────────────────

    def look(self) -> Snapshot:
        """What is outstanding now, with nothing answered and nothing launched."""
        with self.store.open(self.id) as opened:
            return take_snapshot(self.store, opened)

    def remember(self, driver: Driver) -> Snapshot:
        """Note how the session is driven, so that `resume` needs no arguments; then as `look`."""
        with self.store.open(self.id) as opened:
            if opened.manifest.driver != driver:
                opened.write(driver)
            return take_snapshot(self.store, opened)

    def end_workers(self) -> None:
        """End the workers that a dead driver left running."""
        for attempt in running(self.look()):
            kill_worker(self.worker_file(attempt))

    def advance(self) -> Snapshot:
        """What is outstanding now; checks that are due are answered first."""
        return self._advance()

    def begin(self, start: str = "") -> Snapshot:
        """Begin a pending session, at a later step if a person asked for it (`--from`).

        A person may have asked for it when the session was created, in a process that died.
        """
        from playbook_supervisor.sessions import evidence, principal

        def begun(opened: OpenSession) -> Begun:
            now, here = self.store.clock(), self._checkout()
            first = start or opened.manifest.driver.start
            opened.policy.admit_start(
                opened.playbook, first, lambda: principal.local(self.root).name
            )
            workspace = self._workspace(opened, here)
            opened.runtime.begun = evidence.begun(opened.playbook, workspace, here.head, now)
            return Begun(now, first)

        return self._advance(begun)

    def report(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """A worker came back. Its outcome is journaled before anything is judged."""
        returned = self._returned(attempt_id, outcome)
        return self._advance(lambda _: returned)

    def note_return(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """As `report`, but nothing is judged or launched yet."""
        return self._record(self._returned(attempt_id, outcome))

    def answer(self, gate_id: str, resolution: Resolution, text: str, by: Principal) -> Snapshot:
        """A human decided at a gate; call `advance` for what follows.

        PolicyError PB-POLICY-ANSWER, and the gate stays open, where a policy does not let `by`
        answer.
        """
        return self._record(Answered(self.store.clock(), gate_id, resolution, text, by.name))

    def abort(self, text: str, by: Principal) -> Snapshot:
        """End the session; a failed one is taken up first, without running anything."""
        now = self.store.clock()
        failed = self.look().manifest.status is SessionStatus.FAILED
        first = [TakenUp(now)] if failed else []
        return self._record(*first, Cancelled(now, Cancellation.ABORT, text, by.name))

    def interrupt(self, *, commits: bool = True) -> Snapshot:
        """Settle what runs as interrupted; the session stays open. `commits`: also commit it."""
        cancelled = Cancelled(self.store.clock(), Cancellation.INTERRUPT)
        return self._record(cancelled, commits=commits)

    def close(self) -> Snapshot:
        """The last snapshot of a session that has ended; commits and pushes what is still due."""
        from playbook_supervisor.sessions import publishing

        return publishing.closed(self.advance(), timeout=self._git_timeout)

    def take_up(self) -> Snapshot:
        """Resume a failed session: its failed steps run again."""
        return self._advance(lambda _: TakenUp(self.store.clock()))

    def lose(self, attempt: Attempt) -> Snapshot:
        """A launched attempt's worker has gone: its postconditions say whether it had finished."""
        from playbook_supervisor.sessions import evidence

        with self.store.open(self.id) as opened:
            workspace = self._workspace(opened, self._checkout())
            known = opened.runtime.launches.get(attempt.id)
        # Its postconditions may start programs, so the lock is not held meanwhile.
        done = evidence.had_finished(attempt.step, workspace, known)
        return self._advance(lambda _: Lost(self.store.clock(), attempt.id, done))

    # ── what a worker needs ─────────────────────────────────────────────────────────────────

    def work(self, snapshot: Snapshot, attempt: Attempt) -> Work:
        """The attempt's installed command and interpolated arguments (kai FR23)."""
        from playbook_supervisor.project.references import interpolate
        from playbook_supervisor.project.slash_commands import resolve

        found = resolve(self.root, attempt.step.command, home=Path.home())
        args = snapshot.manifest.args
        values = {arg.name: args.get(arg.name, "") for arg in snapshot.state.playbook.args}
        command = found.name if found else attempt.step.command
        arguments = interpolate(attempt.step.args, values).strip()
        return Work(attempt, command, arguments, self._feedback(snapshot, attempt))

    def _feedback(self, snapshot: Snapshot, attempt: Attempt) -> str:
        if attempt.number == 1 or not snapshot.config.feedback:
            return ""
        from playbook_supervisor.sessions.feedback import feedback

        return feedback(snapshot.state.attempts(attempt.step.id))

    def environment(self, snapshot: Snapshot, work: Work) -> dict[str, str]:
        """Variables that point the project's own tools at the session's feature."""
        if not work.attempt.step.command.startswith(_SPECKIT):
            return {}
        return self._point_speckit(self._workspace(snapshot, self._checkout()))

    @property
    def config(self) -> Config:
        """The settings that the session runs under."""
        with self.store.open(self.id) as opened:
            return opened.config

    @property
    def private(self) -> Path:
        """The session's local folder, in the git directory."""
        return self.store.runtime(self.id)

    def changed(self) -> bool:
        """Whether another process has written the session since this one last looked."""
        return self.store.changed(self.id)

    def worker_file(self, attempt: Attempt) -> Path:
        """The file that every process of the attempt's worker inherits, open and locked."""
        return self.private / f"worker-{attempt.id}"

    def _returned(self, attempt_id: str, outcome: Outcome) -> Returned:
        from playbook_supervisor.sessions.attempt_log import for_journal

        return Returned(self.store.clock(), attempt_id, for_journal(outcome))

    # ── from observation to snapshot ────────────────────────────────────────────────────────

    def _record(self, *observations: Observation, commits: bool = True) -> Snapshot:
        with self.store.open(self.id) as opened:
            events = tuple(event for seen in observations for event in self._accept(opened, seen))
            opened.write(launching=False)
            snapshot = self._snapshot(opened, events)
        return self._published(snapshot) if commits else snapshot

    def _snapshot(self, opened: OpenSession, events: tuple[Event, ...]) -> Snapshot:
        if events and self.copies:
            opened.copy()
        return take_snapshot(self.store, opened, events)

    def _published(self, snapshot: Snapshot) -> Snapshot:
        if not snapshot.events:
            return snapshot
        from playbook_supervisor.sessions import publishing

        return publishing.published(snapshot, timeout=self._git_timeout)

    @property
    def _git_timeout(self) -> float:
        return _GIT_TIMEOUT if self.runs_programs else _GIT_TIMEOUT_IN_HOOK

    def _advance(self, observe: Observe | None = None, events: tuple[Event, ...] = ()) -> Snapshot:
        """Accept an observation and answer checks until a driver must act.

        A check that starts a program is answered without the lock. Another process may have
        answered it meanwhile, so the session is opened again, and what is due then counts.
        """
        with self.store.open(self.id) as opened:
            accepted = () if observe is None else self._accept(opened, observe(opened))
            events += accepted + self._answer_checks(opened, observed=bool(accepted))
            snapshot = self._snapshot(opened, events)
            asked = snapshot.directive
            asking = isinstance(asked, Check) and self.runs_programs
            inputs = self._check_inputs(opened) if asking else None
        if inputs is None or not isinstance(asked, Check):
            return self._published(snapshot)
        from playbook_supervisor.sessions import evidence

        checked, failing = evidence.answer(asked, inputs, self.store.clock())
        with self.store.open(self.id) as opened:
            if machine.directive(opened.state) == asked:
                opened.runtime.failing.update(failing)
                events += self._accept(opened, checked)
                opened.write()
        return self._advance(events=events)

    def _answer_checks(self, opened: OpenSession, *, observed: bool) -> tuple[Event, ...]:
        """Answer the checks that only look at files; what follows from them is one write.

        `observed`: an observation was accepted and is not written. It is written before any file
        is looked at, because a worker's outcome must not be lost.
        """
        events: tuple[Event, ...] = ()
        while isinstance(asked := machine.directive(opened.state), Check):
            from playbook_supervisor.sessions import evidence

            if evidence.runs_programs(asked):
                break
            if evidence.asks_nothing(asked):
                checked = evidence.empty_answer(asked, self.store.clock())
            else:
                if observed:
                    opened.write()
                    observed = False
                inputs = self._check_inputs(opened)
                checked, failing = evidence.answer(asked, inputs, self.store.clock())
                opened.runtime.failing.update(failing)
            events += self._accept(opened, checked)
        if observed or events:
            opened.write()
        return events

    def _accept(self, opened: OpenSession, observation: Observation) -> tuple[Event, ...]:
        if observation.at < opened.manifest.started_at:  # the clock stepped back
            observation = replace(observation, at=opened.manifest.started_at)
        if isinstance(observation, Answered):
            self._admit_answer(opened, observation)
        events = machine.decide(opened.state, observation)
        self._record_launches(opened, events)
        opened.accept(events)
        return events

    def _admit_answer(self, opened: OpenSession, answered: Answered) -> None:
        asked = machine.directive(opened.state)
        if isinstance(asked, Ask) and asked.id == answered.id:
            from playbook_supervisor.sessions import evidence

            opened.policy.admit(asked.member.step.id, answered.resolution, answered.by)
            entry = opened.entry(asked.member.id)
            evidence.answered(opened.runtime, entry, answered.resolution)

    def _record_launches(self, opened: OpenSession, events: tuple[Event, ...]) -> None:
        """Keep what is on the disk when an attempt is launched: its evidence is compared to it."""
        launched = [event.entry for event in events if event.change is Change.LAUNCHED]
        if not launched:
            return
        from playbook_supervisor.sessions import evidence

        here = self._checkout()
        workspace = self._workspace(opened, here)
        steps = [opened.playbook.step(entry.step_id) for entry in launched]
        if any(step.command.startswith(_SPECKIT) for step in steps):
            self._point_speckit(workspace)  # refuses before anything is launched
        for entry, step in zip(launched, steps, strict=True):
            at = entry.launched_at or entry.started_at
            opened.runtime.launches[entry.id] = evidence.launch(step, workspace, here.head, at)

    def _point_speckit(self, world: Workspace) -> dict[str, str]:
        from playbook_supervisor.project.features import point_speckit

        return dict(point_speckit(self.root, world.feature, world.config, exported=self.exports))

    def _check_inputs(self, opened: OpenSession) -> CheckInputs:
        from playbook_supervisor.sessions.evidence import CheckInputs

        workspace = self._workspace(opened, self._checkout())
        return CheckInputs(workspace, opened.runtime, opened.manifest.started_at)

    def _checkout(self) -> Checkout:
        """The checkout as it is now, read each time: steps may commit and switch branches."""
        return checkout.refreshed(self.store.checkout)

    def _workspace(self, known: OpenSession | Snapshot, here: Checkout) -> Workspace:
        from playbook_supervisor.project import features
        from playbook_supervisor.project.conditions import Workspace

        feature = known.manifest.feature or features.of_branch(here.branch)
        return Workspace(self.root, feature, here.branch, known.config)
