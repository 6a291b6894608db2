"""A snapshot of a session: what is outstanding, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.kernel import machine, phases
from playbook_supervisor.kernel.directives import Ask, Attempt, Check, Directive, Run
from playbook_supervisor.kernel.gates import progress
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.state import Change, Entry, Event, State
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions.files import projection
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store.disk_store import DiskStore


class Snapshot(Record):
    """`events` led here, oldest first. `policy` is what the project asks of the session beyond the
    playbook, `launches` what was known when each attempt of the due phase was launched. `notices`
    are sentences for the person: what was restored or committed, or deserves a warning. `children`
    are the snapshots of child sessions, by the attempt that each works for. The directive is then
    that of the whole tree: first the attempts that run, then the first gate."""

    store: DiskStore = field(repr=False, compare=False)
    manifest: Manifest
    state: State
    directive: Directive
    events: tuple[Event, ...]
    policy: Policy
    config: Config
    launches: Mapping[str, Launch]
    notices: tuple[str, ...] = ()
    children: Mapping[str, Snapshot] = field(default_factory=dict)

    @property
    def session_id(self) -> str:
        return self.manifest.session_id

    @property
    def private(self) -> Path:
        return self.store.runtime(self.session_id)

    @property
    def done(self) -> int:
        return phases.steps_done(self.state)

    @property
    def total(self) -> int:
        return len(self.state.playbook.steps)

    @property
    def progress(self) -> str:
        return progress(self.done, self.total)

    @property
    def question(self) -> str:
        """The question of the open gate; empty where none is open."""
        asked = self.directive
        if not isinstance(asked, Ask):
            return ""
        own = self.of(asked.member)
        return projection.question(own.state, asked, own.manifest.args)

    @property
    def answered_by(self) -> tuple[str, ...]:
        """Who may answer the open gate, one line for each policy; empty where anyone may."""
        asked = self.directive
        if not isinstance(asked, Ask):
            return ()
        return self.of(asked.member).policy.answerers(asked.member.step.id, asked.reason)

    @property
    def pending(self) -> bool:
        return self.manifest.status is SessionStatus.PENDING

    @property
    def repeated(self) -> bool:
        """True if the directive is work that was launched earlier."""
        launched = {event.id for event in self.events if event.change is Change.LAUNCHED}
        return any(member.id not in launched for member in running(self))

    def without_events(self) -> Snapshot:
        return replace(self, events=(), notices=())

    def after(self, earlier: Snapshot) -> Snapshot:
        events, notices = (*earlier.events, *self.events), (*earlier.notices, *self.notices)
        children = {**earlier.children, **self.children}
        return replace(self, events=events, notices=notices, children=children)

    def of(self, one: Attempt | Event) -> Snapshot:
        snapshot = self
        for attempt in one.within.split("/") if one.within else ():
            snapshot = snapshot.children[attempt]
        return snapshot

    def entry(self, attempt: Attempt) -> Entry:
        return self.of(attempt).state.last(attempt.step.id)


def take_snapshot(
    store: DiskStore, opened: OpenSession, events: tuple[Event, ...] = ()
) -> Snapshot:
    """The open session as it is now; `events` led here."""
    manifest, state, directive = opened.manifest, opened.state, machine.directive(opened.state)
    policy, config, launches = opened.policy, opened.config, dict(opened.runtime.launches)
    notices, opened.notices = tuple(opened.notices), []
    return Snapshot(store, manifest, state, directive, events, policy, config, launches, notices)


def for_agents(snapshot: Snapshot) -> tuple[Attempt, ...]:
    """Those of the running attempts that the client's agents carry out."""
    return tuple(attempt for attempt in _to_run(snapshot) if attempt.step.by_client)


def for_us(snapshot: Snapshot) -> tuple[Attempt, ...]:
    """Those that this program carries out itself, if need be by an agent that the step names: the
    checks that are due, and running attempts."""
    directive = snapshot.directive
    if isinstance(directive, Check):
        return directive.members
    return tuple(attempt for attempt in _to_run(snapshot) if not attempt.step.by_client)


def _to_run(snapshot: Snapshot) -> tuple[Attempt, ...]:
    return snapshot.directive.members if isinstance(snapshot.directive, Run) else ()


def running(snapshot: Snapshot) -> tuple[Attempt, ...]:
    """The attempts that are launched, have not returned, and do not wait at a gate."""
    run = at_work(snapshot.directive)
    return run.members if run is not None else ()


def at_work(directive: Directive) -> Run | None:
    """The running attempts, also while a gate is open."""
    if isinstance(directive, Run):
        return directive
    return directive.meanwhile if isinstance(directive, Ask) else None


def due_children(snapshot: Snapshot) -> bool:
    """True if a child session is to be created, or its end to be journaled: `advance` does that."""
    return any(attempt.step.has_child for attempt in running(snapshot))


def arg_values(snapshot: Snapshot, step: Step) -> dict[str, str]:
    """The values of the references in a step: each declared arg, and the step's item."""
    return snapshot.state.playbook.values(snapshot.manifest.args, step)
