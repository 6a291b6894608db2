"""One session: it accepts observations, journals them, and answers every `Check` itself.

Every call takes the lock and returns the snapshot that follows. Everything that is learned is
written before anything follows from it. A check is answered under the lock if it only looks at
files, and without it if it starts a program. Child sessions are known by their ids alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import (
    Answered,
    Ask,
    Attempt,
    Begun,
    Check,
    Checked,
    Lost,
    Observation,
    Returned,
    TakenUp,
)
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.state import Change, Event, State
from playbook_supervisor.kernel.vocabulary import ENDED, SessionStatus
from playbook_supervisor.project.conditions import features
from playbook_supervisor.project.conditions.conditions import Workspace
from playbook_supervisor.project.settings.checks import Checking, Proof
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.files import principal
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.files.manifest import Driver
from playbook_supervisor.sessions.files.session_branch import refusal
from playbook_supervisor.sessions.publication import branch_admission
from playbook_supervisor.sessions.steps import beginnings
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, take_snapshot
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import NOW, Checkout
from playbook_supervisor.system.process.cancellation import within

if TYPE_CHECKING:
    from playbook_supervisor.sessions.engine.proofs import Watch
    from playbook_supervisor.sessions.steps.evidence import CheckInputs

# What most calls do not need is imported where it is needed: `evidence` for a check to answer or a
# launch to record, `publishing` for what has happened.
SPECKIT = "/speckit"
_NOT_ISOLATED = "none"
_ISOLATED = frozenset({"branch", "cli", "commit", "issue", "mcp", "pr"})
"""Beside agents: the namespaces of executors that run programs, and only isolated ones."""
_GIT_TIMEOUT, _GIT_TIMEOUT_IN_HOOK = 120.0, 20.0  # seconds; a client waits half a minute for a hook
_LOOKING_IN_HOOK = 5.0  # seconds that git may take to tell what is there, in a large tree

Observe = Callable[[OpenSession], Observation | None]
"""Makes the observation once the session is open."""


class EngineOptions(Record):
    """The duties of a session's driver, and what it can wait for. `exports`: it gives
    `environment` to its workers. `runs_programs` and `runs_checks`: it may wait for programs that
    conditions start, and for the project's own checks, which may take an hour; a check that it
    cannot wait for is left outstanding. `copies`: keep copies of the files with each change; a long
    drive makes them when it waits. `commits`: commit the session's folder where the settings call
    for it; git then runs the hooks and filters of the repository. `isolation`: what isolates its
    workers, where it starts them itself; None where the settings say that."""

    exports: bool = True
    runs_programs: bool = True
    runs_checks: bool = True
    copies: bool = False
    commits: bool = True
    isolation: str | None = None


DEFAULT_OPTIONS = EngineOptions()


class SessionEngine:
    """Accepts observations of one session and answers its checks. `depth` sessions are above it,
    and `max_depth` may be, as the top playbook says; 0: this is the top."""

    def __init__(
        self,
        store: DiskStore,
        session_id: str,
        options: EngineOptions,
        *,
        depth: int = 0,
        max_depth: int = 0,
    ) -> None:
        self.store, self.id, self.options = store, session_id, options
        self.depth, self.max_depth = depth, max_depth
        self.root = store.checkout.root
        # entered while a check of the project runs
        self.watch: Watch = lambda _attempt, _check: nullcontext(lambda _: None)

    @property
    def private(self) -> Path:
        return self.store.runtime(self.id)

    def worker_file(self, attempt_id: str) -> Path:
        return self.private / f"worker-{attempt_id}"

    # ── what is observed ────────────────────────────────────────────────────────────────────

    def look(self) -> Snapshot:
        with self.store.open(self.id) as opened:
            return take_snapshot(self.store, opened)

    def begin(self, start: str, above: Launch | None) -> Snapshot:
        """Begin a pending session, at a later step if a person asked for it (`--from`), now or in a
        process that died. `above` is the beginning of its parent."""
        return self.advance(lambda opened: self._begun(opened, start, above))

    def go_on(
        self, start: str, above: Launch | None, *, retry: bool, driver: Driver | None
    ) -> Snapshot:
        """Begin a pending session, resume a failed one if `retry`, else answer the due checks. It
        is noted how the session is driven, so that `resume` needs no arguments."""

        def observe(opened: OpenSession) -> Observation | None:
            status = opened.manifest.status
            if driver is not None and opened.manifest.driver != driver:
                opened.write(driver)
            if status is SessionStatus.PENDING:
                return self._begun(opened, start, above)
            taken_up = retry and status is SessionStatus.FAILED
            return TakenUp(self.store.clock()) if taken_up else None

        return self.advance(observe)

    def _begun(self, opened: OpenSession, start: str, above: Launch | None) -> Begun:
        now = self.store.clock()
        first, playbook = start or opened.manifest.driver.start, opened.playbook
        opened.policy.admit_start(playbook, first, lambda: principal.local(self.root).name)
        workspace = self._workspace(opened, self._checkout())
        with suppress(TimeoutError), self._looking():
            beginnings.begin(opened, workspace, now, above)
        return Begun(now, first)

    def lose(self, attempt: Attempt) -> Snapshot:
        from playbook_supervisor.sessions.steps import evidence

        with self.store.open(self.id) as opened:
            branch_admission.admit(self.store, opened, Lost(self.store.clock(), attempt.id, False))
            workspace = self._workspace(opened, self._checkout())
            known = opened.runtime.launches.get(attempt.id)
        # Its postconditions may start programs, so the lock is not held meanwhile.
        checking, done = self._checking if self.options.runs_checks else None, False
        with suppress(TimeoutError), self._looking():
            ahead = self.store.clock.ahead
            done = evidence.had_finished(attempt, workspace, known, checking, ahead)
        lost = Lost(self.store.clock(), attempt.id, done)
        return self.advance(lost)

    # ── what a worker needs ─────────────────────────────────────────────────────────────────

    def input_of(self, step: Step) -> str:
        from playbook_supervisor.sessions.steps import step_data

        with self.store.open(self.id) as opened:
            return step_data.input_of(opened, step)

    def environment(self, known: Snapshot) -> dict[str, str]:
        return self._point_speckit(self._workspace(known, self._checkout()))

    def keep_proof(self, made: str) -> str:
        """Keep what a person has proved by hand, as JSON; its evidence, empty for anything else."""
        from playbook_supervisor.sessions.engine.proofs import SessionProofs

        try:
            proof = Proof(**json.loads(made))
        except (ValueError, TypeError):
            return ""
        SessionProofs(self.store, self.id).keep(proof)
        return proof.evidence

    # ── from an observation to what is due ──────────────────────────────────────────────────

    def record(
        self, *observations: Observation, commits: bool = True, anywhere: bool = False
    ) -> Snapshot:
        """Journal them, and judge and launch nothing yet; `commits`: also commit the session. What
        ends something may be journaled `anywhere`, on another branch too."""
        events: tuple[Event, ...] = ()
        with self.store.open(self.id) as opened:
            for seen in observations:
                if not anywhere:
                    branch_admission.admit(self.store, opened, seen)
                events += self._accept(opened, seen)
            opened.write(launching=False)
            snapshot, away = self._snapshot(opened, events), opened.standing.instead
        return self._published(snapshot) if commits and not away else snapshot

    def _snapshot(self, opened: OpenSession, events: tuple[Event, ...]) -> Snapshot:
        if events and (self.options.copies or opened.manifest.status in ENDED):
            opened.copy()
        return take_snapshot(self.store, opened, events)

    def _published(self, snapshot: Snapshot) -> Snapshot:
        if not snapshot.events or not self.options.commits:
            return snapshot
        from playbook_supervisor.sessions.publication import publishing

        return publishing.published(snapshot, timeout=self.git_timeout)

    @property
    def git_timeout(self) -> float:
        return _GIT_TIMEOUT if self.options.runs_programs else _GIT_TIMEOUT_IN_HOOK

    def advance(
        self, observe: Observation | Observe | None = None, events: tuple[Event, ...] = ()
    ) -> Snapshot:
        """Accept an observation, journal it, and answer checks until a driver must act. One that
        starts a program is answered without the lock; then what is due counts, as another process
        may have answered."""
        with self.store.open(self.id) as opened:
            seen = observe(opened) if callable(observe) else observe
            here = branch_admission.admit(self.store, opened, seen)
            accepted = () if seen is None else self._accept(opened, seen)
            if here:
                events += accepted + self._answer_checks(opened, observed=bool(accepted))
            elif accepted:
                opened.write(launching=False)
            snapshot = self._snapshot(opened, events)
            asked, now = snapshot.directive, opened.standing
            asking = here and isinstance(asked, Check) and self._may_answer(asked, opened.state)
            inputs = self._check_inputs(opened) if asking else None
        if accepted and not here:
            raise refusal(self.store.checkout, snapshot.manifest, now)
        if inputs is None or not isinstance(asked, Check):
            return self._published(snapshot) if here else snapshot
        from playbook_supervisor.sessions.steps import evidence

        checked, failing = evidence.answer(asked, inputs, self.store.clock)
        with self.store.open(self.id) as opened:
            branch_admission.admit(self.store, opened, checked)
            if machine.directive(opened.state) == asked:
                opened.runtime.failing.update(failing)
                events += self._accept(opened, checked)
                opened.write()
        return self.advance(events=events)

    def delay(self, state: State) -> float:
        asked = machine.directive(state)
        until = asked.not_before if isinstance(asked, Check) else None
        if until is None:
            return 0.0
        now = max(self.store.clock(), state.latest)  # the clock may have been set back
        return max(until - now, 0) / 1000

    def _may_answer(self, check: Check, state: State) -> bool:
        from playbook_supervisor.sessions.steps import evidence

        checks, programs = self.options.runs_checks, self.options.runs_programs
        return not self.delay(state) and (checks if evidence.runs_checks(check) else programs)

    def _answer_checks(self, opened: OpenSession, *, observed: bool) -> tuple[Event, ...]:
        """Answer the checks that only look at files; what follows from them is one write.
        `observed`: an observation was accepted and is not written. It is written before any file is
        looked at, because a worker's outcome must not be lost."""
        events: tuple[Event, ...] = ()
        with suppress(TimeoutError), self._looking():
            while isinstance(asked := machine.directive(opened.state), Check):
                from playbook_supervisor.sessions.steps import evidence

                undoes = asked.undoes and self.options.runs_programs
                if not undoes and (evidence.runs_programs(asked) or self.delay(opened.state)):
                    break
                if undoes:
                    opened.write()  # that it failed: its changes are undone once, and for a reason
                    checked = evidence.undone(asked, opened, self._checkout(), self.store.clock())
                elif evidence.asks_nothing(asked, opened.playbook):
                    checked = evidence.empty_answer(asked, self.store.clock())
                else:
                    if observed:
                        opened.write()
                        observed = False
                    inputs = self._check_inputs(opened)
                    checked, failing = evidence.answer(asked, inputs, self.store.clock)
                    opened.runtime.failing.update(failing)
                accepted = self._accept(opened, checked)
                observed = observed or any(event.entry.cached_from for event in accepted)
                events += accepted
        if observed or events:
            opened.write()
        return events

    def _looking(self) -> AbstractContextManager[None]:
        """Bounds the time of git, where that matters: TimeoutError. The check stays outstanding."""
        return nullcontext() if self.options.runs_programs else within(_LOOKING_IN_HOOK)

    def _accept(self, opened: OpenSession, observation: Observation) -> tuple[Event, ...]:
        if observation.at < opened.manifest.started_at:  # the clock was set back
            observation = replace(observation, at=opened.manifest.started_at)
        if isinstance(observation, Answered):
            self._admit_answer(opened, observation)
        if isinstance(observation, Checked):
            observation = self._with_child_sessions(opened, observation)
            observation = self._with_isolation(opened, observation)
        if isinstance(observation, Returned):
            from playbook_supervisor.sessions.steps import step_data

            events = step_data.accept_return(opened, observation)
            step = opened.playbook.step(observation.id.partition("#")[0])
            if events and step.cache is not None:
                from playbook_supervisor.sessions.engine import result_cache

                result_cache.returned(opened, observation)
            return events
        events = machine.decide(opened.state, observation)
        if isinstance(observation, TakenUp):  # a person may have worked here since it failed
            opened.runtime.launches.clear()
        self._record_launches(opened, events)
        opened.accept(events)
        done = [event for event in events if event.change is Change.DONE]
        if any(opened.playbook.step(event.entry.step_id).postconditions for event in done):
            from playbook_supervisor.sessions.engine import proofs

            proofs.date_verdicts(opened, done, self.root)
        if any(opened.playbook.step(each.entry.step_id).cache is not None for each in events):
            events += self._recorded(opened, events, observation.at)
        return events

    def _recorded(
        self, opened: OpenSession, events: tuple[Event, ...], at: int
    ) -> tuple[Event, ...]:
        """The returns of attempts that need not run; what is done is recorded for later ones. The
        launch and the return are one write, so no driver sees the attempt in between."""
        from playbook_supervisor.sessions.engine import result_cache
        from playbook_supervisor.sessions.steps import step_data

        more: tuple[Event, ...] = ()
        here = self._checkout()
        for event in events:
            if opened.playbook.step(event.entry.step_id).cache is not None:
                result_cache.settled(opened, here, event)
                if found := result_cache.launched(opened, here, event, at):
                    more += step_data.accept_return(opened, found)
        return more

    def _with_child_sessions(self, opened: OpenSession, checked: Checked) -> Checked:
        """The answer with the id of a new session, or none where it would be too deep, for each
        launch of a child: it is written with the launch, so that no child is begun twice."""
        if not any(step.has_child for step in opened.state.phase or ()):
            return checked
        reports = dict(checked.reports)
        too_deep = self.depth >= (self.max_depth or opened.playbook.max_depth)
        for event in machine.decide(opened.state, checked):
            name = event.entry.step_id
            if event.change is Change.LAUNCHED and opened.playbook.step(name).has_child:
                session = "" if too_deep else self.store.reserve()
                reports[name] = replace(reports[name], session=session)
        return replace(checked, reports=reports)

    def _with_isolation(self, opened: OpenSession, checked: Checked) -> Checked:
        wanted, found = opened.config.isolation.mode, self.options.isolation
        if wanted == "none" and not found:
            return checked
        if found is None:
            from playbook_supervisor.project.settings.isolation import in_force

            found = in_force(opened.config)
        found = found or _NOT_ISOLATED
        phase = opened.state.phase or ()
        starts = {step.id for step in phase if step.needs_agent or step.namespace in _ISOLATED}
        reports = {
            name: replace(report, isolation=found) if name in starts else report
            for name, report in checked.reports.items()
        }
        return replace(checked, reports=reports)

    def _admit_answer(self, opened: OpenSession, answered: Answered) -> None:
        asked = machine.directive(opened.state)
        if isinstance(asked, Ask) and asked.id == answered.id:
            from playbook_supervisor.sessions.steps import evidence

            step, decided = asked.member.step.id, answered.resolution
            opened.policy.admit(step, asked.reason, decided, answered.by, answered.role)
            entry = opened.entry(asked.member.id)
            evidence.answered(opened.runtime, entry, answered.resolution)

    def _record_launches(self, opened: OpenSession, events: tuple[Event, ...]) -> None:
        launched = [event.entry for event in events if event.change is Change.LAUNCHED]
        if not launched:
            return
        here = self._checkout()
        beginnings.pin(opened, self.root, by_a_person=self.options.exports)
        workspace = self._workspace(opened, here)
        steps = [opened.playbook.step(entry.step_id) for entry in launched]
        if any(step.command.startswith(SPECKIT) for step in steps):
            self._point_speckit(workspace)  # refuses before anything is launched
        for entry, step in zip(launched, steps, strict=True):
            at = entry.launched_at or entry.started_at
            opened.runtime.launches[entry.id] = beginnings.launch(step, workspace, here.head, at)

    def _point_speckit(self, world: Workspace) -> dict[str, str]:
        exported = self.options.exports
        return dict(
            features.point_speckit(self.root, world.feature, world.config, exported=exported)
        )

    def _check_inputs(self, opened: OpenSession) -> CheckInputs:
        from playbook_supervisor.sessions.steps import step_data
        from playbook_supervisor.sessions.steps.evidence import CheckInputs

        workspace = self._workspace(opened, self._checkout())
        began_at = opened.manifest.started_at
        facts = step_data.facts(opened)
        values = opened.playbook.values(opened.manifest.args)
        known = (opened.runtime, began_at, self._checking, opened.state, facts, values)
        return CheckInputs(workspace, *known, self.store.clock.ahead)

    def _checking(self, attempt: Attempt) -> AbstractContextManager[Checking]:
        from playbook_supervisor.sessions.engine import proofs

        kept = proofs.SessionProofs(self.store, self.id)
        return proofs.checking(kept, attempt, self.worker_file(attempt.id), self.watch)

    def _checkout(self) -> Checkout:
        """The checkout as it is now, read each time: steps may commit and switch branches."""
        return checkout.refreshed(self.store.checkout)

    def _workspace(self, known: OpenSession | Snapshot, here: Checkout) -> Workspace:
        feature = known.manifest.feature
        feature = feature or features.current(self.root, here.branch, known.config).name
        pinned = known.runtime.pinned if isinstance(known, OpenSession) else NOW
        return Workspace(self.root, feature, here.branch, known.config, pinned=pinned)
