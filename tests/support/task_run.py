"""A task carried out for a test: its folder, its limits, and what it showed, logged and noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.executors.protocol import Context, Executor, Place, Task, carry_out
from playbook_supervisor.kernel.directives import Attempt, Failure, Outcome
from playbook_supervisor.project.settings.config import Config


class Bench:
    """Carries out tasks in `folder`; `shown`, `logged` and `notices` collect their lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown: list[str] = []
        self.logged: list[str] = []
        self.notices: list[str] = []

    @property
    def worker_file(self) -> Path:
        return self.folder.parent / f"worker-{self.folder.name}"

    def context(self, config: Config | None = None, **limits: Any) -> Context:
        place = Place(
            root=self.folder,
            cwd=self.folder,
            config=config or Config(),
            worker_file=self.worker_file,
            **limits,
        )
        return Context(
            place, on_line=self.shown.append, log=self.logged.append, on_notice=self.notices.append
        )

    def outcome(self, executor: Executor, task: Task, context: Context | None = None) -> Outcome:
        return carry_out(executor, task, context or self.context())

    def error(self, executor: Executor, task: Task, context: Context | None = None) -> Failure:
        """The failure of a task that has to fail; it always says how to mend it."""
        error = self.outcome(executor, task, context).error
        assert error is not None
        assert error.guidance
        return error


class Faked:
    """An executor that does what a test says."""

    namespace = "faked"

    def __init__(self, does: Callable[[Task, Context], Any]) -> None:
        self.with_schema: dict[str, Any] = {"type": "object"}
        self._does = does

    def execute(self, task: Task, context: Context) -> Outcome:
        outcome: Outcome = self._does(task, context)
        return outcome


def task(*words: str, namespace: str = "cli", **more: Any) -> Task:
    return Task(directive="step#1", namespace=namespace, words=words, **more)


class Watcher(Observer):
    """What a runner shows of its steps, a line each, and its notices."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notices: list[str] = []

    def on_output(self, attempt: Attempt, line: str) -> None:
        self.lines.append(f"{attempt.id}: {line}")

    def on_notice(self, text: str) -> None:
        self.notices.append(text)
