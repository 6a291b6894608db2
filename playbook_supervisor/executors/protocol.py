"""The contract of an executor, which carries out one kind of step without an agent.

An executor knows nothing of sessions, of the journal or of other steps (cat FR-4.9). It is a plain
function of a task and a context; a plugin need not know asyncio.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from playbook_supervisor.errors import CODES, StepError
from playbook_supervisor.executors.context import Context, Stopped
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.kernel.model import NO_REVIEWERS, Reviewers
from playbook_supervisor.kernel.vocabulary import OutputFormat
from playbook_supervisor.project.commit_files import Before
from playbook_supervisor.project.config import Config
from playbook_supervisor.records import Record, field

__all__ = ["Context", "Executor", "Project", "Stopped", "Task", "failed", "refuse_words"]


class Task(Record, kw_only=True):
    """One attempt at one step, as an executor receives it, with every `{{arg}}` replaced.

    `directive` is `test#1`. `words` follow the namespace in `command`, split by POSIX quoting
    before interpolation: an arg fills exactly one word. `options` is `with:`, which conforms to
    the executor's schema. `stdin` is the output that the step asked for, or empty. `owner` and
    `reviewers` are those of the playbook. `before` is what was there before the session, for a
    `commit`, and `also` what is taken of it. The values in `secrets` never leave the executor.
    """

    directive: str
    namespace: str
    words: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    stdin: str = ""
    output: OutputFormat = OutputFormat.TEXT
    owner: str = ""
    reviewers: Reviewers = NO_REVIEWERS
    env: Mapping[str, str] = field(default_factory=dict)
    before: Before | None = None
    also: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Project(Record):
    """Where a task is going to be carried out; `root` and `cwd` are as those of a `Context`."""

    root: Path
    cwd: Path
    config: Config


def failed(
    code: str,
    message: str,
    *,
    guidance: str = "",
    cause: str = "",
    output: str = "",
    lasts: bool = False,
) -> Outcome:
    """The outcome of a task that failed; `lasts` if another attempt would fail in the same way."""
    failure = Failure(code, message, guidance or CODES.get(code, ""), cause, lasts)
    return Outcome(error=failure, output=output)


def refuse_words(task: Task, project: Project | None = None) -> None:
    """StepError PB-STEP-INPUT if something follows the namespace of a step that has no words."""
    del project
    if task.words:
        article = "an" if task.namespace[0] in "aeiou" else "a"
        raise StepError(
            "PB-STEP-INPUT",
            f"{article} `{task.namespace}` step has no words",
            guidance="Write what it needs under `with:`.",
        )


class Executor(Protocol):
    """What a plugin provides; `playbook_supervisor.testing` checks that it keeps this contract.

    It may also have a method `check(task, project)`, which foresees: it raises StepError or
    PolicyError if the task cannot succeed, and lets through what is not known. `playbook check`
    asks for the step as it is written: in `words` and `options`, `{{name}}` stands for a value that
    is not known, and a word that is only a reference may become none or several
    (`references.is_known`). A run asks again before it begins, with the args in `words`. `project`
    may be None. Nothing may be started, changed or asked of the network.
    """

    @property
    def namespace(self) -> str:
        """The first word of the commands that it carries out."""

    @property
    def with_schema(self) -> Mapping[str, Any]:
        """The JSON Schema (draft-07) of `with:`, an object."""

    def execute(self, task: Task, context: Context) -> Outcome:
        """Carry out the task.

        What goes wrong is an outcome with an error `PB-STEP-…` or `PB-POLICY-…`, or a PlaybookError
        that is raised; any other exception is a bug of the executor.
        """
