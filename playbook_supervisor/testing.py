"""The contracts of an agent and of an executor, as checks for any test runner; ours pass them.

    import pytest
    from playbook_supervisor.testing import AGENT_CHECKS

    @pytest.mark.parametrize("check", AGENT_CHECKS, ids=lambda check: check.__name__)
    def test_my_agent_conforms(check, tmp_path):
        check(MyAgent(...), tmp_path)

Set up the agent under test to understand these commands, which it receives as `call.command`,
`call.prompt` and, without the slash, `call.step`:

    /works    prints something, writes works.txt into its working directory, succeeds
    /fails    prints something and fails
    /dies     is killed by SIGKILL
    /hangs    prints a line at once, then works for ever without further output; child processes,
              if any, hold an exclusive flock on hangs.lock as long as they live
    /shouts   prints a hundred lines of a hundred characters
    /colours  prints a line with terminal sequences and control characters

A check takes the agent and an empty folder, and raises ConformanceError, an AssertionError.

The checks of an executor take a trial, too, which says what it is to do:

    from playbook_supervisor.testing import EXECUTOR_CHECKS, ExecutorTrial

    TRIAL = ExecutorTrial(works=Task(...), fails=Task(...), hangs=Task(...))

    @pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
    def test_my_executor_conforms(check, tmp_path):
        check(MyExecutor(), TRIAL, tmp_path)
"""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.agents.protocol import (
    Agent,
    Call,
    Message,
    Reply,
    Request,
    Running,
    can_continue,
)
from playbook_supervisor.errors import PlaybookError, PolicyError, StepError
from playbook_supervisor.executors.protocol import (
    Context,
    Executor,
    Place,
    Project,
    Stopped,
    Task,
    carry_out,
)
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.expressions.json_schemas import flaw, mismatch
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.process.process_groups import worker_alive

CAP = 1_000  # bytes of output that are kept
MARK = 200  # bytes that the mark of a cut may take
DEADLINE = 0.5  # seconds after which what hangs must be stopped
PATIENCE = 20.0  # seconds within which it must be over, even on a busy machine


class ConformanceError(AssertionError):
    """The agent or executor breaks its contract; the message says how."""


AgentCheck = Callable[[Agent, Path], None]


def call_for(
    command: str,
    folder: Path,
    *,
    wall: float | None = None,
    idle: float | None = None,
    cap: int = 1_000_000,
) -> Call:
    """The call of a check: `command` without its slash, in a new subfolder of `folder`."""
    cwd = folder / "repository"
    cwd.mkdir(parents=True, exist_ok=True)
    return Call(
        session="20260219-a7k",
        directive=f"{command}#1",
        step=command,
        attempt=1,
        command=f"/{command}",
        args="",
        feature="013-conformance",
        prompt=f"/{command}",
        cwd=cwd,
        worker_file=folder / "worker.json",
        wall=wall,
        idle=idle,
        cap=cap,
    )


def is_named_and_available(agent: Agent, folder: Path) -> None:
    """It has a name for the journal and is available."""
    del folder
    _expect(agent.name == printable(agent.name).strip() != "", "its name is not printable")
    _expect(agent.available() is None, f"it is not available: {agent.available()}")


def streams_its_output(agent: Agent, folder: Path) -> None:
    """The last message carries the outcome, and no other does; the outcome has the output, too."""
    for command in ("works", "fails"):
        messages = list(agent.run(call_for(command, folder)))
        carrying = [index for index, each in enumerate(messages) if each.outcome is not None]
        _expect(carrying == [len(messages) - 1], f"/{command}: outcomes in messages {carrying}")
        if command == "works":
            _expect(any(message.text for message in messages), "/works: it printed nothing")
            _expect(_outcome(messages).output != "", "/works: the outcome has no output")


def works_in_the_directory_given(agent: Agent, folder: Path) -> None:
    """It writes into the call's directory, not the runner's. To stop it later has no effect."""
    call = call_for("works", folder)
    running = agent.run(call)
    messages = list(running)
    running.stop()
    _succeeds(messages, "/works", call.cwd / "works.txt")
    _expect(not Path("works.txt").exists(), "/works: works.txt is in the runner's directory")


def concurrent_calls_do_not_interfere(agent: Agent, folder: Path) -> None:
    """A parallel group runs several calls of one agent at the same time."""
    calls = [call_for("works", folder / name) for name in ("first", "second")]
    for call, running in [(call, agent.run(call)) for call in calls]:
        _succeeds(running, "/works, two at once", call.cwd / "works.txt")


def a_failure_has_message_and_guidance(agent: Agent, folder: Path) -> None:
    """A failure is an outcome with a code, a message and guidance, never an exception."""
    for command in ("fails", "dies"):
        outcome = _outcome(list(agent.run(call_for(command, folder))))
        _explains(outcome, f"/{command}", "PB-AGENT-")


def a_deadline_ends_it(agent: Agent, folder: Path) -> None:
    """It runs for at most `wall` seconds, is silent for at most `idle`, and leaves no process."""
    for name, wall, idle in (("wall", DEADLINE, None), ("idle", None, DEADLINE)):
        call = call_for("hangs", folder / name, wall=wall, idle=idle)
        code = _error(_outcome(list(agent.run(call))), "/hangs with a deadline").code
        _expect(code == "PB-AGENT-TIMEOUT", f"/hangs with a deadline: its code is {code}")
        _all_gone(call)


def every_process_holds_the_worker_file(agent: Agent, folder: Path) -> None:
    """So an orphan is found after its runner was killed."""
    call = call_for("hangs", folder)
    running = agent.run(call)
    try:
        next(iter(running))
        held = call.worker_file is not None and worker_alive(call.worker_file)
        _expect(held, "/hangs: no process holds the worker file")
    finally:
        running.stop()
        messages = list(running)
    _expect(messages[-1:] != [], "/hangs, stopped: there is no outcome")
    _all_gone(call)


def stopping_ends_it_from_another_thread(agent: Agent, folder: Path) -> None:
    """Ctrl-C and `abort`: the process group ends, and the messages still end with an outcome."""
    call = call_for("hangs", folder)
    running = agent.run(call)
    messages = iter(running)
    next(messages)
    stopper = threading.Thread(target=running.stop)
    stopper.start()
    _error(_outcome(list(messages)), "/hangs, stopped")
    stopper.join()
    running.stop()
    _all_gone(call)


def dropping_the_messages_stops_it(agent: Agent, folder: Path) -> None:
    """A runner that drops the messages leaves no process."""
    call = call_for("hangs", folder)
    running: Running | None = agent.run(call)
    messages = iter(running or ())
    next(messages)
    running = None
    del messages
    gc.collect()
    _all_gone(call)


def its_output_is_capped(agent: Agent, folder: Path) -> None:
    """Messages and the outcome's output are each cut at `cap` bytes."""
    messages = list(agent.run(call_for("shouts", folder, cap=CAP)))
    shown = sum(len(message.text.encode()) for message in messages)
    kept = len(_outcome(messages).output.encode())
    for number, what in ((shown, "messages"), (kept, "output")):
        _expect(number <= CAP + MARK, f"/shouts: {number} bytes of {what}, {CAP} were allowed")


def its_output_is_sanitized(agent: Agent, folder: Path) -> None:
    """Messages and outcome contain no control character and no terminal sequence."""
    messages = list(agent.run(call_for("colours", folder)))
    outcome = _outcome(messages)
    for text in (*(message.text for message in messages), *outcome.output.split("\n")):
        _expect(text == printable(text), f"/colours: {text!r} is not harmless")


AGENT_CHECKS: tuple[AgentCheck, ...] = (
    is_named_and_available,
    streams_its_output,
    works_in_the_directory_given,
    concurrent_calls_do_not_interfere,
    a_failure_has_message_and_guidance,
    a_deadline_ends_it,
    every_process_holds_the_worker_file,
    stopping_ends_it_from_another_thread,
    dropping_the_messages_stops_it,
    its_output_is_capped,
    its_output_is_sanitized,
)
"""All checks, for a parametrised test."""


# ── agents that ask ─────────────────────────────────────────────────────────────────────────


def an_allowed_call_is_carried_out(agent: Agent, folder: Path) -> None:
    """It asks for the permission to write, once, and goes on when it is given."""
    call, asked = _asking(folder, Reply("allow"))
    _succeeds(agent.run(call), "/asks, allowed", call.cwd / "asks.txt")
    kinds = [request.kind for request in asked]
    _expect(kinds == ["permission"], f"/asks, allowed: it asked {kinds}")
    missing = {"tool", "subject", "input", "digest"} - asked[0].shape.keys()
    _expect(not missing, f"/asks: its request lacks {', '.join(sorted(missing))}")


def a_denied_call_is_not_carried_out(agent: Agent, folder: Path) -> None:
    """Its outcome is its own affair: it may have found another way."""
    call, _ = _asking(folder, Reply("deny", "not today"))
    _outcome(list(agent.run(call)))
    _expect(not (call.cwd / "asks.txt").exists(), "/asks, denied: asks.txt is there")


def put_off_it_ends_and_continues(agent: Agent, folder: Path) -> None:
    """It ends with an outcome and leaves no process; its conversation continues with the reply."""
    call, asked = _asking(folder, None)
    _outcome(list(agent.run(call)))
    _expect(not (call.cwd / "asks.txt").exists(), "/asks, put off: asks.txt is there")
    _all_gone(call)
    shape = asked[0].shape
    replies = {shape["digest"]: Reply("allow")}
    later = replace(call, conversation=shape.get("conversation", ""), replies=replies)
    _expect(can_continue(agent, later), "/asks, put off: it cannot continue")
    _succeeds(agent.run(later), "/asks, continued", call.cwd / "asks.txt")
    _expect(len(asked) == 1, "/asks, continued: it asked again")


def what_was_replied_is_not_asked_in_a_new_conversation(agent: Agent, folder: Path) -> None:
    """On another machine the step runs again, with the replies that are in the journal."""
    call, asked = _asking(folder, None)
    _outcome(list(agent.run(call)))
    again = replace(call, replies={asked[0].shape["digest"]: Reply("allow")})
    _succeeds(agent.run(again), "/asks, again")
    _expect(len(asked) == 1, "/asks, again: it asked again")


ASKING_CHECKS: tuple[AgentCheck, ...] = (
    an_allowed_call_is_carried_out,
    a_denied_call_is_not_carried_out,
    put_off_it_ends_and_continues,
    what_was_replied_is_not_asked_in_a_new_conversation,
)
"""The checks of an agent that `asks`; its command `/asks` asks to write asks.txt."""


def _asking(folder: Path, reply: Reply | None) -> tuple[Call, list[Request]]:
    """A call whose requests get this reply, and the list of its requests."""
    asked: list[Request] = []

    def ask(request: Request) -> Reply | None:
        asked.append(request)
        return reply

    return replace(call_for("asks", folder), ask=ask), asked


def _succeeds(messages: Iterable[Message], label: str, made: Path | None = None) -> None:
    outcome = _outcome(list(messages))
    _expect(outcome.ok, f"{label}: {outcome.error}")
    if made is not None:
        _expect(made.is_file(), f"{label}: {made.name} is not in its directory")


def _outcome(messages: list[Message]) -> Outcome:
    outcome = messages[-1].outcome if messages else None
    if outcome is None:
        raise ConformanceError("the last message carries no outcome")
    return outcome


def _all_gone(call: Call) -> None:
    for file in (call.worker_file, call.cwd / "hangs.lock"):
        _expect_gone(file, "/hangs: one of its processes is still running")


# ── executors ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorTrial:
    """The tasks that a check gives an executor, in a folder that `prepare` has made ready.

    `works` succeeds, also a second time; `fails` fails. `hangs` would go on for ever; None for an
    executor that has no such task. `config` is the project's.
    """

    works: Task
    fails: Task
    hangs: Task | None = None
    config: Config = field(default_factory=Config)
    prepare: Callable[[Path], None] = lambda _: None


ExecutorCheck = Callable[[Executor, ExecutorTrial, Path], None]


def it_describes_its_steps(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """By a namespace, which is a word, and a JSON Schema of options, which allows no others."""
    del folder
    is_word = re.fullmatch(r"[a-z][a-z0-9_-]{0,60}", executor.namespace) is not None
    _expect(is_word, "its namespace is not a word")
    _expect(trial.works.namespace == executor.namespace, "its task has another namespace")
    schema = executor.with_schema
    _expect(flaw(schema) == "", f"with_schema: {flaw(schema)}")
    _expect(schema.get("type") == "object", "with_schema does not describe an object")
    for task in filter(None, (trial.works, trial.fails, trial.hangs)):
        wrong = mismatch(task.options, schema)
        _expect(wrong == "", f"options that do not conform to with_schema: {wrong}")
    unknown = {**trial.works.options, "no-such-option": ""}
    _expect(mismatch(unknown, schema) != "", "with_schema allows any option")


def it_foresees_no_failure_of_a_task_that_works(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """Its `check`, if it has one, refuses only what cannot succeed, and changes nothing."""
    check = getattr(executor, "check", None)
    if check is None:
        return
    root = _prepared(trial, folder)
    before = _contents(folder)
    project = Project(root, root, trial.config)
    unknown = replace(trial.works, words=tuple("{{arg}}" for _ in trial.works.words))
    for task, where in ((trial.works, project), (trial.works, None), (unknown, project)):
        try:
            check(task, where)
        except PlaybookError as error:
            raise ConformanceError(f"check refuses a task that works: {error.message}") from error
    try:
        check(trial.fails, project)
    except (StepError, PolicyError) as error:
        _expect(bool(error.message and error.guidance), "check: an error without a way out")
    _expect(_contents(folder) == before, "check changes files")


def a_task_that_works_succeeds_twice(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """An executor keeps nothing between two tasks."""
    root = _prepared(trial, folder)
    for time_ in ("once", "twice"):
        outcome, _ = _carried_out(executor, trial.works, trial, root)
        _expect(outcome.ok, f"a task that works, {time_}: {outcome.error}")


def concurrent_tasks_do_not_interfere(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """A parallel group carries out several tasks with one executor at the same time."""
    outcomes: list[Outcome] = []
    roots = [_prepared(trial, folder / name) for name in ("first", "second")]

    def work(root: Path) -> None:
        outcomes.append(_carried_out(executor, trial.works, trial, root)[0])

    threads = [threading.Thread(target=work, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in outcomes:
        _expect(outcome.ok, f"two tasks at once: {outcome.error}")


def a_failed_task_has_message_and_guidance(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """A failure is an outcome with a code, a message and guidance."""
    outcome, raised = _carried_out(executor, trial.fails, trial, _prepared(trial, folder))
    error = _error(outcome, "a task that fails")
    _expect(not raised, f"a task that fails raised: {error.message}")
    _explains(outcome, "a task that fails", "PB-STEP-", "PB-POLICY-")


def its_process_stays_as_it_was(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """Other steps run in the process: its folder and its environment are not the executor's."""
    before = (Path.cwd(), dict(os.environ))
    root = _prepared(trial, folder)
    for task in (trial.works, trial.fails):
        _carried_out(executor, task, trial, root)
    _expect(Path.cwd() == before[0], "it changed the working directory")
    _expect(dict(os.environ) == before[1], "it changed the environment")


def the_deadline_ends_a_task(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """It ends soon after its deadline, and leaves no process."""
    if trial.hangs is not None:
        root = _prepared(trial, folder)
        outcome, _ = _carried_out(executor, trial.hangs, trial, root, wall=DEADLINE)
        code = _error(outcome, "a task that hangs").code
        _expect(code == "PB-STEP-TIMEOUT", f"a task that hangs: its code is {code}")


def stopping_ends_a_task_from_another_thread(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """Ctrl-C and `abort`."""
    if trial.hangs is not None:
        root = _prepared(trial, folder)
        outcome, _ = _carried_out(executor, trial.hangs, trial, root, stop_after=DEADLINE)
        _error(outcome, "a task that hangs, stopped")


EXECUTOR_CHECKS: tuple[ExecutorCheck, ...] = (
    it_describes_its_steps,
    it_foresees_no_failure_of_a_task_that_works,
    a_task_that_works_succeeds_twice,
    concurrent_tasks_do_not_interfere,
    a_failed_task_has_message_and_guidance,
    its_process_stays_as_it_was,
    the_deadline_ends_a_task,
    stopping_ends_a_task_from_another_thread,
)
"""All checks, for a parametrised test."""


class _Watched:
    """An executor, whether it has ended, and whether it raised what is no error of a step."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.namespace, self.with_schema = executor.namespace, executor.with_schema
        self.over = threading.Event()
        self.raised = False

    def execute(self, task: Task, context: Context) -> Outcome:
        try:
            return self._executor.execute(task, context)
        except (PlaybookError, Stopped):
            raise
        except Exception:
            self.raised = True
            raise
        finally:
            self.over.set()


def _carried_out(
    executor: Executor,
    task: Task,
    trial: ExecutorTrial,
    root: Path,
    *,
    wall: float | None = None,
    stop_after: float | None = None,
) -> tuple[Outcome, bool]:
    """The outcome, and whether the executor raised. It has ended, and so have its processes."""
    watched, worker_file = _Watched(executor), root.parent / "worker.json"
    context = Context(
        Place(root=root, cwd=root, config=trial.config, wall=wall, worker_file=worker_file)
    )
    if stop_after is not None:
        threading.Timer(stop_after, context.stop).start()
    outcome = carry_out(watched, task, context)
    _expect(watched.over.wait(PATIENCE), f"{task.namespace} goes on after it was stopped")
    _expect_gone(worker_file, "one of its processes is still running")
    return outcome, watched.raised


def _prepared(trial: ExecutorTrial, folder: Path) -> Path:
    root = folder / "repository"
    root.mkdir(parents=True)
    trial.prepare(root)
    return root


def _contents(folder: Path) -> list[tuple[str, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(path), path.read_bytes()) for path in files]


# ── both ────────────────────────────────────────────────────────────────────────────────────


def _error(outcome: Outcome, label: str) -> Failure:
    if outcome.error is None:
        raise ConformanceError(f"{label}: it succeeded")
    return outcome.error


def _explains(outcome: Outcome, label: str, *families: str) -> None:
    error = _error(outcome, label)
    _expect(error.code.startswith(families), f"{label}: its code is {error.code}")
    _expect(error.message != "", f"{label}: no message")
    _expect(error.guidance != "", f"{label}: no guidance")


def _expect_gone(worker_file: Path | None, otherwise: str) -> None:
    """ConformanceError if the processes that hold the file have not ended within `PATIENCE`."""
    until = time.monotonic() + PATIENCE
    while worker_file is not None and worker_alive(worker_file):
        _expect(time.monotonic() < until, otherwise)
        time.sleep(0.02)


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise ConformanceError(otherwise)
