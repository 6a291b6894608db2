"""The contract of an executor, as checks for any test runner; `playbook_supervisor.testing` offers
them, and our own executors pass them."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

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
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.expressions.json_schemas import flaw, mismatch
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.process.process_groups import worker_alive

DEADLINE = 0.5  # seconds after which a task that hangs must be stopped
PATIENCE = 20.0  # seconds within which it must be over, even on a busy machine
_NAMESPACE = r"[a-z][a-z0-9_-]{0,60}\Z"
_UNKNOWN = "no-such-option"


class ConformanceError(AssertionError):
    """The agent or executor breaks its contract; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorTrial:
    """What a check lets an executor do, in a folder that `prepare` has made ready.

    `works` succeeds, also a second time; `fails` fails. `hangs` would go on for ever; None for an
    executor that has no such task. `config` is the project's.
    """

    works: Task
    fails: Task
    hangs: Task | None = None
    config: Config = field(default_factory=Config)
    prepare: Callable[[Path], None] = lambda _: None


ExecutorCheck = Callable[[Executor, ExecutorTrial, Path], None]


def its_namespace_is_a_word(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """It is the first word of a command, and that of its tasks."""
    del folder
    expect(re.match(_NAMESPACE, executor.namespace) is not None, "its namespace is not a word")
    expect(trial.works.namespace == executor.namespace, "its task has another namespace")


def its_options_have_a_schema(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """A JSON Schema of an object, to which the options of its tasks conform."""
    del folder
    schema = executor.with_schema
    expect(flaw(schema) == "", f"with_schema: {flaw(schema)}")
    expect(schema.get("type") == "object", "with_schema does not describe an object")
    for task in (trial.works, trial.fails, trial.hangs):
        if task is not None:
            wrong = mismatch(task.options, schema)
            expect(wrong == "", f"options that do not conform to with_schema: {wrong}")


def an_unknown_option_is_refused(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """A misspelt option would otherwise be ignored."""
    del folder
    options = {**trial.works.options, _UNKNOWN: ""}
    expect(mismatch(options, executor.with_schema) != "", "with_schema allows any option")


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
        expect(bool(error.message and error.guidance), "check: an error without a way out")
    expect(_contents(folder) == before, "check changes files")


def a_task_that_works_succeeds_twice(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """An executor keeps nothing between two tasks."""
    root = _prepared(trial, folder)
    for time_ in ("once", "twice"):
        outcome, _ = _outcome(executor, trial.works, trial, root)
        expect(outcome.ok, f"a task that works, {time_}: {outcome.error}")


def concurrent_tasks_do_not_interfere(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """A parallel group carries out several tasks with one executor at the same time."""
    outcomes: list[Outcome] = []
    roots = [_prepared(trial, folder / name) for name in ("first", "second")]

    def work(root: Path) -> None:
        outcomes.append(_outcome(executor, trial.works, trial, root)[0])

    threads = [threading.Thread(target=work, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in outcomes:
        expect(outcome.ok, f"two tasks at once: {outcome.error}")


def a_failure_has_message_and_guidance(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """A failure is an outcome with a code, a message and guidance."""
    outcome, raised = _outcome(executor, trial.fails, trial, _prepared(trial, folder))
    error = _error(outcome, "a task that fails")
    expect(not raised, f"a task that fails raised: {error.message}")
    known = error.code.startswith(("PB-STEP-", "PB-POLICY-"))
    expect(known, f"a task that fails: its code is {error.code}")
    expect(error.message != "", "a task that fails: no message")
    expect(error.guidance != "", "a task that fails: no guidance")


def its_process_stays_as_it_was(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """Other steps run in the process: its folder and its environment are not the executor's."""
    before = (os.getcwd(), dict(os.environ))  # noqa: PTH109 - to compare
    root = _prepared(trial, folder)
    for task in (trial.works, trial.fails):
        _outcome(executor, task, trial, root)
    expect(os.getcwd() == before[0], "it changed the working directory")  # noqa: PTH109
    expect(dict(os.environ) == before[1], "it changed the environment")


def the_deadline_ends_it(executor: Executor, trial: ExecutorTrial, folder: Path) -> None:
    """It ends soon after its deadline, and leaves no process."""
    if trial.hangs is None:
        return
    root = _prepared(trial, folder)
    outcome, _ = _outcome(executor, trial.hangs, trial, root, wall=DEADLINE)
    code = _error(outcome, "a task that hangs").code
    expect(code == "PB-STEP-TIMEOUT", f"a task that hangs: its code is {code}")


def stopping_ends_it_from_another_thread(
    executor: Executor, trial: ExecutorTrial, folder: Path
) -> None:
    """Ctrl-C and `abort`."""
    if trial.hangs is None:
        return
    root = _prepared(trial, folder)
    outcome, _ = _outcome(executor, trial.hangs, trial, root, stop_after=DEADLINE)
    _error(outcome, "a task that hangs, stopped")


EXECUTOR_CHECKS: tuple[ExecutorCheck, ...] = (
    its_namespace_is_a_word,
    its_options_have_a_schema,
    an_unknown_option_is_refused,
    it_foresees_no_failure_of_a_task_that_works,
    a_task_that_works_succeeds_twice,
    concurrent_tasks_do_not_interfere,
    a_failure_has_message_and_guidance,
    its_process_stays_as_it_was,
    the_deadline_ends_it,
    stopping_ends_it_from_another_thread,
)
"""All checks, for a parametrised test."""


class _Watched:
    """The executor, whether it has ended, and whether it raised what is no error of a step."""

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


def _outcome(
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
    expect(watched.over.wait(PATIENCE), f"{task.namespace} goes on after it was stopped")
    expect_gone(worker_file, "one of its processes is still running")
    return outcome, watched.raised


def _prepared(trial: ExecutorTrial, folder: Path) -> Path:
    root = folder / "repository"
    root.mkdir(parents=True)
    trial.prepare(root)
    return root


def _contents(folder: Path) -> list[tuple[str, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(path), path.read_bytes()) for path in files]


def _error(outcome: Outcome, label: str) -> Failure:
    if outcome.error is None:
        raise ConformanceError(f"{label}: it succeeded")
    return outcome.error


def expect_gone(worker_file: Path | None, otherwise: str) -> None:
    """ConformanceError if the processes that hold the file have not ended within `PATIENCE`."""
    until = time.monotonic() + PATIENCE
    while worker_file is not None and worker_alive(worker_file):
        expect(time.monotonic() < until, otherwise)
        time.sleep(0.02)


def expect(kept: bool, otherwise: str) -> None:
    """ConformanceError if a promise is not kept."""
    if not kept:
        raise ConformanceError(otherwise)
