"""Warnings about steps whose child probably does not do what their author wants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.child_playbooks import ChildStep, mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.model import Playbook, Step

_FEATURE = "feature"


def lint(children: Iterable[ChildStep], document: Document) -> Iterator[Problem]:
    """Warnings about these steps of the document, as far as their children are right."""
    for each in children:
        if each.file is None or each.faults or each.step.autonomy is Autonomy.SKIP:
            continue
        path = ("steps", each.index, "command")
        for code, message, guidance in _warnings(each.step, each.file.playbook):
            yield problem_at(document, path, code, message, guidance, severity="warning")


def _warnings(step: Step, child: Playbook) -> Iterator[tuple[str, str, str]]:
    if any(arg.name == _FEATURE for arg in child.args) and _FEATURE not in mapping(step):
        yield (
            "PB-CHECK-LINT-FEATURE",
            f"{child.name} takes a `feature`, and the step gives it none",
            "Pass it on: `with: {args: {feature: '{{feature}}'}}`.",
        )
    if not step.postconditions and not step.outputs and not _proves(child):
        yield (
            "PB-CHECK-LINT-UNSEEN",
            f"neither `{step.id}` nor the last step of {child.name} has postconditions",
            "Add a condition that holds once the work is done, if there is one.",
        )


def _proves(child: Playbook) -> bool:
    """Whether something is proved at its end, or its last steps need no proof."""
    runs = [step for step in child.phases[-1] if step.autonomy is not Autonomy.SKIP]
    return bool(child.outputs) or not any(
        step.needs_agent and not step.postconditions and not step.outputs for step in runs
    )
