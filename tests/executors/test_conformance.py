"""Our own executors keep their contract, and a faulty one is told how it breaks it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.handmade_mcp_server import declare_handmade
from support.stand_in_forge import Forge
from support.task_run import Faked, task
from support.web_server import served

from playbook_supervisor import testing
from playbook_supervisor.errors import StepError
from playbook_supervisor.executors import registry
from playbook_supervisor.executors.protocol import GRACE, Context, Project, Task, failed
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.expressions import namespaces
from playbook_supervisor.testing import (
    EXECUTOR_CHECKS,
    ConformanceError,
    ExecutorCheck,
    ExecutorTrial,
)

SLEEP = task(sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
CLI = ExecutorTrial(works=task("echo", "\x1b[31mred"), fails=task("false"), hangs=SLEEP)


def git(folder: Path) -> None:
    """A repository with one commit and a change."""
    for argv in (
        ["init", "-q", "-b", "work"],
        ["commit", "-q", "--allow-empty", "-m", "Begin"],
        ["remote", "add", "origin", "https://forge.example/team/project.git"],
    ):
        subprocess.run(["git", *argv], cwd=folder, check=True)
    (folder / "new").write_text("x\n")


def with_remote(folder: Path) -> None:
    """A branch of its own, and a bare repository to push it to."""
    git(folder)
    bare = folder.parent / "remote.git"
    for argv in (
        ["clone", "-q", "--bare", ".", str(bare)],
        ["remote", "set-url", "origin", str(bare)],
        ["switch", "-q", "-c", "topic"],
        ["commit", "-q", "--allow-empty", "-m", "Add"],
    ):
        subprocess.run(["git", *argv], cwd=folder, check=True)


def of_git(works: Task, fails: Task) -> ExecutorTrial:
    return ExecutorTrial(works=works, fails=fails, prepare=git)


COMMIT = {"message": "Add it", "paths": ["new"], "push": False, "pull": False}
TRIALS: dict[str, ExecutorTrial] = {
    "cli": CLI,
    "branch": of_git(
        task("topic", namespace="branch"),
        task("topic", namespace="branch", options={"create": "never", "base": "HEAD"}),
    ),
    "commit": of_git(
        task(namespace="commit", options=COMMIT),
        task(namespace="commit", options={**COMMIT, "paths": ["../outside"]}),
    ),
}


@pytest.fixture
def site() -> Iterator[str]:
    """A server with a page, and one that never answers."""
    over = threading.Event()
    pages = {"/": lambda request: request.answer("hello\n"), "/slow": lambda _: over.wait()}
    with served(pages) as site:
        yield site.url
        over.set()


@pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("namespace", TRIALS)
def test_ours_conform(namespace: str, check: ExecutorCheck, tmp_path: Path) -> None:
    """cat FR-4.9, E-3."""
    check(registry.find(namespace), TRIALS[namespace], tmp_path)


@pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
def test_http_conforms(check: ExecutorCheck, tmp_path: Path, site: str) -> None:
    works, fails, hangs = (
        task("GET", f"{site}/{page}", namespace="http") for page in ("", "missing", "slow")
    )
    trial = ExecutorTrial(works=works, fails=fails, hangs=hangs)
    check(registry.find("http"), trial, tmp_path)


MAY_HANG = (
    "def call(request):\n    if request['params']['arguments']: time.sleep(3600)\n"
    "    answer(request, RESULT)\n"
)


@pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
def test_mcp_conforms(check: ExecutorCheck, tmp_path: Path) -> None:
    trial = ExecutorTrial(
        works=task("server.do", namespace="mcp"),
        fails=task("server.missing", namespace="mcp"),
        hangs=task("server.do", namespace="mcp", options={"arguments": {"hang": True}}),
        prepare=lambda folder: declare_handmade(folder, MAY_HANG),
    )
    check(registry.find("mcp"), trial, tmp_path)


@pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("namespace", ["issue", "pr"])
def test_those_of_a_forge_conform(
    namespace: str, check: ExecutorCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Forge(tmp_path / "forge", monkeypatch)
    options = {"title": "It is slow", "body": "Since Monday."}
    works = task(namespace=namespace, options=options)
    fails = task(namespace=namespace, options={**options, "title": " "})
    trial = ExecutorTrial(works=works, fails=fails, prepare=with_remote)
    check(registry.find(namespace), trial, tmp_path / "trial")


def test_every_namespace_that_check_knows_has_an_executor() -> None:
    """tyr 13."""
    assert tuple(registry.BUILT_IN) == namespaces.EXECUTORS
    assert testing.PATIENCE > GRACE


# ── faulty ones ─────────────────────────────────────────────────────────────────────────────


def obeying(_: Task, context: Context) -> Outcome:
    """Hang until stopped."""
    over = threading.Event()
    context.on_stop(over.set)
    over.wait()
    return failed("PB-STEP-FAILED", "ended")


class Chdir:
    namespace = "faked"

    def __init__(self, does: Callable[[], object]) -> None:
        self.with_schema = {"type": "object", "additionalProperties": False}
        self._does = does

    def execute(self, task: Task, context: Context) -> Outcome:
        del context
        self._does()
        return Outcome() if task.words == ("works",) else failed("PB-STEP-FAILED", "no")


def faked(does: Callable[[Task, Context], Any], **schema: Any) -> Faked:
    executor = Faked(does)
    executor.with_schema = {"type": "object", "additionalProperties": False, **schema}
    return executor


WORKS, FAILS, HANGS = (task(word, namespace="faked") for word in ("works", "fails", "hangs"))
FAKED = ExecutorTrial(works=WORKS, fails=FAILS, hangs=HANGS)


def refuse(code: str) -> None:
    raise StepError(code, "no")


def foreseeing(checks: Callable[[Project | None], None]) -> Faked:
    executor = faked(obeying)
    executor.check = lambda _, project: checks(project)  # type: ignore[attr-defined]
    return executor


def raising(_: Task, __: Context) -> Outcome:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("check", "executor", "said"),
    [
        (testing.it_describes_its_steps, CLI, ""),
        (testing.it_describes_its_steps, faked(obeying, type="array"), "an object"),
        (testing.it_describes_its_steps, faked(obeying, type="objekt"), "with_schema: "),
        (
            testing.it_foresees_no_failure_of_a_task_that_works,
            foreseeing(lambda _: refuse("PB-STEP-INPUT")),
            "check refuses a task that works: no",
        ),
        (
            testing.it_foresees_no_failure_of_a_task_that_works,
            foreseeing(lambda project: (project.root / "new").touch() if project else None),
            "check changes files",
        ),
        (testing.concurrent_tasks_do_not_interfere, faked(raising), "two tasks at once"),
        (
            testing.a_failed_task_has_message_and_guidance,
            faked(lambda _, __: Outcome()),
            "a task that fails: it succeeded",
        ),
        (
            testing.a_failed_task_has_message_and_guidance,
            faked(lambda _, __: failed("PB-AGENT-FAILED", "no")),
            "its code is PB-AGENT-FAILED",
        ),
        (
            testing.its_process_stays_as_it_was,
            Chdir(lambda: os.environ.update(FAULTY="1")),
            "it changed the environment",
        ),
        (
            testing.the_deadline_ends_a_task,
            faked(lambda _, __: Outcome()),
            "a task that hangs: it succeeded",
        ),
    ],
)
def test_a_faulty_one_is_told_how(
    check: ExecutorCheck, executor: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAULTY", raising=False)
    if executor is CLI:
        executor = faked(obeying)
        executor.namespace = "no word"
        said = "its namespace is not a word"
    with pytest.raises(ConformanceError, match=said):
        check(executor, FAKED, tmp_path)


def test_one_that_ignores_its_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playbook_supervisor.executors.protocol.GRACE", 0.1)
    monkeypatch.setattr(testing, "PATIENCE", 0.1)
    over = threading.Event()
    deaf = faked(lambda _, __: over.wait())
    with pytest.raises(ConformanceError, match="goes on after it was stopped"):
        testing.stopping_ends_a_task_from_another_thread(deaf, FAKED, tmp_path)
    over.set()


def test_one_without_an_end_to_try_needs_none(tmp_path: Path) -> None:
    trial = ExecutorTrial(works=WORKS, fails=FAILS)
    testing.the_deadline_ends_a_task(faked(raising), trial, tmp_path)
    testing.stopping_ends_a_task_from_another_thread(faked(raising), trial, tmp_path)
