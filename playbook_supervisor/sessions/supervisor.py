"""The pump: replay, answer every `Check` ourselves, and stop at what the outside must do.

A driver asks for the outlook, carries out its directive, and reports. Every call takes the lock,
journals what it learned before anything else happens, and answers with the outlook that follows.
"""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.errors import CODES
from playbook_supervisor.formats.sanitize import first_line
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
from playbook_supervisor.kernel.state import Change, Entry, Event
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.project import config
from playbook_supervisor.project.references import interpolate
from playbook_supervisor.records import replace
from playbook_supervisor.sessions import publishing
from playbook_supervisor.sessions.local_state import Launch, Runtime
from playbook_supervisor.sessions.manifest import Manifest
from playbook_supervisor.sessions.session import OpenSession
from playbook_supervisor.sessions.snapshot import Snapshot, Work, running
from playbook_supervisor.sessions.snapshot import outlook as outlook_of
from playbook_supervisor.system import checkout
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.process_groups import kill_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.conditions import Workspace
    from playbook_supervisor.sessions.evidence import CheckInputs
    from playbook_supervisor.sessions.session_store import SessionStore

# What evidence needs is imported where there is a check to answer or a launch to record: `next`
# and `report` of most steps ask nothing of the world.
_SPECKIT = "/speckit"
_PATIENCE, _BRIEFLY = 120.0, 20.0  # seconds for git; a client waits half a minute for its hook
_LONGEST = 2_000  # characters of an error's text; a reviewer must not scroll past more


class Supervisor:
    """Drives one session of one worktree. Nothing here talks to a person or an agent.

    `exports` says whether the driver gives `environment` to its workers; `asks_the_world` whether
    it may wait for programs that conditions start (else such a check is left outstanding).
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        *,
        exports: bool = True,
        asks_the_world: bool = True,
    ) -> None:
        self.store = store
        self.exports = exports
        self.asks_the_world = asks_the_world
        self.id = session_id
        self.root = store.checkout.root
        self._config = config.load(self.root)

    # ── what the outside asks and answers ───────────────────────────────────────────────────

    def look(self) -> Snapshot:
        """What is outstanding now, with nothing answered and nothing launched."""
        with self.store.open(self.id) as opened:
            return outlook_of(opened, ())

    def remember(self, known: Runtime) -> None:
        """With what the session is driven, so that `resume` needs no arguments."""
        with self.store.open(self.id) as opened:
            opened.runtime.agent, opened.runtime.mode = known.agent, known.mode
            opened.runtime.limits = dict(known.limits)
            opened.save()

    def end_workers(self) -> None:
        """End what a driver that is gone has left running."""
        for attempt in running(self.look()):
            kill_worker(self.worker_file(attempt))

    def outlook(self) -> Snapshot:
        """What is outstanding now; checks that are due are answered first."""
        return self._pump()

    def begin(self, start: str = "") -> Snapshot:
        """Begin a pending session, at a later step if a person said so (`--from`)."""
        from playbook_supervisor.sessions import evidence

        with self.store.open(self.id) as opened:
            here = self._here()
            now = self.store.clock()
            opened.policy.admit_start(opened.playbook, start, self._identity)
            world = self._world(opened.manifest, here)
            opened.runtime.begun = evidence.begun(opened.playbook, world, here.head, now)
            events = self._accept(opened, Begun(now, start))
            opened.write()
        return self._pump(events=events)

    def report(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """A worker came back. What it brought is journaled before anything is judged."""
        return self._pump(Returned(self.store.clock(), attempt_id, _bounded(outcome)))

    def note_return(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """As `report`, but nothing is judged or launched yet."""
        return self._record(Returned(self.store.clock(), attempt_id, _bounded(outcome)))

    def answer(self, gate_id: str, resolution: Resolution, text: str, by: str) -> Snapshot:
        """A human decided at a gate; what follows is asked for by `outlook`.

        PolicyError PB-POLICY-ANSWER, and the gate stays open, where the policies do not let `by`.
        """
        return self._record(Answered(self.store.clock(), gate_id, resolution, text, by))

    def abort(self, text: str, by: str) -> Snapshot:
        """A human ends the session."""
        return self._record(Cancelled(self.store.clock(), Cancellation.ABORT, text, by))

    def interrupt(self, *, commits: bool = True) -> Snapshot:
        """What runs is settled as interrupted; the session stays open. `commits`: git is told."""
        cancelled = Cancelled(self.store.clock(), Cancellation.INTERRUPT)
        return self._record(cancelled, commits=commits)

    def close(self) -> Snapshot:
        """What there is to say of a session that has ended; git is given what it is still owed."""
        outlook = self.outlook()
        return publishing.closed(self.store, outlook, self._config, patience=self._patience)

    def take_up(self) -> Snapshot:
        """A failed session is resumed: its failed steps run again."""
        return self._pump(TakenUp(self.store.clock()))

    def lose(self, attempt: Attempt) -> Snapshot:
        """A launched attempt's worker is gone: its postconditions say whether it had finished."""
        from playbook_supervisor.sessions import evidence

        with self.store.open(self.id) as opened:
            world = self._world(opened.manifest, self._here())
            known = opened.runtime.launches.get(attempt.id)
        done = evidence.had_finished(attempt.step, world, known)
        return self._pump(Lost(self.store.clock(), attempt.id, done))

    # ── what a worker needs ─────────────────────────────────────────────────────────────────

    def work(self, outlook: Snapshot, attempt: Attempt) -> Work:
        """The attempt's installed command and interpolated arguments (kai FR23)."""
        from playbook_supervisor.project.slash_commands import resolve

        found = resolve(self.root, attempt.step.command, home=Path.home())
        args = outlook.manifest.args
        values = {arg.name: args.get(arg.name, "") for arg in outlook.state.playbook.args}
        command = found.name if found else attempt.step.command
        return Work(attempt, command, interpolate(attempt.step.args, values).strip())

    def environment(self, outlook: Snapshot, work: Work) -> dict[str, str]:
        """Variables that make the project's own tools look at the session's feature."""
        if not work.attempt.step.command.startswith(_SPECKIT):
            return {}
        feature = self._world(outlook.manifest, self._here()).feature
        return self._point_speckit(feature)

    @property
    def private(self) -> Path:
        """The session's folder in the git directory."""
        return self.store.runtime(self.id)

    def changed(self) -> bool:
        """Whether another process has written the session since this one last looked."""
        return self.store.changed(self.id)

    def context(self, outlook: Snapshot, last_words: str = "") -> tuple[str, ...]:
        """What helps to answer the gate that is asked, made when it is shown (kai FR24).

        The evidence, the agent's last line as far as it is known (`last_words`, else what the
        journal keeps of its output), and `git diff --stat` since the launch.
        """
        asked = outlook.directive
        if not isinstance(asked, Ask):
            return ()
        from playbook_supervisor.system.git_process import diff_stat

        entry = outlook.entry(asked.member)
        lines = [f"answered by: {people}" for people in outlook.answered_by]
        lines += entry.evidence
        if said := last_words or entry.output:
            lines.append(f"the agent said: {said}")
        if entry.error_guidance not in ("", CODES.get(entry.error_code)):  # its own
            lines.append(f"to mend it: {entry.error_guidance}")
        if (launch := self._launched(entry)) and launch.head:
            lines += diff_stat(self.root, launch.head, since_ms=launch.at)
        return tuple(lines)

    def worker_file(self, attempt: Attempt) -> Path:
        """The file that every process of the attempt's worker inherits, open and locked."""
        return self.private / f"worker-{attempt.id}"

    def _launched(self, entry: Entry) -> Launch | None:
        """What was known when the attempt was launched, if it was, from here."""
        with self.store.open(self.id) as opened:
            return opened.runtime.launches.get(entry.id)

    # ── the pump ────────────────────────────────────────────────────────────────────────────

    def _record(self, observation: Observation, *, commits: bool = True) -> Snapshot:
        with self.store.open(self.id) as opened:
            events = self._accept(opened, observation)
            opened.write()
            outlook = outlook_of(opened, events)
        return self._published(outlook) if commits else outlook

    def _published(self, outlook: Snapshot) -> Snapshot:
        """The same, once what has happened is in git as far as it is due there."""
        patience = self._patience
        return publishing.published(self.store, outlook, self._config, patience=patience)

    @property
    def _patience(self) -> float:
        """Seconds that git and its hooks may take."""
        return _PATIENCE if self.asks_the_world else _BRIEFLY

    def _pump(
        self, observation: Observation | None = None, events: tuple[Event, ...] = ()
    ) -> Snapshot:
        """Take an observation in and answer checks until something outward is due.

        A check that starts a program is answered without the lock: meanwhile somebody else may
        have answered it, and then what is due now counts.
        """
        with self.store.open(self.id) as opened:
            accepted = () if observation is None else self._accept(opened, observation)
            events += accepted + self._answer_checks(opened, brought=bool(accepted))
            outlook = outlook_of(opened, events)
            asked = outlook.directive
            asking = isinstance(asked, Check) and self.asks_the_world
            inquiry = self._inquiry(opened) if asking else None
        if inquiry is None or not isinstance(asked, Check):
            return self._published(outlook)
        from playbook_supervisor.sessions import evidence

        checked, failing = evidence.answer(asked, inquiry, self.store.clock())
        with self.store.open(self.id) as opened:
            if machine.directive(opened.state) == asked:
                opened.runtime.failing.update(failing)
                events += self._accept(opened, checked)
                opened.write()
        return self._pump(events=events)

    def _answer_checks(self, opened: OpenSession, *, brought: bool) -> tuple[Event, ...]:
        """Answer the checks that only look at files; what follows from them is one write.

        What was brought from outside is dear: it is on the disk before anything is looked at.
        """
        events: tuple[Event, ...] = ()
        while isinstance(asked := machine.directive(opened.state), Check):
            from playbook_supervisor.sessions import evidence

            if evidence.asks_the_world(asked):
                break
            if evidence.asks_nothing(asked):
                checked = evidence.nothing(asked, self.store.clock())
            else:
                if brought:
                    opened.write()
                    brought = False
                checked, failing = evidence.answer(asked, self._inquiry(opened), self.store.clock())
                opened.runtime.failing.update(failing)
            events += self._accept(opened, checked)
        if brought or events:
            opened.write()
        return events

    def _accept(self, opened: OpenSession, observation: Observation) -> tuple[Event, ...]:
        if observation.at < opened.manifest.started_at:  # the clock stepped back
            observation = replace(observation, at=opened.manifest.started_at)
        if isinstance(observation, Answered):
            asked = machine.directive(opened.state)
            if isinstance(asked, Ask) and asked.id == observation.id:
                opened.policy.admit(asked.member.step.id, observation.resolution, observation.by)
                from playbook_supervisor.sessions import evidence

                entry = opened.entry(asked.member.id)
                evidence.answered(opened.runtime, entry, observation.resolution)
        events = machine.decide(opened.state, observation)
        launched = [event.entry for event in events if event.change is Change.LAUNCHED]
        if launched:
            from playbook_supervisor.sessions import evidence

            here = self._here()
            world = self._world(opened.manifest, here)
            steps = [opened.playbook.step(entry.step_id) for entry in launched]
            if any(step.command.startswith(_SPECKIT) for step in steps):
                self._point_speckit(world.feature)  # or refuse, before anything is launched
            for entry, step in zip(launched, steps, strict=True):
                at = entry.launched_at or entry.started_at
                opened.runtime.launches[entry.id] = evidence.launch(step, world, here.head, at)
        opened.accept(events)
        return events

    def _point_speckit(self, feature: str) -> dict[str, str]:
        from playbook_supervisor.project import features

        exported = self.exports
        return dict(features.point_speckit(self.root, feature, self._config, exported=exported))

    def _inquiry(self, opened: OpenSession) -> CheckInputs:
        from playbook_supervisor.sessions.evidence import CheckInputs

        launched = {
            entry.id: entry.launched_at or entry.started_at for entry in opened.state.entries
        }
        world = self._world(opened.manifest, self._here())
        return CheckInputs(world, opened.runtime, opened.manifest.started_at, launched)

    def _here(self) -> Checkout:
        """The checkout as it is now: steps may commit and switch branches."""
        return checkout.again(self.store.checkout)

    def _identity(self) -> str:
        from playbook_supervisor.system.git_process import identity

        return identity(self.root)

    def _world(self, manifest: Manifest, here: Checkout) -> Workspace:
        """Where conditions look."""
        from playbook_supervisor.project import features
        from playbook_supervisor.project.conditions import Workspace

        feature = manifest.feature or features.of_branch(here.branch)
        return Workspace(self.root, feature, here.branch, self._config)


def _bounded(outcome: Outcome) -> Outcome:
    """The outcome as the journal keeps it: the output's first line, the error cut short."""
    outcome, error = replace(outcome, output=first_line(outcome.output)), outcome.error
    if error is None:
        return outcome
    message, guidance, cause = (
        text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        for text in (error.message, error.guidance, error.cause)
    )
    return replace(outcome, error=replace(error, message=message, guidance=guidance, cause=cause))
