"""The needs of a playbook's steps, in the project's settings and on this machine, seen before
anything runs: programs that may be started and are there, a remote to push to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.errors import CheckError, PlaybookError, PolicyError
from playbook_supervisor.kernel.error_policy import Reaction
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.conditions.conditions import checks
from playbook_supervisor.project.expressions.requirement import LISTS
from playbook_supervisor.project.settings.bounds import admit_program, where_is
from playbook_supervisor.project.settings.checks import find_check
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record
from playbook_supervisor.system.git.git_process import ask

_PROGRAMS = {"branch": "git", "commit": "git", "issue": "gh", "pr": "git gh"}
"""Namespace → the programs that its steps start."""
_ADDS_REMOTES = frozenset({"git", "gh"})  # programs by which an earlier step may add one
_TOLERANT = (Reaction.CONTINUE, Reaction.IGNORE, Reaction.GATE)
_ADD_REMOTE = "Add one: `git remote add origin ADDRESS`."


class Lack(Record):
    """Something that a step needs, and that is not here: a sentence, and the cure.

    `fatal`: the step will fail, and neither a person nor its error policy lets the run go on.
    """

    index: int
    message: str
    guidance: str
    fatal: bool

    @property
    def sentence(self) -> str:
        return f"{self.message}. {self.guidance}"


def named_checks(step: Step) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The checks that a step's conditions name, with their paths in it, but for what args name."""
    listed: dict[tuple[str, ...], tuple[str, ...]] = {(key,): getattr(step, key) for key in LISTS}
    for place, names in {**listed, ("until", "conditions"): step.until}.items():
        for number, name in enumerate(names):
            for parameter in checks([name]) if "{{" not in name else ():
                yield (*place, number), parameter


def refused(
    step: Step, config: Config, root: Path
) -> Iterator[tuple[tuple[str | int, ...], PolicyError]]:
    """The checks and the programs of the step that the project's `allow` and `deny` refuse."""
    if step.autonomy is Autonomy.SKIP:
        return
    for path, parameter in named_checks(step):
        try:
            admit_program(config, find_check(parameter, config).argv, root, by="settings")
        except PolicyError as error:
            said = f"the check {parameter} cannot run: {error.message}"
            yield path, PolicyError(error.code, said, guidance=error.guidance)
        except CheckError:  # it is not defined, which is another fault
            continue
    for program in _PROGRAMS.get(step.namespace, "").split():
        try:
            admit_program(config, (program,), root, by="us")
        except PolicyError as error:
            yield ("command",), error


def lacking(playbook: Playbook, root: Path, start: str = "") -> Iterator[Lack]:
    """The needs of the steps from `start` on that this machine or the repository does not meet."""
    for index, step in running(playbook, start):
        fatal = not _may_be_left_out(step)
        for program in _PROGRAMS.get(step.namespace, "").split():
            if where_is(program) is None:
                message = f"{step.id} needs {program}, which is not on PATH here"
                yield Lack(index, message, "Install it, or put it on PATH.", fatal)
        if pushes(step) and not _remotes(root):
            message = f"{step.id} needs a remote to push to, and the repository has none"
            adds = any(
                each.namespace == "cli" and _ADDS_REMOTES & set(each.command.split())
                for each in playbook.steps[:index]
            )
            yield Lack(index, message, _ADD_REMOTE, fatal and not adds)


def _may_be_left_out(step: Step) -> bool:
    asked = step.approval or step.autonomy is Autonomy.GATE_ALWAYS or step.when or step.skip_if
    return bool(asked) or step.error_policy.default.reaction in _TOLERANT


def running(playbook: Playbook, start: str = "") -> Iterator[tuple[int, Step]]:
    """The steps from `start` on that run, with their indexes."""
    first = [step.id for step in playbook.steps].index(start) if start else 0
    for index, step in enumerate(playbook.steps):
        if index >= first and step.autonomy is not Autonomy.SKIP:
            yield index, step


def pushes(step: Step) -> bool:
    """True if the step pushes its branch; `commit` does so unless it says otherwise."""
    options = json.loads(step.options or "{}")
    return step.namespace == "pr" or (step.namespace == "commit" and options.get("push", True))


def _remotes(root: Path) -> str:
    try:
        return ask(root, "remote").strip()
    except PlaybookError:
        return "?"
