"""What a worker thread does for one attempt: an agent's call, or a task for an executor."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.agents import protocol as agents
from playbook_supervisor.agents.protocol import Agent, Budget, Call, Reply, Request
from playbook_supervisor.drivers import answered
from playbook_supervisor.drivers.budget import remaining
from playbook_supervisor.errors import PlaybookError, StepError
from playbook_supervisor.executors import registry
from playbook_supervisor.executors.carry_out import carry_out, of_error
from playbook_supervisor.executors.context import CAP, Context, Place
from playbook_supervisor.executors.protocol import Executor, Task, failed
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Attempt, Outcome
from playbook_supervisor.kernel.model import Limits
from playbook_supervisor.kernel.tools import always_allowed
from playbook_supervisor.project import references
from playbook_supervisor.project.commit_files import COMMIT
from playbook_supervisor.project.secrets import of_step
from playbook_supervisor.records import Record, as_mapping, field, replace
from playbook_supervisor.sessions.session_changes import before
from playbook_supervisor.sessions.snapshot import Snapshot, arg_values
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system.files import contained
from playbook_supervisor.system.log_file import put


class Channels(Record):
    """Where a job's lines go: to the log, to the screen, and, if they are notices, there.

    `on_start` receives what stops the job, from any thread. `ask` puts a request of the agent to a
    person and waits for the reply; None if it is put off.
    """

    log: Callable[[str], None]
    on_line: Callable[[str], None]
    on_notice: Callable[[str], None]
    on_start: Callable[[Callable[[], None]], None]
    ask: Callable[[Request], Reply | None]


class Job(Record):
    """One attempt, ready for a thread. Every failure is an outcome.

    `crashed` makes the outcome of an error that `run` raised after all.
    """

    run: Callable[[Channels], Outcome]
    crashed: Callable[[Exception], Outcome]
    worker_file: Path | None = None


class Assignment(Record):
    """An attempt that is due. `run_limits` are the whole run's; `secrets` are never shown.

    `ends`: its processes end with the runner, whatever the settings say.
    """

    supervisor: Supervisor
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


def job_of(assignment: Assignment, agent: Agent | None, limits: Budget, *, continues: bool) -> Job:
    """The job of the attempt. `limits` are the whole run's; `continues` as for `agent_job`."""
    attempt = assignment.attempt
    if not attempt.step.needs_agent:
        return executor_job(assignment)
    assert agent is not None  # noqa: S101 - `commands.driving` chose one
    allowed = remaining(limits, assignment.supervisor, assignment.snapshot, attempt)
    return agent_job(assignment, agent, allowed, continues=continues)


def agent_job(
    assignment: Assignment, agent: Agent, budget: Budget, *, continues: bool = False
) -> Job:
    """The job of a step that an agent carries out within this budget.

    `continues`: in the conversation in which it asked a person, if that is to be had.
    """
    try:
        call = _call(assignment, budget, continues=continues)
    except PlaybookError as error:
        outcome = without_prompt(error, agent.name)
        return Job(lambda _: outcome, lambda _: outcome)
    may_ask = assignment.session.config.permissions == "ask" and agents.asks(agent)

    def run(channels: Channels) -> Outcome:
        return agents.carry_out(
            agent,
            replace(call, log=channels.log, ask=channels.ask if may_ask else None),
            channels.on_line,
            on_start=lambda running: channels.on_start(running.stop),
            on_notice=channels.on_notice,
        )

    def crashed(error: Exception) -> Outcome:
        message = f"the agent {agent.name} raised {type(error).__name__}: {error}"
        return agents.failed("PB-AGENT-CRASHED", printable(message), name=agent.name)

    return Job(run, crashed, call.worker_file)


def can_continue(assignment: Assignment, agent: Agent) -> bool:
    """Whether the agent can go on with the conversation in which the attempt asked a person."""
    with suppress(PlaybookError):
        return agents.can_continue(agent, _call(assignment, Budget(), continues=True))
    return False


def _call(assignment: Assignment, budget: Budget, *, continues: bool) -> Call:
    supervisor, snapshot, attempt = assignment.supervisor, assignment.snapshot, assignment.attempt
    limits, state = assignment.limits, assignment.session.state
    work = supervisor.work(snapshot, attempt)
    attempts = state.attempts(attempt.step.id)
    return Call(
        session=supervisor.id,
        directive=attempt.id,
        step=attempt.step.id,
        attempt=attempt.number,
        command=work.command,
        args=work.args,
        feature=assignment.session.manifest.feature,
        prompt=work.typed,
        feedback=work.feedback,
        tools=work.tools,
        cwd=supervisor.root,
        model=attempt.step.model,
        env=supervisor.environment(snapshot, work),
        worker_file=supervisor.worker_file(attempt),
        outlives=assignment.outlives,
        wall=limits.timeout_seconds,
        idle=limits.idle_timeout_seconds,
        cap=assignment.cap,
        budget=budget,
        secrets=assignment.secrets,
        replies=answered.replies(attempts, continues=continues),
        conversation=answered.conversation(attempts[-1]) if continues else "",
        allowed_rules=always_allowed(state),
        forbidden_rules=assignment.session.policy.forbidden(attempt.step.id),
        spent=answered.spent(attempts[-1]) if continues else 0.0,
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


def executor_job(assignment: Assignment) -> Job:
    """The job of a step that an executor carries out.

    The worker file is there from the beginning: it shows that the attempt was begun. The task is
    made in the thread, for that may take a while.
    """
    worker_file = assignment.supervisor.worker_file(assignment.attempt)
    stdin = _stdin(assignment)

    def run(channels: Channels) -> Outcome:
        put(worker_file, b"", 0)
        try:
            executor, task, place = _prepared(assignment, worker_file, stdin)
        except PlaybookError as error:
            return of_error(error)
        context = Context(place, channels.on_line, channels.log, channels.on_notice)
        channels.on_start(context.stop)
        return carry_out(executor, task, context)

    return Job(run, _crashed, worker_file)


def _crashed(error: Exception) -> Outcome:
    message = f"the step's job raised {type(error).__name__}: {error}"
    return failed("PB-STEP-CRASHED", printable(message))


def _stdin(assignment: Assignment) -> str | StepError:
    """What the step reads of an earlier one; read here, for only this thread opens the session."""
    try:
        return assignment.supervisor.input_of(assignment.attempt)
    except StepError as error:
        return error


def _prepared(
    assignment: Assignment, worker_file: Path, stdin: str | StepError
) -> tuple[Executor, Task, Place]:
    if isinstance(stdin, StepError):
        raise stdin
    supervisor, snapshot = assignment.supervisor, assignment.session
    step, limits = assignment.attempt.step, assignment.limits
    values = arg_values(snapshot, step)
    args, config = snapshot.state.playbook.args, snapshot.config
    secrets = of_step(step, args, values, config, supervisor.root)
    hidden = (*assignment.secrets, *secrets.hidden)
    env = {
        "PLAYBOOK_SESSION": supervisor.id,
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
        before=before(supervisor.store, supervisor.id) if step.namespace == COMMIT else None,
        also=step.also,
        secrets=hidden,
    )
    place = Place(
        root=supervisor.root,
        cwd=contained(supervisor.root, references.interpolate(step.cwd, values)),
        config=config,
        env=env,
        cap=assignment.cap,
        wall=limits.timeout_seconds,
        idle=limits.idle_timeout_seconds,
        worker_file=worker_file,
        outlives=assignment.outlives,
        secrets=hidden,
    )
    return registry.find(step.namespace), task, place
