"""How the conditions that run a check are probed: by its exit status, and never twice on a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.project.checks import find_check, prove
from playbook_supervisor.project.probes import LaunchRecord, Workspace
from playbook_supervisor.project.requirement import Requirement

_NOT_STARTED = (126, 127)
"""The exit statuses of shells, `env` and the like for a program that they cannot start (POSIX)."""


def succeeds(
    required: Requirement, _paths: Sequence[str], workspace: Workspace, _launch: LaunchRecord
) -> Probed:
    """Whether the check ends with exit status 0."""
    return _probe(required, workspace, lambda status: status == 0)


def fails(
    required: Requirement, _paths: Sequence[str], workspace: Workspace, _launch: LaunchRecord
) -> Probed:
    """Whether the check runs and ends with another exit status: red before green."""
    return _probe(required, workspace, lambda status: status not in (0, *_NOT_STARTED))


def _probe(required: Requirement, workspace: Workspace, wanted: Callable[[int], bool]) -> Probed:
    (parameter,) = required.parameters
    root, config, checking = workspace.root, workspace.config, workspace.checking
    try:
        proof, before = prove(
            find_check(parameter, config), root, config, checking, wanted, workspace.pinned
        )
    except PlaybookError as error:
        said = f"could not be checked: {first_line(error.message)}"
        return Probed(required.name, Answer.ERROR, f"{said}. {error.guidance}".rstrip())
    evidence = f"{proof.evidence}, proved before" if before else proof.evidence
    if before and proof.by:
        evidence += f", by {proof.by}"
    answer = Answer.HELD if wanted(proof.status) else Answer.NOT_HELD
    if answer is Answer.NOT_HELD and proof.status in _NOT_STARTED:
        return Probed(required.name, Answer.ERROR, f"could not be checked: {evidence}")
    return Probed(required.name, answer, evidence)
