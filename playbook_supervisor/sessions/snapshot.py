"""What is outstanding in a session, and what a worker needs to do its part of it."""

from __future__ import annotations

from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import Ask, Attempt, Directive, Run
from playbook_supervisor.kernel.state import Change, Entry, Event, State
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project.session_policy import Policy
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions import session
from playbook_supervisor.sessions.manifest import Manifest
from playbook_supervisor.sessions.session import OpenSession

_NONE = Policy()


class Work(Record):
    """One launched attempt, ready for a worker: the installed command and its arguments."""

    attempt: Attempt
    command: str
    args: str

    @property
    def typed(self) -> str:
        """What a person would type."""
        return f"{self.command} {self.args}".rstrip()

    @property
    def skill(self) -> str:
        """The command's name as the client's `Skill` tool wants it."""
        return self.command[1:]

    @property
    def prompt(self) -> str:
        """What a fresh subagent is told: the command as by hand, and nothing beside it (FR41)."""
        args = f" with args `{self.args}`" if self.args else ""
        return f"Run the Skill `{self.skill}`{args}, first, then follow it to its end."


class Snapshot(Record):
    """What is outstanding in a session, and how far it is. `events` led here, oldest first.

    `policy` is what the session's project asks of it beyond the playbook.
    `notices` are sentences for the person: what was restored or committed, what is worth a warning.
    """

    manifest: Manifest
    state: State
    directive: Directive
    events: tuple[Event, ...] = ()
    notices: tuple[str, ...] = ()
    policy: Policy = _NONE

    @property
    def done(self) -> int:
        """How many steps are done or skipped."""
        return machine.steps_done(self.state)

    @property
    def total(self) -> int:
        """How many steps the playbook has."""
        return len(self.state.playbook.steps)

    @property
    def question(self) -> str:
        """The question of the gate that is asked; empty where none is."""
        asked = self.directive
        return session.question(self.state, asked) if isinstance(asked, Ask) else ""

    @property
    def answered_by(self) -> tuple[str, ...]:
        """Who may answer the gate that is asked, a policy each; empty where anybody may."""
        asked = self.directive
        if not isinstance(asked, Ask):
            return ()
        return tuple(
            f"{' or '.join(demand.answered_by)} (policy {demand.policy})"
            for demand in self.policy.people(asked.member.step.id)
        )

    @property
    def pending(self) -> bool:
        """Whether the session has not begun."""
        return self.manifest.status is SessionStatus.PENDING

    @property
    def repeated(self) -> bool:
        """Whether the directive is work that had been handed out before."""
        launched = {event.entry.id for event in self.events if event.change is Change.LAUNCHED}
        return any(member.id not in launched for member in running(self))

    def without_events(self) -> Snapshot:
        """The same, where nothing new has led to it."""
        return replace(self, events=(), notices=())

    def after(self, earlier: Snapshot) -> Snapshot:
        """The same, with what had happened in an earlier outlook told first."""
        return replace(
            self,
            events=(*earlier.events, *self.events),
            notices=(*earlier.notices, *self.notices),
        )

    def entry(self, attempt: Attempt) -> Entry:
        """The entry of an attempt of the due phase."""
        return self.state.last(attempt.step.id)


def outlook(opened: OpenSession, events: tuple[Event, ...] = ()) -> Snapshot:
    """The outlook of a session as it stands; `events` led here."""
    asked = machine.directive(opened.state)
    return Snapshot(opened.manifest, opened.state, asked, events, policy=opened.policy)


def running(outlook: Snapshot) -> tuple[Attempt, ...]:
    """The attempts that are launched and have not returned."""
    return outlook.directive.members if isinstance(outlook.directive, Run) else ()
