"""A session and its children as one: what is outstanding in all of them.

A driver asks for a snapshot, carries out its directive, and reports. A step can be a playbook of
its own, which a child session runs. A child is a session like any other, with a journal of its own;
drivers know its attempts and gates by the attempt that it works for: `release#1/plan#1`. The end of
a child is the return of that attempt. Here such paths go to the engine of the session that they
name, and the snapshots of all engines become one. No lock of one session is held while another one
is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import (
    Answered,
    Ask,
    Asked,
    Attempt,
    Cancellation,
    Cancelled,
    Check,
    Directive,
    Failure,
    Finish,
    Outcome,
    Returned,
    Run,
    TakenUp,
)
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.kernel.vocabulary import GateReason, Place, Resolution, SessionStatus
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions.engine.session_engine import (
    DEFAULT_OPTIONS,
    SPECKIT,
    EngineOptions,
    SessionEngine,
)
from playbook_supervisor.sessions.engine.work import Work, work_of
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.files.manifest import Driver
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.publication import branch_admission
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, at_work, due_children, running
from playbook_supervisor.system.process.process_groups import kill_worker

# `children` is imported where a child begins or ends: most sessions have none.
_NOT_CREATED = frozenset({"PB-STATE-NO-SESSION", "PB-STATE-REFUSED"})


class _Unreported(Record, frozen=False):
    """Events that no snapshot of the tree has reported yet, because an error came between.
    `below` are the snapshots of the children to which the events belong."""

    events: list[Event] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    below: dict[str, Snapshot] = field(default_factory=dict)


class SessionTree:
    """A session of one worktree, and its children; `parent` is the tree of the one that it works
    for."""

    def __init__(
        self,
        store: DiskStore,
        session_id: str,
        options: EngineOptions = DEFAULT_OPTIONS,
        *,
        parent: SessionTree | None = None,
        max_depth: int = 0,
    ) -> None:
        self.store, self.id, self.root = store, session_id, store.checkout.root
        self.parent = parent
        depth: int = parent.engine.depth + 1 if parent else 0
        self.engine: SessionEngine = SessionEngine(
            store, session_id, options, depth=depth, max_depth=max_depth
        )
        self._children: dict[str, SessionTree] = {}  # of attempts under way, by their own ids
        self._unreported = _Unreported()
        self._held = self._exists = False

    # ── what drivers call ───────────────────────────────────────────────────────────────────

    def look(self) -> Snapshot:
        """The snapshot of now, with nothing answered and nothing launched."""
        return self._with_children(self.engine.look())

    def hold(self) -> None:
        """Drive the session and its children alone from here on (`DiskStore.hold`)."""
        self._held = True
        self.store.hold(self.id)

    def end_workers(self) -> None:
        for attempt in running(self.look()):
            kill_worker(self.worker_file(attempt))

    def advance(self) -> Snapshot:
        """The snapshot of now; checks that are due are answered first."""
        return self._with_advanced_children(self.engine.advance())

    def begin(self, start: str = "") -> Snapshot:
        return self._with_advanced_children(self.engine.begin(start, self._begun_above()))

    def go_on(
        self, start: str = "", *, retry: bool = False, driver: Driver | None = None
    ) -> Snapshot:
        """Begin a pending session, resume a failed one if `retry`, else answer the due checks.
        `driver`: also remember that the session is driven in this way."""
        own = self.engine.go_on(start, self._begun_above(), retry=retry, driver=driver)
        return self._with_advanced_children(own)

    def _begun_above(self) -> Launch | None:
        return self.store.journal(self.parent.id).begun if self.parent else None

    def report(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """A worker came back. Its outcome is journaled before anything is judged."""
        if self._below(attempt_id, lambda child, own_id: child.report(own_id, outcome)):
            return self.advance()
        returned = Returned(self.store.clock(), attempt_id, outcome)
        return self._with_advanced_children(self.engine.advance(returned))

    def note_return(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """As `report`, but nothing is judged or launched yet."""
        if self._below(attempt_id, lambda child, own_id: child.note_return(own_id, outcome)):
            return self.look()
        returned = Returned(self.store.clock(), attempt_id, outcome)
        return self._with_children(self.engine.record(returned))

    def asked(self, attempt_id: str, reason: GateReason, request: Mapping[str, object]) -> Snapshot:
        """A running attempt's agent asks a person, and waits: the gate is journaled. `request` is
        what it asks for, as the gate keeps it: plain data, harmless, without secrets."""
        if self._below(attempt_id, lambda child, own_id: child.asked(own_id, reason, request)):
            return self.look()
        asked = Asked(self.store.clock(), attempt_id, reason, request)
        return self._with_children(self.engine.record(asked))

    def answer(
        self, gate_id: str, resolution: Resolution, text: str, by: Principal, at: int | None = None
    ) -> Snapshot:
        """A human decided at a gate, now or at a former time; call `advance` for what follows.
        PolicyError PB-POLICY-ANSWER, and the gate stays open, unless a policy lets `by` answer."""
        if self._below(gate_id, lambda child, own: child.answer(own, resolution, text, by, at)):
            return self.look()
        now = self.store.clock()
        when = now if at is None else min(at, now)
        answered = Answered(when, gate_id, resolution, text, by.name, by.via, by.role)
        return self._with_children(self.engine.record(answered))

    def abort(self, text: str, by: Principal) -> Snapshot:
        """End the session, after its children; a failed one is taken up first, without a run."""
        snapshot = self.look()
        for place, below in snapshot.children.items():
            if not isinstance(below.directive, Finish):
                self._report_later(place, self.child(place).abort(text, by))
        now = self.store.clock()
        first = [TakenUp(now)] if snapshot.manifest.status is SessionStatus.FAILED else []
        end = Cancelled(now, Cancellation.ABORT, text, by.name)
        return self._with_children(self.engine.record(*first, end, anywhere=True))

    def interrupt(self, *, commits: bool = True) -> Snapshot:
        """Settle what runs as interrupted; the session stays open. `commits`: also commit it."""
        for place in self.look().children:
            self._report_later(place, self.child(place).interrupt(commits=commits))
        cancelled = Cancelled(self.store.clock(), Cancellation.INTERRUPT)
        return self._with_children(self.engine.record(cancelled, commits=commits, anywhere=True))

    def close(self, isolation: str = "") -> Snapshot:
        """The last snapshot of a session that has ended; commits and pushes what is still due, in
        that mode of isolation if it is not empty."""
        from playbook_supervisor.sessions.publication import publishing

        ended = self.advance()
        ended = replace(ended, config=ended.config.isolated(isolation))
        return publishing.closed(ended, timeout=self.engine.git_timeout)

    def lose(self, attempt: Attempt) -> Snapshot:
        """A launched attempt's worker has gone: its postconditions say whether it had finished."""
        if self._below(attempt.id, lambda child, _: child.lose(_inner(attempt))):
            return self.advance()
        return self._with_advanced_children(self.engine.lose(attempt))

    def require_branch(self) -> None:
        """StateError PB-STATE-BRANCH unless the branch of what is under way is checked out."""
        if places := self.look().children:
            for place in places:
                self.child(place).require_branch()
            return
        with self.store.open(self.id) as opened:
            branch_admission.require(self.store, opened)

    def move_here(self, by: Principal) -> None:
        """Let the session and the children under way belong to the branch that is checked out."""
        for place in self.look().children:
            self.child(place).move_here(by)
        with self.store.open(self.id) as opened:
            branch_admission.move(self.store, opened, by.name)

    def changed(self) -> bool:
        return any(each.store.changed(each.id) for each in self._family())

    def delay(self, snapshot: Snapshot) -> float:
        """The seconds that the next retry still waits; 0 without one."""
        if isinstance(snapshot.directive, Check):
            return self.engine.delay(snapshot.of(snapshot.directive.members[0]).state)
        waits = (self.delay(child) for child in snapshot.children.values())
        return min((wait for wait in waits if wait), default=0.0)

    def copy(self) -> None:
        """Keep copies of the files in the git directory, those of the children too. A worker may be
        removing the folder at this moment, as `git switch` does: the next call then restores it."""
        for each in self._family():
            if not self.store.copied(each.id):
                with suppress(StorageError), each.store.open(each.id) as opened:
                    opened.copy()

    # ── what a worker needs ─────────────────────────────────────────────────────────────────

    @property
    def private(self) -> Path:
        return self.engine.private

    @property
    def config(self) -> Config:
        return self.look().config

    def worker_file(self, attempt: Attempt) -> Path:
        """The file that every process of the attempt's worker inherits, open and locked."""
        return self.of(attempt).engine.worker_file(attempt.own_id)

    def place_of(self, attempt_id: str) -> tuple[Path, str] | None:
        """The local folder of the attempt's session, and its id there; None if that has ended."""
        *places, own_id = attempt_id.split("/")
        try:
            return self._at(places).private, own_id
        except StateError:
            return None

    def log_file(self, attempt: Attempt) -> Path:
        from playbook_supervisor.sessions.steps.attempt_log import log_path

        return log_path(self.of(attempt).private, attempt.own_id)

    def work(self, snapshot: Snapshot, attempt: Attempt) -> Work:
        return work_of(self.root, snapshot.of(attempt), attempt, self.input_of(attempt))

    def input_of(self, attempt: Attempt) -> str:
        """The part of an earlier step's output that the attempt reads; StepError PB-STEP-DATA."""
        return self.of(attempt).engine.input_of(attempt.step) if attempt.step.stdin else ""

    def environment(self, snapshot: Snapshot, work: Work) -> dict[str, str]:
        if not work.attempt.step.command.startswith(SPECKIT):
            return {}
        return self.engine.environment(snapshot.of(work.attempt))

    # ── the sessions of the tree ────────────────────────────────────────────────────────────

    @property
    def top(self) -> SessionTree:  # of the session that a person began
        return self.parent.top if self.parent else self

    def of(self, attempt: Attempt) -> SessionTree:
        return self._at(attempt.within.split("/") if attempt.within else ())

    def _at(self, places: Iterable[str]) -> SessionTree:
        found = self
        for place in places:
            found = found.child(place)
        return found

    def lineage(self, attempt: Attempt) -> tuple[str, ...]:
        return self.of(attempt)._lineage()

    def _lineage(self) -> tuple[str, ...]:
        return (*(self.parent._lineage() if self.parent else ()), self.id)

    def child(self, place: str) -> SessionTree:
        """The tree of the session that works for an attempt of this one that is under way, and may
        still be to be created. StateError PB-STATE-REFUSED if there is none."""
        if place in self._children:
            return self._children[place]
        with self.store.open(self.id) as opened:
            sessions = {entry.id: entry.session for entry in opened.state.entries}
            max_depth = self.engine.max_depth or opened.playbook.max_depth
        if not sessions.get(place):
            raise StateError("PB-STATE-REFUSED", f"no child session works for {place}")
        session, engine = sessions[place], self.engine
        child = SessionTree(self.store, session, engine.options, parent=self, max_depth=max_depth)
        child.engine.watch = lambda attempt, check: engine.watch(_within(place, attempt), check)
        self._children[place] = child
        return child

    def require_known(self, attempt_id: str) -> None:
        """StateError PB-STATE-REFUSED for an attempt that never began, here or in a child."""
        place, _, rest = attempt_id.partition("/")
        if not self._has_returned(place) and rest:
            self.child(place).require_known(rest)

    def _has_returned(self, attempt_id: str) -> bool:
        with self.store.open(self.id) as opened:
            machine.require_known(opened.state, attempt_id)
            return machine.has_returned(opened.state, attempt_id)

    def _family(self) -> Iterator[SessionTree]:
        yield self
        for child in self._children.values():
            yield from child._family()

    def _below(self, path: str, act: Callable[[SessionTree, str], Snapshot]) -> bool:
        """Let a child act on what it knows by the rest of the path; False if it names none. Nothing
        happens if the attempt that the child works for has returned: what the path names is
        settled. StateError PB-STATE-REFUSED if it is no attempt of this session."""
        place, slash, rest = path.partition("/")
        if slash and not self._has_returned(place):
            self._report_later(place, act(self.child(place), rest))
        return bool(slash)

    # ── one snapshot of all ─────────────────────────────────────────────────────────────────

    def _with_children(self, own: Snapshot) -> Snapshot:
        if not (due_children(own) or self._unreported.events):
            return own
        own = self._keep_back(own)
        for member in _children_due(own):
            try:
                self._report_later(member.own_id, self.child(member.own_id).look())
            except StateError as error:
                if error.code not in _NOT_CREATED:
                    raise
        return self._compose(own)

    def _with_advanced_children(self, own: Snapshot) -> Snapshot:
        if not (due_children(own) or self._unreported.events):
            return own
        from playbook_supervisor.sessions.tree import children

        own, went = self._keep_back(own), set[str]()
        while due := [each for each in _children_due(own) if each.own_id not in went]:
            ended: dict[str, Outcome] = {}
            for member in due:
                place = member.own_id
                went.add(place)
                child = self._ensure_child(own, member)
                if isinstance(child, Failure):
                    ended[place] = Outcome(child)
                    continue
                below = child._advanced()
                self._report_later(place, below)
                if below.manifest.branch != own.manifest.branch:
                    with self.store.open(self.id) as opened:
                        branch_admission.follow_child(self.store, opened, below.manifest.branch)
                        own = replace(own, manifest=opened.manifest)
                if isinstance(below.directive, Finish):
                    if below.directive.status is SessionStatus.ABORTED:
                        return self._aborted(below)
                    ended[place] = children.outcome(self.store, below)
            for place, outcome in ended.items():
                returned = Returned(self.store.clock(), place, outcome)
                own = self._keep_back(self.engine.advance(returned))
                self._children.pop(place, None)
        return self._compose(own)

    def _advanced(self) -> Snapshot:
        with self.store.open(self.id) as opened:
            begun = opened.runtime.begun is not None or not opened.state.pristine
        if not begun:
            try:
                return self.begin()
            except StateError as error:
                if error.code != "PB-STATE-REFUSED":  # another process has begun it meanwhile
                    raise
        return self.advance()

    def _ensure_child(self, own: Snapshot, member: Attempt) -> SessionTree | Failure:
        from playbook_supervisor.sessions.tree import children

        if not own.entry(member).session:
            return children.too_deep(self.engine.max_depth or own.state.playbook.max_depth)
        child = self.child(member.own_id)
        if not child._exists:
            store, top = self.store, self.top.id
            if failure := children.create_missing(store, child.id, self.id, top, member):
                return failure
            child._exists = True
            if self._held:
                child.hold()
        return child

    def _aborted(self, below: Snapshot) -> Snapshot:
        said = [entry for entry in below.state.entries if entry.resolution is Resolution.ABORT]
        text = said[-1].human_response if said else ""
        by = next((gate.by for entry in said for gate in reversed(entry.gates)), "")
        return self.abort(text, Principal(by))

    def _report_later(self, place: str, below: Snapshot) -> None:
        for event in below.events:
            within = f"{place}/{event.within}".rstrip("/")
            self._unreported.events.append(replace(event, within=within))
        self._unreported.notices += below.notices
        known, below = self._unreported.below, below.without_events()
        known[place] = below.after(known[place]) if place in known else below

    def _keep_back(self, own: Snapshot) -> Snapshot:
        """Without its events and notices: those of the tree are reported in their order."""
        self._unreported.events += own.events
        self._unreported.notices += own.notices
        return own.without_events()

    def _compose(self, own: Snapshot) -> Snapshot:
        told, self._unreported = self._unreported, _Unreported()
        directive, children = _directive(own.directive, told.below), told.below
        events, notices = tuple(told.events), tuple(told.notices)
        return replace(own, directive=directive, events=events, notices=notices, children=children)


def _children_due(own: Snapshot) -> list[Attempt]:
    return [member for member in running(own) if member.step.has_child]


def _directive(own: Directive, known: Mapping[str, Snapshot]) -> Directive:
    """The first gate at which an agent waits, else all attempts that run, else the first gate of
    another kind, else the first check."""
    if isinstance(own, Ask) and own.meanwhile is not None:
        return replace(own, meanwhile=at_work(_directive(own.meanwhile, known)))
    if not isinstance(own, Run):
        return own
    runs: list[Attempt] = []
    continues = list(own.continues)
    waits: list[Ask | Check] = []
    for member in own.members:
        below = known.get(member.own_id)
        match below.directive if below else None:
            case Run(members=members, continues=ids):
                runs += [_within(member.own_id, each) for each in members]
                continues += [f"{member.own_id}/{each}" for each in ids]
            case Ask() as ask:
                inside = _within(member.own_id, ask.member)
                waits.append(replace(ask, id=f"{member.own_id}/{ask.id}", member=inside))
                if ask.meanwhile is not None:
                    runs += [_within(member.own_id, each) for each in ask.meanwhile.members]
                    continues += [f"{member.own_id}/{each}" for each in ask.meanwhile.continues]
            case Check() as check:
                inside_all = tuple(_within(member.own_id, each) for each in check.members)
                waits.append(replace(check, id=f"{member.own_id}/{check.id}", members=inside_all))
            case _:  # the step is no child, or its child is to be created, or has ended
                runs.append(member)
    run = Run(tuple(runs), tuple(continues)) if runs else None
    asked = min(waits, key=_rank, default=None)
    if run is not None and not (isinstance(asked, Ask) and asked.place is Place.DURING):
        return run
    assert asked is not None  # noqa: S101 - each member runs or waits
    return replace(asked, meanwhile=run) if isinstance(asked, Ask) else asked


def _rank(one: Ask | Check) -> int:
    if isinstance(one, Check):
        return 2
    return 0 if one.place is Place.DURING else 1


def _within(place: str, attempt: Attempt) -> Attempt:  # as its parent knows it
    return replace(attempt, within=f"{place}/{attempt.within}".rstrip("/"))


def _inner(attempt: Attempt) -> Attempt:  # as the child knows it
    return replace(attempt, within=attempt.within.partition("/")[2])
