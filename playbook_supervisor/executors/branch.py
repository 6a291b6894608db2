"""`branch NAME`: create a branch, or switch to it.

Files that are not committed stay as they are, ignored ones included: if the other branch has
different ones, the step fails and nothing changes (docs/decisions/0171).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playbook_supervisor.executors.protocol import Context, Project, Task, input_error
from playbook_supervisor.executors.repository import HEADS, Repository, git_error, short
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.expressions.references import with_any_values
from playbook_supervisor.project.expressions.requirement import Parameter, flaw_of

ALLOWED, REQUIRED, NEVER = "allowed", "required", "never"
_SWITCH = ("switch", "--quiet", "--no-overwrite-ignore")


class BranchExecutor:
    """Its output is the name of the branch."""

    namespace = "branch"
    with_schema: Mapping[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "create": {
                "enum": [ALLOWED, REQUIRED, NEVER],
                "default": ALLOWED,
                "description": "Whether the branch may, must or must not be created.",
            },
            "base": {
                "type": "string",
                "minLength": 1,
                "description": "The commit from which a new branch starts; HEAD by default.",
            },
        },
    }

    def check(self, task: Task, project: Project | None) -> None:
        """StepError PB-STEP-INPUT without a name that git allows."""
        del project
        _name(task)

    def execute(self, task: Task, context: Context) -> Outcome:
        """Switch to the branch. StepError PB-STEP-GIT if that cannot be done as asked."""
        repository = Repository(context)
        name = _name(task)
        create, base = task.options.get("create", ALLOWED), task.options.get("base", "")
        context.say(_switch(repository, name, create, base))
        return Outcome(output=name, data={"branch": name})


def _switch(repository: Repository, name: str, create: str, base: str) -> str:
    here, remote = repository.branch() == name, repository.remote(name)
    local = here or repository.exists(f"{HEADS}{name}")
    tracked = f"refs/remotes/{remote}/{name}"
    known = local or (bool(remote) and repository.exists(tracked))
    if known and create == REQUIRED:
        raise git_error(
            f"the branch {name} exists already, and `create: required` wants a new one",
            "Choose another name, or write `create: allowed`.",
        )
    if not known and create == NEVER:
        raise git_error(
            f"there is no branch {name}, and `create: never` makes none",
            "Create it, correct its name, or write `create: allowed`.",
        )
    doing = f"switching to {name}"
    if here:
        return f"already on {name}"
    if local:
        repository.change(*_SWITCH, "--no-guess", name, doing=doing)
        return f"switched to {name}"
    if known:
        repository.change(*_SWITCH, "--create", name, "--track", tracked, doing=doing)
        return f"switched to {name}, which follows {remote}/{name}"
    return _create(repository, name, base, doing)


def _create(repository: Repository, name: str, base: str, doing: str) -> str:
    start = repository.commit(base or "HEAD")
    if base and not start:
        raise input_error(
            f"there is no commit {first_line(base, 80)!r} to start {name} from",
            "Correct `base`: a branch, a tag or a commit.",
        )
    repository.change(*_SWITCH, "--no-track", "--create", name, *filter(None, [start]), doing=doing)
    origin = f" from {base}" if base else ""
    return f"created {name}{origin} at {short(start)}" if start else f"created {name}"


def _name(task: Task) -> str:
    if len(task.words) != 1:
        raise input_error("a `branch` step takes one name", "Write it as in `branch fix-login`.")
    (name,) = task.words
    if name == "HEAD" or flaw_of(Parameter.NAME, with_any_values(name)):
        raise input_error(
            f"{first_line(name, 80)!r} is not a valid name of a branch",
            "Use letters, digits, `-`, `_`, `.` and `/`.",
        )
    return name
