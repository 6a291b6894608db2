"""The forge that a step works with: `gh` through the step's context, and its refusals."""

from __future__ import annotations

from typing import Any

from playbook_supervisor.errors import StepError, StorageError
from playbook_supervisor.executors.protocol import Context, Task, refuse_words
from playbook_supervisor.formats.sanitize import first_line, last_words, one_line
from playbook_supervisor.system import github
from playbook_supervisor.system.git_unattended import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.system.processes import Completed

CODE = "PB-STEP-FORGE"
INPUT = "PB-STEP-INPUT"
DEADLINE = 60.0
"""Seconds that `gh` has to answer."""

_LAST_LINES, _LAST_WORDS, _CAUSE = 3, 300, 2000  # lines, characters, characters
_LONGEST_TITLE = 256  # characters, as GitHub has it


def gh(context: Context, *arguments: str, stdin: str = "") -> str:
    """The output of `gh ARGUMENTS`.

    StepError PB-STEP-FORGE, with a cure of its own if gh is missing, logged out or offline.
    """
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
        raise StepError(
            CODE,
            first_line(error.message),
            guidance="Install GitHub's gh and put it on PATH.",
            cause=error.cause,
        ) from error
    if done.timed_out:
        raise StepError(
            CODE,
            f"gh did not answer within {DEADLINE:g} s",
            guidance="Look at the network, then run the step again.",
        )
    if done.returncode != 0:
        raise _refused(" ".join(arguments[:2]), done)
    if done.truncated:
        raise StepError(
            CODE,
            f"gh printed more than {context.cap:,} bytes",
            guidance="Raise `max_output_bytes` of the step.",
        )
    return done.stdout


def entries(answer: str) -> list[dict[str, Any]]:
    """The entries of a list that gh printed. StepError if it is no list."""
    listed = github.parse_list(answer)
    if listed is None:
        raise unexpected("a list")
    return listed


def unexpected(wanted: str) -> StepError:
    """The error if gh printed something else than `wanted`."""
    return StepError(CODE, f"gh did not answer with {wanted}", guidance="Update gh.")


def title_of(task: Task) -> str:
    """The title on one line. StepError if there is none."""
    refuse_words(task)
    if title := one_line(task.options["title"], _LONGEST_TITLE):
        return title
    raise StepError(INPUT, "the title is empty", guidance="Correct `title`.")


def body_of(task: Task) -> str:
    """`body`, or else the standard input of the step."""
    body: str = task.options.get("body", task.stdin)
    return body


def _refused(what: str, done: Completed) -> StepError:
    lines = refusal(done)
    words = " / ".join(lines[-_LAST_LINES:])[-_LAST_WORDS:]
    if github.is_elsewhere(done):  # it also advises to log in
        why = "gh knows no forge of this repository"
        cure = "Add the forge's repository as a remote, or `gh auth login --hostname HOST`."
    elif github.is_logged_out(done):
        why, cure = "gh is logged out", "Run `gh auth login`, then run the step again."
    elif github.is_offline(done):
        why, cure = "gh does not reach the forge", "Look at the network, then run the step again."
    else:
        why, cure = f"gh {what} failed", ""
    return StepError(
        CODE, f"{why}: {words}", guidance=cure, cause=last_words("\n".join(lines), _CAUSE)
    )
