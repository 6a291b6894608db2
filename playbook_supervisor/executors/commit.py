"""`commit`: commit what matches the given patterns and nothing else, and push it (cat FR-4.4).

Hooks run, nothing is forced, and what a person has staged stays staged (docs/decisions/0172).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from playbook_supervisor.errors import StepError
from playbook_supervisor.executors.protocol import Context, Task, refuse_words
from playbook_supervisor.executors.repository import (
    CODE,
    INPUT,
    SESSIONS,
    Repository,
    Upstream,
    short,
)
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.system.git_commit import committing, make_up

_UNFINISHED = ":(exclude,top,glob)**/.playbook-tmp-*"  # session files that are being written
_NAMES = ("--pathspec-from-file=-", "--pathspec-file-nul")
_NEW = ("ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--")
_CHANGED = (
    "diff",
    "--name-only",
    "--no-renames",
    "--no-ext-diff",
    "--ignore-submodules=dirty",
    "-z",
)


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
        if upstream and pull and (taken := repository.fast_forward(upstream)):
            context.say(taken)
        made, files = _commit(repository, message, patterns)
        told = f"committed {counted(len(files), 'file')} as {short(made)}"
        told = told if made else f"nothing to commit in {', '.join(task.options['paths'])}"
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
        raise StepError(INPUT, "the message of the commit is empty", guidance="Correct `message`.")
    return printable(message, keep_newlines=True)


def _patterns(paths: Sequence[str]) -> tuple[str, ...]:
    """The patterns as pathspecs. Sessions are left out unless a pattern names them."""
    for path in paths:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or printable(path) != path:
            raise StepError(
                INPUT,
                f"the pattern {first_line(path, 80)!r} is no path inside the repository",
                guidance="Write patterns from the top of the repository, without `..`.",
            )
    named = any(path.startswith(SESSIONS) for path in paths)
    sessions = () if named else (f":(exclude,top){SESSIONS}",)
    globs = (str(PurePosixPath(path)) for path in paths)
    wanted = (f":(top,glob){'**' if glob == '.' else glob}" for glob in globs)
    return (*wanted, *sessions, _UNFINISHED)


def _upstream(repository: Repository, branch: str, *, push: bool, pull: bool) -> Upstream | None:
    upstream = repository.upstream(branch) if push or pull else None
    if push and upstream is None:
        raise StepError(
            CODE,
            f"there is no remote to push {branch} to",
            guidance="Add one (`git remote add origin ADDRESS`), or write `push: false`.",
        )
    return upstream


# ── committing ──────────────────────────────────────────────────────────────────────────────


def _commit(repository: Repository, message: str, patterns: Sequence[str]) -> tuple[str, list[str]]:
    """Commit what matches; the commit and its files, nothing if there are none."""
    make_up(repository.git, repository.runtime)
    base = (
        repository.commit() or repository.ask("hash-object", "-t", "tree", "--stdin").strip()
    )  # the empty one
    changed = _split(repository.ask(*_CHANGED, base, "--", *patterns))
    new = _split(repository.ask(*_NEW, *patterns))
    files = sorted({*changed, *new})
    if not files:
        return "", []
    message_option = f"--message={message}"
    with committing(repository.git, repository.runtime, files, new):
        if new:  # by name only; the commit adds their content
            repository.change("add", "--intent-to-add", *_NAMES, stdin=_pathspecs(new))
        repository.change(
            "commit",
            "--quiet",
            "--cleanup=whitespace",
            message_option,
            "--only",
            *_NAMES,
            stdin=_pathspecs(files),
        )
    return repository.commit(), files


def _push(repository: Repository, upstream: Upstream, made: str) -> str:
    """Push if there is something to push; a line about it."""
    if not made and not upstream.tip and not repository.unpublished(upstream):
        return ""
    try:
        return repository.push(upstream)
    except StepError as error:
        if not made:
            raise
        message = f"committed {short(made)}, but {error.message}"
        raise StepError(CODE, message, guidance=error.guidance, cause=error.cause) from error


def _split(listed: str) -> list[str]:
    return [name for name in listed.split("\0") if name]


def _pathspecs(files: Sequence[str]) -> bytes:
    """Names that contain `*` or begin with `:` mean themselves."""
    return "".join(f":(top,literal){file}\0" for file in files).encode()
