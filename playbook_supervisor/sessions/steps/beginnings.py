"""The record of a beginning, which later evidence is compared to."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Trigger
from playbook_supervisor.project.conditions import conditions
from playbook_supervisor.project.conditions.conditions import REPORT_TRIGGERS, Workspace
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.system.disk.files import write_atomically
from playbook_supervisor.system.git import checkout

UNCOMMITTED = "uncommitted.json"  # local file: what was not committed when the session began


def launch(step: Step, workspace: Workspace, head: str, at: int) -> Launch:
    """Record what is on the disk at a launch, and which tree, if a postcondition needs that."""
    triggers = [trigger for trigger in REPORT_TRIGGERS if wants(step, trigger)]
    artifacts = conditions.record([*step.judging, *triggers], workspace)
    after = step.judging
    needed = step.undo or conditions.need_tree(after) or conditions.run_checks(after)
    return Launch(at, head, artifacts, tree_of(workspace) if needed else "")


def begin(opened: OpenSession, workspace: Workspace, at: int, parent: Launch | None) -> None:
    """Record what is there when the session begins: it is not the session's, and no finding of it.
    A child holds to its parent's ignore rules and PATH, and its changes are those of its parent."""
    from playbook_supervisor.project.commit_files import COMMIT
    from playbook_supervisor.system.git.uncommitted import uncommitted

    head = checkout.find(workspace.root).head
    playbook = opened.playbook
    wanted = any(wants(step, Trigger.AGREEMENT_BREAKING) for step in playbook.steps)
    names = [Trigger.AGREEMENT_BREAKING] if wanted else []
    known = (parent.tree, parent.rules, parent.search_path) if parent else ()
    opened.runtime.begun = Launch(at, head, conditions.record(names, workspace), *known)
    pin(opened, workspace.root)
    if parent is not None:
        return
    playbooks = (playbook, *opened.pinned.children.values())
    if any(step.namespace == COMMIT for each in playbooks for step in each.steps):
        with suppress(PlaybookError):
            found = uncommitted(workspace.root, opened.runtime.pinned)
            paths = json.dumps(found.paths).encode()
            write_atomically(opened.private / UNCOMMITTED, paths, durable=False)
            tree = found.tree
    else:
        tree = tree_of(replace(workspace, pinned=opened.runtime.pinned))
    opened.runtime.begun = replace(opened.runtime.begun, tree=tree)


def pin(opened: OpenSession, root: Path, *, by_a_person: bool = False) -> None:
    """Hold to the ignore rules and to PATH of now, in a session that holds to none: it began
    elsewhere. A run that a person has started takes PATH of their terminal."""
    from playbook_supervisor.system.git.tree import pinned_now

    begun = opened.runtime.begun
    if begun is not None and not begun.rules:
        with suppress(PlaybookError):
            now = pinned_now(root)
            begun = replace(begun, rules=now.rules, search_path=now.search_path)
    if begun is not None and by_a_person:
        begun = replace(begun, search_path=os.environ.get("PATH", ""))
    opened.runtime.begun = begun


def tree_of(workspace: Workspace) -> str:
    """The id of the tree that is there now; empty if git cannot tell."""
    from playbook_supervisor.system.git.tree import tree_id

    try:
        return tree_id(workspace.root, workspace.pinned)
    except PlaybookError:
        return ""


def wants(step: Step, trigger: Trigger) -> bool:
    """True if the step looks at the report that can fire this trigger."""
    if trigger is Trigger.AGREEMENT_BREAKING and step.autonomy is Autonomy.GATE_ON_BREAKING:
        return True
    return trigger in step.escalation_triggers
