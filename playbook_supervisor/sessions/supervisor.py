"""The supervisor of a session: it asks the kernel what is due, and answers every `Check` itself.

A driver asks for a snapshot, carries out its directive, and reports. Every call takes the lock,
journals what it learned before anything else happens, and returns the snapshot that follows.

A step can be a playbook of its own, which a child session runs. The supervisor supervises it, too:
what it returns is one snapshot of the whole tree, and a call that names an attempt or a gate of a
child goes to the child. `tree.py` has what concerns several sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.kernel.directives import (
    Answered,
    Asked,
    Attempt,
    Begun,
    Cancellation,
    Cancelled,
    Check,
    Lost,
    Outcome,
    Returned,
    TakenUp,
)
from playbook_supervisor.kernel.vocabulary import GateReason, Resolution, SessionStatus
from playbook_supervisor.sessions.judge import SPECKIT, Judge
from playbook_supervisor.sessions.manifest import Driver
from playbook_supervisor.sessions.session import OpenSession
from playbook_supervisor.sessions.snapshot import Snapshot, due_children, running, take_snapshot
from playbook_supervisor.system.process_groups import kill_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.config import Config
    from playbook_supervisor.sessions.principal import Principal
    from playbook_supervisor.sessions.work import Work


class Supervisor(Judge):
    """Supervises a session of one worktree, and its children. Never talks to people or agents."""

    # ── what drivers call ───────────────────────────────────────────────────────────────────

    def look(self) -> Snapshot:
        """What is outstanding now, with nothing answered and nothing launched."""
        with self.store.open(self.id) as opened:
            own = take_snapshot(self.store, opened)
        return self._seen(own)

    def hold(self) -> None:
        """Drive the session and its children alone from here on (`DiskStore.hold`)."""
        self.held = True
        self.store.hold(self.id)

    def remember(self, driver: Driver) -> Snapshot:
        """Note how the session is driven, so that `resume` needs no arguments; then as `look`."""
        with self.store.open(self.id) as opened:
            if opened.manifest.driver != driver:
                opened.write(driver)
            own = take_snapshot(self.store, opened)
        return self._seen(own)

    def end_workers(self) -> None:
        """End the workers that a dead driver left running."""
        for attempt in running(self.look()):
            kill_worker(self.worker_file(attempt))

    def advance(self) -> Snapshot:
        """What is outstanding now; checks that are due are answered first."""
        return self._went_on(self._advance())

    def begin(self, start: str = "") -> Snapshot:
        """Begin a pending session, at a later step if a person asked for it (`--from`).

        A person may have asked for it when the session was created, in a process that died.
        """
        from playbook_supervisor.sessions import principal

        def begun(opened: OpenSession) -> Begun:
            now = self.store.clock()
            first, playbook = start or opened.manifest.driver.start, opened.playbook
            opened.policy.admit_start(playbook, first, lambda: principal.local(self.root).name)
            above = self.store.journal(self.parent.id).begun if self.parent else None
            self._record_begin(opened, now, above)
            return Begun(now, first)

        return self._went_on(self._advance(begun))

    def report(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """A worker came back. Its outcome is journaled before anything is judged."""
        if "/" in attempt_id:
            self._below(attempt_id, lambda child, own_id: child.report(own_id, outcome))
            return self.advance()
        back = Returned(self.store.clock(), attempt_id, outcome)
        return self._went_on(self._advance(lambda _: back))

    def note_return(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """As `report`, but nothing is judged or launched yet."""
        if "/" in attempt_id:
            self._below(attempt_id, lambda child, own_id: child.note_return(own_id, outcome))
            return self.look()
        return self._seen(self._record(Returned(self.store.clock(), attempt_id, outcome)))

    def asked(self, attempt_id: str, reason: GateReason, request: Mapping[str, object]) -> Snapshot:
        """A running attempt's agent asks a person, and waits: the gate is journaled.

        `request` is what it asks for, as the gate keeps it: plain data, harmless, without secrets.
        """
        if "/" in attempt_id:
            self._below(attempt_id, lambda child, own_id: child.asked(own_id, reason, request))
            return self.look()
        return self._seen(self._record(Asked(self.store.clock(), attempt_id, reason, request)))

    def answer(
        self,
        gate_id: str,
        resolution: Resolution,
        text: str,
        by: Principal,
        at: int | None = None,
    ) -> Snapshot:
        """A human decided at a gate, now or at a former time; call `advance` for what follows.

        PolicyError PB-POLICY-ANSWER, and the gate stays open, where a policy does not let `by`
        answer.
        """
        if "/" in gate_id:
            self._below(
                gate_id, lambda child, own_id: child.answer(own_id, resolution, text, by, at)
            )
            return self.look()
        now = self.store.clock()
        when = now if at is None else min(at, now)
        answered = Answered(when, gate_id, resolution, text, by.name, by.via, by.role)
        return self._seen(self._record(answered))

    def abort(self, text: str, by: Principal) -> Snapshot:
        """End the session and its children; a failed one is taken up first, without a run."""
        snapshot = self.look()
        if snapshot.children:
            from playbook_supervisor.sessions import tree

            tree.abort_children(self, snapshot, text, by)
        now = self.store.clock()
        first = [TakenUp(now)] if snapshot.manifest.status is SessionStatus.FAILED else []
        end = Cancelled(now, Cancellation.ABORT, text, by.name)
        return self._seen(self._record(*first, end, anywhere=True))

    def interrupt(self, *, commits: bool = True) -> Snapshot:
        """Settle what runs as interrupted; the session stays open. `commits`: also commit it."""
        snapshot = self.look()
        for place in snapshot.children:
            self.tell(place, self.child(place).interrupt(commits=commits))
        cancelled = Cancelled(self.store.clock(), Cancellation.INTERRUPT)
        return self._seen(self._record(cancelled, commits=commits, anywhere=True))

    def close(self) -> Snapshot:
        """The last snapshot of a session that has ended; commits and pushes what is still due."""
        from playbook_supervisor.sessions import publishing

        return publishing.closed(self.advance(), timeout=self._git_timeout)

    def keep_proof(self, made: str) -> str:
        """Keep what a person has proved by hand, as JSON; its evidence, empty for anything else."""
        import json

        from playbook_supervisor.project.checks import Proof
        from playbook_supervisor.sessions.proofs import SessionProofs

        try:
            proof = Proof(**json.loads(made))
        except (ValueError, TypeError):
            return ""
        SessionProofs(self.store, self.id).keep(proof)
        return proof.evidence

    def take_up(self) -> Snapshot:
        """Resume a failed session: its failed steps run again, a failed child as a new one."""
        return self._went_on(self._advance(lambda _: TakenUp(self.store.clock())))

    def lose(self, attempt: Attempt) -> Snapshot:
        """A launched attempt's worker has gone: its postconditions say whether it had finished."""
        if attempt.within:
            from playbook_supervisor.sessions import tree

            tree.below(self, attempt.id, lambda child, _: child.lose(tree.inner(attempt)))
            return self.advance()
        from playbook_supervisor.sessions import evidence, session_branch

        with self.store.open(self.id) as opened:
            session_branch.admit(self.store, opened, Lost(self.store.clock(), attempt.id, False))
            workspace = self._workspace(opened, self._checkout())
            known = opened.runtime.launches.get(attempt.id)
        # Its postconditions may start programs, so the lock is not held meanwhile.
        checking, done = self._checking if self.runs_checks else None, False
        with suppress(TimeoutError), self._looking():
            ahead = self.store.clock.ahead
            done = evidence.had_finished(attempt, workspace, known, checking, ahead)
        lost = Lost(self.store.clock(), attempt.id, done)
        return self._went_on(self._advance(lambda _: lost))

    # ── what a worker needs ─────────────────────────────────────────────────────────────────

    def worker_file(self, attempt: Attempt) -> Path:
        """The file that every process of the attempt's worker inherits, open and locked."""
        return self.of(attempt).private / f"worker-{attempt.own_id}"

    def require_known(self, attempt_id: str) -> None:
        """StateError PB-STATE-REFUSED for an attempt that never began, here or in a child."""
        from playbook_supervisor.sessions import tree

        tree.require_known(self, attempt_id)

    def place_of(self, attempt_id: str) -> tuple[Path, str] | None:
        """The local folder of the attempt's session, and its id there; None if that has ended."""
        *places, own_id = attempt_id.split("/")
        found = self
        try:
            for place in places:
                found = found.child(place)
        except StateError:
            return None
        return found.private, own_id

    def log_file(self, attempt: Attempt) -> Path:
        """The log of the attempt."""
        from playbook_supervisor.sessions.attempt_log import log_path

        return log_path(self.of(attempt).private, attempt.own_id)

    def work(self, snapshot: Snapshot, attempt: Attempt) -> Work:
        """What the attempt's worker is given."""
        from playbook_supervisor.sessions.work import work_of

        return work_of(self.root, snapshot.of(attempt), attempt, self.input_of(attempt))

    def input_of(self, attempt: Attempt) -> str:
        """What the attempt reads of an earlier step's output; StepError PB-STEP-DATA."""
        if not attempt.step.stdin:
            return ""
        from playbook_supervisor.sessions import step_data

        with self.store.open(self.of(attempt).id) as opened:
            return step_data.input_of(opened, attempt.step)

    def environment(self, snapshot: Snapshot, work: Work) -> dict[str, str]:
        """Variables that point the project's own tools at the session's feature."""
        if not work.attempt.step.command.startswith(SPECKIT):
            return {}
        return self._point_speckit(self._workspace(snapshot.of(work.attempt), self._checkout()))

    @property
    def config(self) -> Config:
        """The settings that the session runs under."""
        with self.store.open(self.id) as opened:
            return opened.config

    def changed(self) -> bool:
        """Whether another process has written the session since this one last looked."""
        return self.store.changed(self.id) or any(
            child.changed() for child in self.children.values()
        )

    def delay(self, snapshot: Snapshot) -> float:
        """How many seconds a retry that is due next still waits; 0 for none."""
        if isinstance(snapshot.directive, Check):
            return self._delay(snapshot.of(snapshot.directive.members[0]).state)
        waits = (self.delay(child) for child in snapshot.children.values())
        return min((wait for wait in waits if wait), default=0.0)

    # ── the whole tree ──────────────────────────────────────────────────────────────────────

    @property
    def top(self) -> Supervisor:
        """The supervisor of the session that a person began."""
        return self.parent.top if self.parent else self

    def of(self, attempt: Attempt) -> Supervisor:
        """The supervisor of the session whose attempt it is: this one, or a child's."""
        found = self
        for place in attempt.within.split("/") if attempt.within else ():
            found = found.child(place)
        return found

    def child(self, place: str) -> Supervisor:
        """The supervisor of the session that works for an attempt of this one that is under way.

        StateError PB-STATE-REFUSED if there is none.
        """
        if place not in self.children:
            from playbook_supervisor.sessions import tree

            self.children[place] = tree.child_at(self, place)
        return self.children[place]

    def family(self) -> Iterator[Supervisor]:
        """This one, and the supervisors of the children that are under way."""
        yield self
        for child in self.children.values():
            yield from child.family()

    def _below(self, path: str, act: Callable[[Supervisor, str], Snapshot]) -> None:
        from playbook_supervisor.sessions import tree

        tree.below(self, path, act)

    def _seen(self, own: Snapshot) -> Snapshot:
        """The snapshot of the whole tree, from that of this session alone."""
        if not (due_children(own) or self.untold.events):
            return own
        from playbook_supervisor.sessions import tree

        return tree.seen(self, own)

    def _went_on(self, own: Snapshot) -> Snapshot:
        """As `_seen`, after what is due in the children is done."""
        if not (due_children(own) or self.untold.events):
            return own
        from playbook_supervisor.sessions import tree

        return tree.gone_on(self, own)

    def copy(self) -> None:
        """Keep copies of the files in the git directory, those of the children too.

        A worker may be removing the folder at this moment, as `git switch` does: the next call
        then restores it.
        """
        for each in self.family():
            with suppress(StorageError), each.store.open(each.id) as opened:
                opened.copy()
