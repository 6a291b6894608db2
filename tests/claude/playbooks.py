"""Short playbooks for the terminal and for recoveries, and projects that have them."""

from __future__ import annotations

from pathlib import Path

from support.scratch_project import Project

_HEAD = """\
name: {name}
description: For a test
version: "1.0"
args:
  - name: feature
    description: the feature
    required: true
  - name: note
    description: anything
    required: false
steps:
"""

_STEPS = {
    "two": """\
  - id: plan
    command: /speckit.plan
    autonomy: auto
    postconditions: [plan_exists]
    error_policy: stop
  - id: tasks
    command: /speckit.tasks
    args: "{{note}}"
    autonomy: gate_always
    postconditions: [tasks_exists]
    error_policy: stop
""",
    "straight": """\
  - id: plan
    command: /speckit.plan
    autonomy: auto
    postconditions: [plan_exists]
    error_policy: stop
  - id: tasks
    command: /speckit.tasks
    autonomy: auto
    postconditions: [tasks_exists]
    error_policy: stop
""",
    "group": """\
  - id: plan
    command: /speckit.plan
    autonomy: auto
    parallel_group: all
    model: haiku
    postconditions: [plan_exists]
    error_policy: stop
  - id: tasks
    command: /speckit.tasks
    autonomy: auto
    parallel_group: all
    postconditions: [tasks_exists]
    error_policy: stop
  - id: qa-plan
    command: /qa.plan
    autonomy: auto
    parallel_group: all
    postconditions: [qa_plan_exists]
    error_policy: stop
""",
    "two-gates": """\
  - id: plan
    command: /speckit.plan
    autonomy: gate_always
    parallel_group: both
    postconditions: [plan_exists]
    error_policy: stop
  - id: tasks
    command: /speckit.tasks
    autonomy: gate_always
    parallel_group: both
    postconditions: [tasks_exists]
    error_policy: stop
""",
    "judged": """\
  - id: qa-run
    command: /qa.run
    autonomy: auto
    postconditions: [qa_verdict_pass]
    error_policy: gate
    escalation_triggers: [verdict_fail]
""",
}


def furnished(pristine: Path, folder: Path) -> Path:
    """A project in which `playbook init` has been run, and which has these playbooks."""
    made = Project.copied(pristine, folder / "project", home=folder)
    done = made.playbook("init", "--yes")
    assert done.code == 0, done.err
    shelve(made)
    made.commit("Furnish")
    return made.root


def shelve(project: Project) -> None:
    """Put these playbooks into the project."""
    for name, steps in _STEPS.items():
        project.write(f".playbooks/playbooks/{name}.yaml", _HEAD.format(name=name) + steps)
