"""The supervisor of one session: it asks the kernel what is due, and answers every `Check` itself.

A driver asks for a snapshot, carries out its directive, and reports. Every call takes the lock,
journals what it learned before anything else happens, and returns the snapshot that follows.
"""

from __future__ import annotations

from contextlib import suppress

from playbook_supervisor.kernel.directives import (
    Answered,
    Attempt,
    Begun,
    Cancellation,
    Cancelled,
    Lost,
    Outcome,
    Returned,
    TakenUp,
)
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.sessions.judge import SPECKIT, Judge
from playbook_supervisor.sessions.manifest import Driver
from playbook_supervisor.sessions.session import OpenSession
from playbook_supervisor.sessions.snapshot import Snapshot, running, take_snapshot
from playbook_supervisor.system.process_groups import kill_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.config import Config
    from playbook_supervisor.sessions.principal import Principal
    from playbook_supervisor.sessions.work import Work


class Supervisor(Judge):
    """Supervises one session of one worktree. Never talks to people or agents."""

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
        returned = Returned(self.store.clock(), attempt_id, outcome)
        return self._advance(lambda _: returned)

    def note_return(self, attempt_id: str, outcome: Outcome) -> Snapshot:
        """As `report`, but nothing is judged or launched yet."""
        return self._record(Returned(self.store.clock(), attempt_id, outcome))

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
        """Resume a failed session: its failed steps run again."""
        return self._advance(lambda _: TakenUp(self.store.clock()))

    def lose(self, attempt: Attempt) -> Snapshot:
        """A launched attempt's worker has gone: its postconditions say whether it had finished."""
        from playbook_supervisor.sessions import evidence

        with self.store.open(self.id) as opened:
            workspace = self._workspace(opened, self._checkout())
            known = opened.runtime.launches.get(attempt.id)
        # Its postconditions may start programs, so the lock is not held meanwhile.
        checking, done = self._checking if self.runs_checks else None, False
        with suppress(TimeoutError), self._looking():
            done = evidence.had_finished(attempt, workspace, known, checking)
        return self._advance(lambda _: Lost(self.store.clock(), attempt.id, done))

    # ── what a worker needs ─────────────────────────────────────────────────────────────────

    def work(self, snapshot: Snapshot, attempt: Attempt) -> Work:
        """What the attempt's worker is given."""
        from playbook_supervisor.sessions.work import work_of

        return work_of(self.root, snapshot, attempt, self.input_of(attempt))

    def input_of(self, attempt: Attempt) -> str:
        """What the attempt reads of an earlier step's output; StepError PB-STEP-DATA."""
        if not attempt.step.stdin:
            return ""
        from playbook_supervisor.sessions import step_data

        with self.store.open(self.id) as opened:
            return step_data.input_of(opened, attempt.step)

    def environment(self, snapshot: Snapshot, work: Work) -> dict[str, str]:
        """Variables that point the project's own tools at the session's feature."""
        if not work.attempt.step.command.startswith(SPECKIT):
            return {}
        return self._point_speckit(self._workspace(snapshot, self._checkout()))

    @property
    def config(self) -> Config:
        """The settings that the session runs under."""
        with self.store.open(self.id) as opened:
            return opened.config

    def changed(self) -> bool:
        """Whether another process has written the session since this one last looked."""
        return self.store.changed(self.id)
