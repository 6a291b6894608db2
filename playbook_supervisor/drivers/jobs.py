"""The jobs of worker threads, one for an attempt: an agent's call, or a task for an executor."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.agents import protocol as agents
from playbook_supervisor.agents.protocol import Agent, Budget, Call, Reply, Request
from playbook_supervisor.drivers.budget import remaining
from playbook_supervisor.errors import PlaybookError, StepError
from playbook_supervisor.executors import registry
from playbook_supervisor.executors.protocol import (
    CAP,
    Context,
    Executor,
    Place,
    Task,
    carry_out,
    failed,
    of_error,
)
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.answers import words_of
from playbook_supervisor.kernel.directives import Attempt, Outcome
from playbook_supervisor.kernel.model import Limits, Step
from playbook_supervisor.kernel.state import INTERRUPTED, Entry, Gate
from playbook_supervisor.kernel.tools import always_allowed
from playbook_supervisor.kernel.vocabulary import Place as GatePlace
from playbook_supervisor.project.commit_files import COMMIT
from playbook_supervisor.project.expressions import references
from playbook_supervisor.project.settings import isolation
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.settings.secrets import of_step
from playbook_supervisor.records import as_mapping, replace
from playbook_supervisor.sessions.store.session_changes import before
from playbook_supervisor.sessions.store.snapshot import Snapshot, arg_values, at_work
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.disk.files import contained, ensure_folder
from playbook_supervisor.system.disk.log_file import put
from playbook_supervisor.system.git import checkout, git_unattended
from playbook_supervisor.system.isolation.profiles import output_folders


@dataclass(frozen=True, slots=True)
class Channels:
    """Where a job's lines go: to the log, to the screen, and, if they are notices, there.

    `on_start` receives what stops the job, from any thread. `ask` puts a request of the agent to a
    person and waits for the reply; None if it is put off.
    """

    log: Callable[[str], None]
    on_line: Callable[[str], None]
    on_notice: Callable[[str], None]
    on_start: Callable[[Callable[[], None]], None]
    ask: Callable[[Request], Reply | None]


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt, ready for a thread. `crashed` makes the outcome of an error of `run`."""

    run: Callable[[Channels], Outcome]
    crashed: Callable[[Exception], Outcome]
    worker_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """An attempt that is due. `run_limits` are the whole run's; `secrets` are never shown.

    `ends`: its processes end with the runner, whatever the settings say.
    """

    tree: SessionTree
    snapshot: Snapshot
    attempt: Attempt
    run_limits: Limits
    secrets: tuple[str, ...] = field(repr=False)
    ends: bool = False

    @property
    def session(self) -> Snapshot:
        """The attempt's own session, which may be a child of the one that is driven."""
        return self.snapshot.of(self.attempt)

    @property
    def limits(self) -> Limits:
        """Those that a person gave to the run, else of the step, else of the playbook."""
        limits = as_mapping(self.session.state.playbook.limits)
        for nearer in (self.attempt.step.limits, self.run_limits):
            limits |= {name: each for name, each in as_mapping(nearer).items() if each is not None}
        return Limits(**limits)

    @property
    def cap(self) -> int:
        """Bytes of output to keep."""
        cap = self.limits.max_output_bytes
        return CAP if cap is None else cap

    @property
    def outlives(self) -> bool:
        return self.session.config.orphans == "wait" and not self.ends


Choose = Callable[[Step, Config], Agent]
"""The agent of a step under these settings. PlaybookError if there is none."""


def job_of(assignment: Assignment, choose: Choose, limits: Budget, *, continues: bool) -> Job:
    """The job of the attempt. `limits` are the whole run's.

    `continues`: an agent goes on with the conversation in which it asked, if that is to be had.
    """
    attempt = assignment.attempt
    if not attempt.step.needs_agent:
        return executor_job(assignment)
    budget = remaining(limits, assignment.tree, assignment.snapshot, attempt)
    try:
        agent = choose(attempt.step, assignment.snapshot.config)
    except PlaybookError as error:  # for instance, the settings of now lack it
        missing = agents.failed(
            "PB-AGENT-NONE",
            error.message,
            name=attempt.step.agent,
            guidance=error.guidance,
            cause=error.code,
        )
        return Job(lambda _: missing, lambda _: missing)
    try:
        call = _call(assignment, budget, continues=continues)
    except PlaybookError as error:
        outcome = without_prompt(error, agent.name)
        return Job(lambda _: outcome, lambda _: outcome)
    may_ask = assignment.session.config.permissions == "ask" and agents.asks(agent)

    def run(channels: Channels) -> Outcome:
        outcome = agents.carry_out(
            agent,
            replace(call, log=channels.log, ask=channels.ask if may_ask else None),
            channels.on_line,
            on_start=lambda running: channels.on_start(running.stop),
            on_notice=channels.on_notice,
        )
        _follow_pushed(assignment)
        return outcome

    def crashed(error: Exception) -> Outcome:
        message = f"the agent {agent.name} raised {type(error).__name__}: {error}"
        return agents.failed("PB-AGENT-CRASHED", printable(message), name=agent.name)

    return Job(run, crashed, call.worker_file)


def _follow_pushed(assignment: Assignment) -> None:
    if assignment.session.config.isolation.mode != "none":
        with suppress(PlaybookError):
            git_unattended.follow_pushed(checkout.find(assignment.tree.root))


def can_continue(assignment: Assignment, choose: Choose) -> bool:
    """True if the attempt has asked a person and has the answer, and its agent can go on with the
    conversation."""
    run = at_work(assignment.snapshot.directive)
    if run is None or assignment.attempt.id not in run.continues:
        return False
    with suppress(PlaybookError):
        agent = choose(assignment.attempt.step, assignment.snapshot.config)
        return agents.can_continue(agent, _call(assignment, Budget(), continues=True))
    return False


def _call(assignment: Assignment, budget: Budget, *, continues: bool) -> Call:
    tree, snapshot, attempt = assignment.tree, assignment.snapshot, assignment.attempt
    limits, state = assignment.limits, assignment.session.state
    work, written = tree.work(snapshot, attempt), isolation.written(attempt.step)
    for folder in output_folders(tree.root, written):  # not every agent makes one for its file
        ensure_folder(contained(tree.root, str(folder.relative_to(tree.root))))
    attempts = state.attempts(attempt.step.id)
    return Call(
        session=tree.id,
        directive=attempt.id,
        step=attempt.step.id,
        attempt=attempt.number,
        command=work.command,
        args=work.args,
        feature=assignment.session.manifest.feature,
        prompt=work.typed,
        feedback=work.feedback,
        tools=work.tools,
        cwd=tree.root,
        model=attempt.step.model,
        env=tree.environment(snapshot, work),
        worker_file=tree.worker_file(attempt),
        outlives=assignment.outlives,
        isolation=isolation.of_step(assignment.session.config, tree.root, written),
        wall=limits.timeout_seconds,
        idle=limits.idle_timeout_seconds,
        cap=assignment.cap,
        budget=budget,
        secrets=assignment.secrets,
        replies=_replies(attempts, continues=continues),
        conversation=_conversation(attempts[-1]) if continues else "",
        allowed_rules=always_allowed(state),
        forbidden_rules=assignment.session.policy.forbidden(attempt.step.id),
        spent=_spent(attempts[-1]) if continues else 0.0,
    )


def without_prompt(error: PlaybookError, agent: str) -> Outcome:
    """The outcome of a step whose prompt cannot be made, for the agent of that name."""
    return agents.failed(
        error.code if isinstance(error, StepError) else "PB-AGENT-PROMPT",
        error.message,
        name=agent,
        guidance=error.guidance,
        cause=error.code,
    )


# ── what people have answered, as the journal has it ─────────────────────────────────────────


def reply_of(gate: Gate) -> Reply | None:
    """The reply to the agent at this gate; None while it is open."""
    if gate.resolution is None:
        return None
    return Reply(gate.resolution, words_of(gate.text, gate.resolution))


def _replies(attempts: Sequence[Entry], *, continues: bool) -> dict[str, Reply]:
    """Digest of a request → the reply, where it may not have reached the agent.

    `attempts` are those of the step, oldest first; the last is about to run. One that `continues`
    its conversation may lack the last answer alone, for an agent waits for each. A new one begins
    again, so it lacks the answers of all attempts that were broken off right before it.
    """
    last = attempts[-1]
    if continues:
        return _by_digest(_during(last)[-1:])
    lost: list[Gate] = [*_during(last)]
    for former in reversed(attempts[:-1]):
        if former.error_code != INTERRUPTED:
            break
        lost = [*_during(former), *lost]
    return _by_digest(lost)


def _conversation(entry: Entry) -> str:
    gates = _during(entry)
    return str(gates[-1].request.get("conversation", "")) if gates else ""


def _spent(entry: Entry) -> float:
    """The seconds that the attempt had run when it asked last; the time at gates does not count."""
    gates = _during(entry)
    if not gates or entry.launched_at is None:
        return 0.0
    waited = sum((gate.answered_at or gate.opened_at) - gate.opened_at for gate in gates[:-1])
    return max(0, gates[-1].opened_at - entry.launched_at - waited) / 1000


def _during(entry: Entry) -> list[Gate]:
    return [gate for gate in entry.gates if gate.place is GatePlace.DURING]


def _by_digest(gates: Sequence[Gate]) -> dict[str, Reply]:
    found = ((str(gate.request.get("digest", "")), reply_of(gate)) for gate in gates)
    return {digest: reply for digest, reply in found if digest and reply is not None}


# ── executors ───────────────────────────────────────────────────────────────────────────────


def executor_job(assignment: Assignment) -> Job:
    """The job of an executor's step; its task is made in the thread, for that may take a while."""
    worker_file = assignment.tree.worker_file(assignment.attempt)
    stdin = _stdin(assignment)

    def run(channels: Channels) -> Outcome:
        put(worker_file, b"", 0)  # shows that the attempt was begun
        try:
            executor, task, place = _prepared(assignment, worker_file, stdin)
        except PlaybookError as error:
            return of_error(error)
        context = Context(place, channels.on_line, channels.log, channels.on_notice)
        channels.on_start(context.stop)
        outcome = carry_out(executor, task, context)
        _follow_pushed(assignment)
        return outcome

    return Job(run, _crashed, worker_file)


def _crashed(error: Exception) -> Outcome:
    message = f"the step's job raised {type(error).__name__}: {error}"
    return failed("PB-STEP-CRASHED", printable(message))


def _stdin(assignment: Assignment) -> str | StepError:
    """The step's input from an earlier one; read here, for only this thread opens the session."""
    try:
        return assignment.tree.input_of(assignment.attempt)
    except StepError as error:
        return error


def _prepared(
    assignment: Assignment, worker_file: Path, stdin: str | StepError
) -> tuple[Executor, Task, Place]:
    if isinstance(stdin, StepError):
        raise stdin
    tree, snapshot = assignment.tree, assignment.session
    step, limits = assignment.attempt.step, assignment.limits
    values = arg_values(snapshot, step)
    args, config = snapshot.state.playbook.args, snapshot.config
    secrets = of_step(step, args, values, config, tree.root)
    hidden = (*assignment.secrets, *secrets.hidden)
    env = {
        "PLAYBOOK_SESSION": tree.id,
        "PLAYBOOK_STEP": step.id,
        "PLAYBOOK_DIRECTIVE": assignment.attempt.id,
        "PLAYBOOK_FEATURE": snapshot.manifest.feature,
    }
    task = Task(
        directive=assignment.attempt.id,
        namespace=step.namespace,
        words=references.words(step.command, values),
        options=references.fill(json.loads(step.options or "{}"), values, secrets.values),
        stdin=stdin,
        output=step.output,
        owner=snapshot.state.playbook.owner,
        reviewers=snapshot.state.playbook.reviewers,
        env=env,
        before=before(tree.store, tree.id) if step.namespace == COMMIT else None,
        also=step.also,
        secrets=hidden,
    )
    place = Place(
        root=tree.root,
        cwd=contained(tree.root, references.interpolate(step.cwd, values)),
        config=config,
        env=env,
        cap=assignment.cap,
        wall=limits.timeout_seconds,
        idle=limits.idle_timeout_seconds,
        worker_file=worker_file,
        outlives=assignment.outlives,
        outputs=isolation.written(step),
        secrets=hidden,
    )
    return registry.find(step.namespace), task, place
