"""From an observation to what is due: the part of a supervisor that accepts and that judges.

Everything that is learned is written before anything follows from it. A check is answered under the
session's lock if it only looks at files, and without it if it starts a program.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import (
    Answered,
    Ask,
    Attempt,
    Check,
    Checked,
    Observation,
    Outcome,
    Returned,
    TakenUp,
)
from playbook_supervisor.kernel.state import Change, Event, State
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions import beginnings, session_branch
from playbook_supervisor.sessions.session import OpenSession
from playbook_supervisor.sessions.snapshot import Snapshot, take_snapshot
from playbook_supervisor.system import checkout
from playbook_supervisor.system.cancellation import within
from playbook_supervisor.system.checkout import NOW, Checkout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.checks import Checking
    from playbook_supervisor.project.conditions import Workspace
    from playbook_supervisor.sessions.checking import Watch
    from playbook_supervisor.sessions.evidence import CheckInputs
    from playbook_supervisor.sessions.local_state import Launch
    from playbook_supervisor.sessions.store import DiskStore
    from playbook_supervisor.sessions.supervisor import Supervisor

# What most calls do not need is imported where it is needed: `evidence` for a check to answer or a
# launch to record, `publishing` for what has happened.
SPECKIT = "/speckit"
_GIT_TIMEOUT, _GIT_TIMEOUT_IN_HOOK = 120.0, 20.0  # seconds; a client waits half a minute for a hook
_LOOKING_IN_HOOK = 5.0  # seconds that git may take to tell what is there, in a large tree

Observe = Callable[[OpenSession], Observation]
"""Makes the observation once the session is open."""


def _unwatched(_attempt: Attempt, _check: str) -> AbstractContextManager[Callable[[str], None]]:
    return nullcontext(lambda _: None)


class Untold(Record, frozen=False):
    """What has happened and no snapshot of the tree has reported yet: an error came between.

    `below` are the snapshots of the children to which the events belong.
    """

    events: list[Event] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    below: dict[str, Snapshot] = field(default_factory=dict)


class Judge:
    """Accepts observations of one session and answers its checks.

    `parent` is the supervisor of the session that a child works for, and `place` the attempt there.
    `exports` says whether the driver gives `environment` to its workers. `runs_programs` and
    `runs_checks` say whether it may wait for programs that conditions start, and for the project's
    own checks, which may take an hour (if not, such a check is left outstanding).
    `copies`: keep copies of the files with each change; a long drive makes them when it waits.
    `commits`: commit the session's folder where the settings call for it; git then runs the hooks
    and filters of the repository.
    """

    def __init__(
        self,
        store: DiskStore,
        session_id: str,
        *,
        parent: Supervisor | None = None,
        place: str = "",
        exports: bool = True,
        runs_programs: bool = True,
        runs_checks: bool = True,
        copies: bool = False,
        commits: bool = True,
    ) -> None:
        self.store, self.id = store, session_id
        self.exports, self.copies, self.commits = exports, copies, commits
        self.runs_programs, self.runs_checks = runs_programs, runs_checks
        self.root = store.checkout.root
        self.watch: Watch = _unwatched
        """Entered while a check of the project runs."""
        self.parent, self.place = parent, place
        self.children: dict[str, Supervisor] = {}
        """Those of the attempts that are under way, by the attempt's own id."""
        self.untold = Untold()
        self.held = self.exists = False
        self.max_depth = 0
        """How many sessions may be above one, as the top playbook says; 0: this is the top."""

    @property
    def depth(self) -> int:
        """How many sessions are above it."""
        return self.parent.depth + 1 if self.parent else 0

    def tell(self, place: str, below: Snapshot) -> None:
        """Let the next snapshot of the tree report what the snapshot of a child does."""
        for event in below.events:
            within = f"{place}/{event.within}".rstrip("/")
            self.untold.events.append(replace(event, within=within))
        self.untold.notices += below.notices
        known, below = self.untold.below, below.without_events()
        known[place] = below.after(known[place]) if place in known else below

    def returned(self, place: str, outcome: Outcome) -> Snapshot:
        """Journal the end of a child; the snapshot of this session alone."""
        returned = Returned(self.store.clock(), place, outcome)
        return self._advance(lambda _: returned)

    @property
    def private(self) -> Path:
        """The session's local folder, in the git directory."""
        return self.store.runtime(self.id)

    def worker_file(self, attempt: Attempt) -> Path:
        """The file that every process of the attempt's worker inherits, open and locked."""
        return self.private / f"worker-{attempt.id}"

    def _record(
        self, *observations: Observation, commits: bool = True, anywhere: bool = False
    ) -> Snapshot:
        """Journal them; what ends something may be journaled `anywhere`, on another branch too."""
        events: tuple[Event, ...] = ()
        with self.store.open(self.id) as opened:
            for seen in observations:
                if not anywhere:
                    session_branch.admit(self.store, opened, seen)
                events += self._accept(opened, seen)
            opened.write(launching=False)
            snapshot, away = self._snapshot(opened, events), opened.standing.instead
        return self._published(snapshot) if commits and not away else snapshot

    def _snapshot(self, opened: OpenSession, events: tuple[Event, ...]) -> Snapshot:
        if events and self.copies:
            opened.copy()
        return take_snapshot(self.store, opened, events)

    def _published(self, snapshot: Snapshot) -> Snapshot:
        if not snapshot.events or not self.commits:
            return snapshot
        from playbook_supervisor.sessions import publishing

        return publishing.published(snapshot, timeout=self._git_timeout)

    @property
    def _git_timeout(self) -> float:
        return _GIT_TIMEOUT if self.runs_programs else _GIT_TIMEOUT_IN_HOOK

    def _advance(self, observe: Observe | None = None, events: tuple[Event, ...] = ()) -> Snapshot:
        """Accept an observation and answer checks until a driver must act.

        One that starts a program is answered without the lock. Another process may do so meanwhile,
        so the session is opened again, and what is due then counts.
        """
        with self.store.open(self.id) as opened:
            seen = None if observe is None else observe(opened)
            here = session_branch.admit(self.store, opened, seen)
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
            raise session_branch.refusal(self.store.checkout, snapshot.manifest, now)
        if inputs is None or not isinstance(asked, Check):
            return self._published(snapshot) if here else snapshot
        from playbook_supervisor.sessions import evidence

        checked, failing = evidence.answer(asked, inputs, self.store.clock)
        with self.store.open(self.id) as opened:
            session_branch.admit(self.store, opened, checked)
            if machine.directive(opened.state) == asked:
                opened.runtime.failing.update(failing)
                events += self._accept(opened, checked)
                opened.write()
        return self._advance(events=events)

    def _delay(self, state: State) -> float:
        """How many seconds a retry that is due next in this session still waits; 0 for none."""
        asked = machine.directive(state)
        until = asked.not_before if isinstance(asked, Check) else None
        if until is None:
            return 0.0
        now = max(self.store.clock(), state.latest)  # the clock may have been set back
        return max(until - now, 0) / 1000

    def _may_answer(self, check: Check, state: State) -> bool:
        """Whether the check is due, and the driver may wait for the programs that it needs."""
        from playbook_supervisor.sessions import evidence

        if self._delay(state):
            return False
        return self.runs_checks if evidence.runs_checks(check) else self.runs_programs

    def _answer_checks(self, opened: OpenSession, *, observed: bool) -> tuple[Event, ...]:
        """Answer the checks that only look at files; what follows from them is one write.

        `observed`: an observation was accepted and is not written. It is written before any file
        is looked at, because a worker's outcome must not be lost.
        """
        events: tuple[Event, ...] = ()
        with suppress(TimeoutError), self._looking():
            while isinstance(asked := machine.directive(opened.state), Check):
                from playbook_supervisor.sessions import evidence

                if evidence.runs_programs(asked) or self._delay(opened.state):
                    break
                if evidence.asks_nothing(asked, opened.playbook):
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
        """Bounds the time that git may take, where that matters: TimeoutError.

        The check then stays outstanding, and `playbook next --wait` answers it.
        """
        return nullcontext() if self.runs_programs else within(_LOOKING_IN_HOOK)

    def _accept(self, opened: OpenSession, observation: Observation) -> tuple[Event, ...]:
        if observation.at < opened.manifest.started_at:  # the clock was set back
            observation = replace(observation, at=opened.manifest.started_at)
        if isinstance(observation, Answered):
            self._admit_answer(opened, observation)
        if isinstance(observation, Checked):
            observation = self._with_child_sessions(opened, observation)
        if isinstance(observation, Returned):
            from playbook_supervisor.sessions import step_data

            events = step_data.accept_return(opened, observation)
            step = opened.playbook.step(observation.id.partition("#")[0])
            if events and step.cache is not None:
                from playbook_supervisor.sessions import result_cache

                result_cache.returned(opened, observation)
            return events
        events = machine.decide(opened.state, observation)
        if isinstance(observation, TakenUp):  # a person may have worked here since it failed
            opened.runtime.launches.clear()
        self._record_launches(opened, events)
        opened.accept(events)
        beginnings.date_verdicts(opened, events, self.root)
        if any(opened.playbook.step(each.entry.step_id).cache is not None for each in events):
            events += self._recorded(opened, events, observation.at)
        return events

    def _recorded(
        self, opened: OpenSession, events: tuple[Event, ...], at: int
    ) -> tuple[Event, ...]:
        """The returns of attempts that need not run; what is done is recorded for later ones.

        The launch and the return are one write, so no driver sees the attempt in between.
        """
        from playbook_supervisor.sessions import result_cache, step_data

        more: tuple[Event, ...] = ()
        here = self._checkout()
        for event in events:
            if opened.playbook.step(event.entry.step_id).cache is not None:
                result_cache.settled(opened, here, event)
                if found := result_cache.launched(opened, here, event, at):
                    more += step_data.accept_return(opened, found)
        return more

    def _with_child_sessions(self, opened: OpenSession, checked: Checked) -> Checked:
        """The answer with the id of a new session for each launch whose work is a child session.

        The launch and the link to the child are one write, so that no child is begun twice.
        """
        if not any(step.has_child for step in opened.state.phase or ()):
            return checked
        reports = dict(checked.reports)
        for event in machine.decide(opened.state, checked):
            name = event.entry.step_id
            if event.change is Change.LAUNCHED and opened.playbook.step(name).has_child:
                reports[name] = replace(reports[name], session=self._reserved(opened))
        return replace(checked, reports=reports)

    def _reserved(self, opened: OpenSession) -> str:
        """The id of a child session that is to be created; empty if there may be none."""
        too_deep = self.depth >= (self.max_depth or opened.playbook.max_depth)
        return "" if too_deep else self.store.reserve()

    def _admit_answer(self, opened: OpenSession, answered: Answered) -> None:
        asked = machine.directive(opened.state)
        if isinstance(asked, Ask) and asked.id == answered.id:
            from playbook_supervisor.sessions import evidence

            step, decided = asked.member.step.id, answered.resolution
            opened.policy.admit(step, asked.reason, decided, answered.by, answered.role)
            entry = opened.entry(asked.member.id)
            evidence.answered(opened.runtime, entry, answered.resolution)

    def _record_begin(self, opened: OpenSession, at: int, above: Launch | None) -> None:
        """Keep what is there when the session begins; `above` is the beginning of its parent."""
        workspace = self._workspace(opened, self._checkout())
        with suppress(TimeoutError), self._looking():
            beginnings.begin(opened, workspace, at, above)

    def _record_launches(self, opened: OpenSession, events: tuple[Event, ...]) -> None:
        """Keep what is on the disk when an attempt is launched: its evidence is compared to it."""
        launched = [event.entry for event in events if event.change is Change.LAUNCHED]
        if not launched:
            return
        here = self._checkout()
        beginnings.pin(opened, self.root)
        workspace = self._workspace(opened, here)
        steps = [opened.playbook.step(entry.step_id) for entry in launched]
        if any(step.command.startswith(SPECKIT) for step in steps):
            self._point_speckit(workspace)  # refuses before anything is launched
        for entry, step in zip(launched, steps, strict=True):
            at = entry.launched_at or entry.started_at
            opened.runtime.launches[entry.id] = beginnings.launch(step, workspace, here.head, at)

    def _point_speckit(self, world: Workspace) -> dict[str, str]:
        from playbook_supervisor.project.features import point_speckit

        return dict(point_speckit(self.root, world.feature, world.config, exported=self.exports))

    def _check_inputs(self, opened: OpenSession) -> CheckInputs:
        from playbook_supervisor.sessions import step_data
        from playbook_supervisor.sessions.evidence import CheckInputs

        workspace = self._workspace(opened, self._checkout())
        began_at = opened.manifest.started_at
        facts = step_data.facts(opened)
        values = opened.playbook.values(opened.manifest.args)
        known = (opened.runtime, began_at, self._checking, opened.state, facts, values)
        return CheckInputs(workspace, *known, self.store.clock.ahead)

    def _checking(self, attempt: Attempt) -> AbstractContextManager[Checking]:
        from playbook_supervisor.sessions import checking, proofs

        kept = proofs.SessionProofs(self.store, self.id)
        return checking.checking(kept, attempt, self.worker_file(attempt), self.watch)

    def _checkout(self) -> Checkout:
        """The checkout as it is now, read each time: steps may commit and switch branches."""
        return checkout.refreshed(self.store.checkout)

    def _workspace(self, known: OpenSession | Snapshot, here: Checkout) -> Workspace:
        from playbook_supervisor.project import features
        from playbook_supervisor.project.conditions import Workspace

        feature = known.manifest.feature
        feature = feature or features.current(self.root, here.branch, known.config).name
        pinned = known.runtime.pinned if isinstance(known, OpenSession) else NOW
        return Workspace(self.root, feature, here.branch, known.config, pinned=pinned)
