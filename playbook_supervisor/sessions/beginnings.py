"""What is recorded when something begins: later evidence is compared to it."""

from __future__ import annotations

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Trigger
from playbook_supervisor.project import conditions
from playbook_supervisor.project.conditions import REPORT_TRIGGERS, Workspace
from playbook_supervisor.sessions.local_state import Launch


def launch(step: Step, workspace: Workspace, head: str, at: int) -> Launch:
    """Record what is on the disk at a launch, and which tree, if a postcondition needs that."""
    triggers = [trigger for trigger in REPORT_TRIGGERS if wants(step, trigger)]
    artifacts = conditions.record([*step.judging, *triggers], workspace)
    after = step.judging
    needed = conditions.need_tree(after) or conditions.run_checks(after)
    return Launch(at, head, artifacts, tree_of(workspace) if needed else "")


def begun(playbook: Playbook, workspace: Workspace, head: str, at: int) -> Launch:
    """Record the reports that exist when the session begins: they are not its findings."""
    wanted = any(wants(step, Trigger.AGREEMENT_BREAKING) for step in playbook.steps)
    names = [Trigger.AGREEMENT_BREAKING] if wanted else []
    return Launch(at, head, conditions.record(names, workspace))


def tree_of(workspace: Workspace) -> str:
    """The id of the tree that is there now; empty if git cannot tell."""
    from playbook_supervisor.system.tree import tree_id

    try:
        return tree_id(workspace.root)
    except PlaybookError:
        return ""


def wants(step: Step, trigger: Trigger) -> bool:
    """Whether the step looks at the report that can fire this trigger."""
    if trigger is Trigger.AGREEMENT_BREAKING and step.autonomy is Autonomy.GATE_ON_BREAKING:
        return True
    return trigger in step.escalation_triggers
