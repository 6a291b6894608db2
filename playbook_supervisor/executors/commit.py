"""`commit`: commit what matches the given patterns and nothing else, and push it.

Hooks run, nothing is forced, and what a person has staged stays staged (docs/decisions/0172).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from playbook_supervisor.errors import GitError, StepError
from playbook_supervisor.executors.protocol import Context, Task, input_error, refuse_words
from playbook_supervisor.executors.repository import Repository, Upstream, git_error, short
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.commit_files import taken
from playbook_supervisor.system.git.git_unattended import committing, make_up

_NAMES = ("--pathspec-from-file=-", "--pathspec-file-nul")


class CommitExecutor:
    """Its output says what was committed and pushed; nothing to commit is not an error."""

    namespace = "commit"
    with_schema: Mapping[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["message", "paths"],
        "properties": {
            "message": {"type": "string", "minLength": 1, "description": "The commit's message."},
            "paths": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "minLength": 1},
                "description": "Globs from the top of the repository; `**` crosses folders.",
            },
            "push": {
                "type": "boolean",
                "default": True,
                "description": "Whether the branch is pushed; only as a fast-forward.",
            },
            "pull": {
                "type": "boolean",
                "default": True,
                "description": "Whether commits that only the remote has are taken up before; "
                "only as a fast-forward.",
            },
        },
    }

    check = staticmethod(refuse_words)

    def execute(self, task: Task, context: Context) -> Outcome:
        """Commit and push. StepError PB-STEP-GIT if git, a hook or the remote refuses."""
        message = _message(task)
        patterns = _patterns(task.options["paths"])
        repository = Repository(context)
        branch = repository.required_branch()
        push, pull = task.options.get("push", True), task.options.get("pull", True)
        upstream = _upstream(repository, branch, push=push, pull=pull)
        if upstream and pull and (told := repository.fast_forward(upstream)):
            context.say(told)
        make_up(repository.git, repository.runtime)
        try:
            chosen = taken(context.root, patterns, task.also, task.before)
        except GitError as error:
            raise git_error(error.message, error.guidance) from error
        made, files = _commit(repository, message, chosen.files)
        told = f"committed {counted(len(files), 'file')} as {short(made)}"
        told = told if made else f"nothing to commit in {', '.join(patterns)}"
        if chosen.left:
            number, are = len(chosen.left), "is" if len(chosen.left) == 1 else "are"
            told += f"; {number} {are} left alone: not committed before the session"
        context.say(first_line(told))
        data = {"commit": made, "files": files, "pushed": ""}
        if upstream and push and (pushed := _push(repository, upstream, made)):
            context.say(pushed)
            told, data["pushed"] = f"{told}\n{pushed}", upstream.name
        return Outcome(output=told, data=data)


def _message(task: Task) -> str:
    message: str = task.options["message"].strip()
    refuse_words(task)
    if not message:
        raise input_error("the message of the commit is empty", "Correct `message`.")
    return printable(message, keep_newlines=True)


def _patterns(paths: Sequence[str]) -> tuple[str, ...]:
    for path in paths:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or printable(path) != path:
            raise input_error(
                f"the pattern {first_line(path, 80)!r} is no path inside the repository",
                "Write patterns from the top of the repository, without `..`.",
            )
    return tuple(paths)


def _upstream(repository: Repository, branch: str, *, push: bool, pull: bool) -> Upstream | None:
    upstream = repository.upstream(branch) if push or pull else None
    if push and upstream is None:
        raise git_error(
            f"there is no remote to push {branch} to",
            "Add one (`git remote add origin ADDRESS`), or write `push: false`.",
        )
    return upstream


# ── committing ──────────────────────────────────────────────────────────────────────────────


def _commit(repository: Repository, message: str, files: Sequence[str]) -> tuple[str, list[str]]:
    if not files:
        return "", []
    known = {*repository.ask("ls-files", "--full-name", "-z").split("\0")}
    new = [file for file in files if file not in known and os.path.lexists(repository.root / file)]
    with committing(repository.git, repository.runtime, repository.commit(), files, new):
        if new:  # by name only; the commit adds their content
            repository.change("add", "--force", "--intent-to-add", *_NAMES, stdin=_pathspecs(new))
        options = ("--quiet", "--cleanup=whitespace", f"--message={message}", "--only", *_NAMES)
        repository.change("commit", *options, stdin=_pathspecs(files))
    return repository.commit(), list(files)


def _push(repository: Repository, upstream: Upstream, made: str) -> str:
    if not made and not upstream.tip and not repository.unpublished(upstream):
        return ""
    try:
        return repository.push(upstream)
    except StepError as error:
        if not made:
            raise
        message = f"committed {short(made)}, but {error.message}"
        raise git_error(message, error.guidance, cause=error.cause) from error


def _pathspecs(files: Sequence[str]) -> bytes:
    """Names that contain `*` or begin with `:` mean themselves."""
    return "".join(f":(top,literal){file}\0" for file in files).encode()
