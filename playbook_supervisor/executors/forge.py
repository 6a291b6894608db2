"""The forge that a step works with: `gh` through the step's context, and its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playbook_supervisor.errors import StepError, StorageError
from playbook_supervisor.executors.protocol import Context, Task, input_error, refuse_words
from playbook_supervisor.formats.sanitize import first_line, one_line
from playbook_supervisor.system.git import github
from playbook_supervisor.system.git.git_unattended import refusal
from playbook_supervisor.system.process.processes import Completed

CODE = "PB-STEP-FORGE"
DEADLINE = 60.0
"""Seconds that `gh` has to answer."""

_KINDS = {"pr": "a pull request", "issue": "an issue"}
_LONGEST_TITLE = 256  # characters, as GitHub has it


def titled(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of `with:` of what has a title and a body beside these options."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["title"],
        "properties": {
            "title": {"type": "string", "minLength": 1, "description": "One line."},
            "body": {"type": "string", "description": "Markdown; the step's stdin by default."},
            **options,
        },
    }


def gh(context: Context, *arguments: str, stdin: str = "") -> str:
    """The output of `gh ARGUMENTS`. StepError PB-STEP-FORGE, with a cure if gh cannot work here."""
    try:
        done = context.run(
            ["gh", *arguments],
            stdin=stdin.encode("utf-8", "replace"),
            env=github.QUIET,
            cwd=context.root,
            quiet=True,
            timeout=DEADLINE,
        )
    except StorageError as error:
        raise forge_error(
            first_line(error.message), "Install GitHub's gh and put it on PATH.", cause=error.cause
        ) from error
    if done.timed_out:
        raise forge_error(
            f"gh did not answer within {DEADLINE:g} s",
            "Look at the network, then run the step again.",
        )
    if done.returncode != 0:
        raise _refused(" ".join(arguments[:2]), done)
    if done.truncated:
        raise forge_error(
            f"gh printed more than {context.cap:,} bytes", "Raise `max_output_bytes` of the step."
        )
    return done.stdout


def forge_error(message: str, guidance: str = "", *, cause: str = "") -> StepError:
    """PB-STEP-FORGE: gh does not do it."""
    return StepError(CODE, message, guidance=guidance, cause=cause)


def entries(answer: str) -> list[dict[str, Any]]:
    """The entries of a list that gh printed. StepError if it is no list."""
    listed = github.parse_list(answer)
    if listed is None:
        raise unexpected("a list")
    return listed


def unexpected(wanted: str) -> StepError:
    """The error if gh printed something else than `wanted`."""
    return forge_error(f"gh did not answer with {wanted}", "Update gh.")


def title_of(task: Task) -> str:
    """The title on one line. StepError if there is none."""
    refuse_words(task)
    if title := one_line(task.options["title"], _LONGEST_TITLE):
        return title
    raise input_error("the title is empty", "Correct `title`.")


def create(
    context: Context, kind: str, task: Task, *options: str, signature: str = ""
) -> tuple[int, str]:
    """Number and address of what `gh KIND create` opens; the body ends with the `signature`."""
    titled = (f"--title={title_of(task)}", "--body-file=-")
    body = task.options.get("body", task.stdin)
    if signature:
        body = "\n\n".join(filter(None, (body.rstrip(), signature)))
    made = github.created(gh(context, kind, "create", *titled, *options, stdin=body))
    if made is None:
        raise unexpected(f"the address of {_KINDS[kind]}")
    return made


def _refused(what: str, done: Completed) -> StepError:
    said = refusal(done)
    if github.is_elsewhere(done):  # it also advises to log in
        why = "gh knows no forge of this repository"
        cure = "Add the forge's repository as a remote, or `gh auth login --hostname HOST`."
    elif github.is_logged_out(done):
        why, cure = "gh is logged out", "Run `gh auth login`, then run the step again."
    elif github.is_offline(done):
        why, cure = "gh does not reach the forge", "Look at the network, then run the step again."
    else:
        why, cure = f"gh {what} failed", ""
    return forge_error(f"{why}: {said.words}", cure, cause=said.cause)
