"""Warnings about steps whose child probably does not do what their author wants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.child_playbooks import ChildStep, mapping
from playbook_supervisor.project.references import is_reference, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.model import Playbook, Step

_FEATURE = "feature"


def lint(
    playbook: Playbook, children: Iterable[ChildStep], document: Document
) -> Iterator[Problem]:
    """Warnings about these steps of the playbook, as far as their children are right."""
    for each in children:
        if each.file is None or each.faults or each.step.autonomy is Autonomy.SKIP:
            continue
        path, child = ("steps", each.index, "command"), each.file.playbook
        for code, message, guidance in (
            *_may_lack(playbook, each.step, child),
            *_warnings(each.step, child),
        ):
            yield problem_at(document, path, code, message, guidance, severity="warning")


def _may_lack(playbook: Playbook, step: Step, child: Playbook) -> Iterator[tuple[str, str, str]]:
    """A required arg that is given nothing but an arg that need not have a value."""
    stated = mapping(step)
    optional = {arg.name for arg in playbook.args if not arg.required and not arg.default}
    for arg in child.args:
        text = stated.get(arg.name, "").strip()
        if arg.required and not arg.default and is_reference(text) and names(text)[0] in optional:
            yield (
                "PB-CHECK-CHILD",
                f"the arg {arg.name} of {child.name} is required, and `{text}` may have no value",
                "Declare that arg as required, or give it a default.",
            )


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
