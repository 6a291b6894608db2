"""`cli ARGV`: a program of the project's, as an argv without a shell.

Exit status 0 means success; stdout is the output. `with:` may set variables and standard input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playbook_supervisor.errors import StorageError
from playbook_supervisor.executors.protocol import (
    Context,
    Project,
    Task,
    failed,
    input_error,
    of_error,
)
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.expressions.references import is_known
from playbook_supervisor.project.settings.bounds import admit_program
from playbook_supervisor.system.process.capture import bad_end
from playbook_supervisor.system.process.processes import Completed

_EXAMPLE = "Write it as in `cli make test`."


class CliExecutor:
    """Runs the words of the command."""

    namespace = "cli"
    with_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "env": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {"type": "string"},
                "description": "Variables that the program gets beside ours; may name secrets.",
            },
            "stdin": {
                "type": "string",
                "description": "Its standard input, unless the step's `stdin` names one.",
            },
        },
        "additionalProperties": False,
    }

    def check(self, task: Task, project: Project | None) -> None:
        """StepError if there is no program; PolicyError if the project does not admit it."""
        if not task.words:
            raise input_error("`cli` names no program", _EXAMPLE)
        if project is not None and is_known(task.words[0]):
            admit_program(project.config, task.words, project.cwd, env=_variables(task))

    def execute(self, task: Task, context: Context) -> Outcome:
        self.check(task, None)
        stdin, env = task.stdin or task.options.get("stdin", ""), _variables(task)
        admit_program(context.config, task.words, context.cwd, env=env)
        try:
            given = stdin.encode("utf-8", "replace")
            done = context.run(task.words, stdin=given, env=env, of_playbook=True)
        except StorageError as error:
            return of_error(error)
        if done.returncode == 0:
            return Outcome(output=done.stdout)
        return _badly_ended(first_line(task.words[0], 100), done, task.secrets)


def _variables(task: Task) -> dict[str, str]:
    return {**task.env, **task.options.get("env", {})}


def _badly_ended(program: str, done: Completed, secrets: tuple[str, ...]) -> Outcome:
    code = "PB-STEP-CRASHED" if done.returncode < 0 else "PB-STEP-FAILED"
    message, cause = bad_end(program, done.returncode, (done.stderr, done.stdout), secrets)
    return failed(code, message, guidance=done.hint, cause=cause, output=done.stdout)
