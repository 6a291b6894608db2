"""A workspace of kai, as its documents describe one: its own supervisor is a prompt.

    project = workspace(project)

It has kai's commands, its two playbooks, its guide, and an interrupted session without a copy of
its playbook.
"""

from __future__ import annotations

from support.scratch_project import FEATURE, Project

SESSION = "20260219-a7k"

RUN = """\
---
description: Run a playbook with autonomous supervision
---
You are the playbook supervisor. Orchestrate the playbook named in $ARGUMENTS from start to end.

1. Read `.playbooks/playbooks/{playbook}.yaml` and check it: `npx @tcanaud/playbook check`.
2. Create `.playbooks/sessions/{YYYYMMDD}-{3char}/` with `session.yaml` and `journal.yaml`.
3. For each step, in order: evaluate its preconditions, launch a Task subagent that runs the
   command, evaluate its postconditions, and append an entry to `journal.yaml` with the status, the
   decision, the time and the duration.
4. At a gate, ask the developer in the TUI, and log the response.
"""
RESUME = """\
---
description: Resume a crashed playbook session
---
You are the playbook supervisor. Run `git worktree list`, find the session of this worktree in
`.playbooks/sessions/`, read its journal, and continue at the step that is in progress: if its
postconditions hold, mark it done, else run it again.
"""
WORK = """\
---
description: {name}
---
Do what {name} means for the feature $ARGUMENTS.
"""
CHECK = """\
---
description: Check the code against the agreement
---
Compare the code of $ARGUMENTS with its agreement. End the report with:

## Verdict

**[PASS]** or **[FAIL]**, and one sentence
"""

PLAYBOOK = """\
name: "auto-feature"
description: "Full feature workflow from plan to PR"
version: "1.0"

args:
  - name: "feature"
    description: "Feature branch name"
    required: true

steps:
  - id: "plan"
    command: "/speckit.plan"
    args: ""
    autonomy: "auto"
    model: "opus"
    preconditions:
      - "spec_exists"
    postconditions:
      - "plan_exists"
    error_policy: "stop"
    escalation_triggers: []

  - id: "agreement-check"
    command: "/agreement.check"
    args: "{{feature}}"
    autonomy: "gate_on_breaking"
    preconditions: []
    postconditions:
      - "agreement_pass"
    error_policy: "gate"
    escalation_triggers:
      - "agreement_breaking"

  - id: "pr"
    command: "/feature.pr"
    args: "{{feature}}"
    autonomy: "gate_always"
    preconditions: []
    postconditions:
      - "pr_created"
    error_policy: "stop"
"""
MANIFEST = f"""\
session_id: "{SESSION}"
playbook: "auto-feature"
feature: "{FEATURE}"
args:
  feature: "{FEATURE}"
status: "in_progress"
started_at: "2026-02-19T10:00:00Z"
completed_at: ""
current_step: "agreement-check"
worktree: ""
"""
JOURNAL = """\
entries:
  - step_id: "plan"
    status: "done"
    decision: "auto"
    started_at: "2026-02-19T10:00:05Z"
    completed_at: "2026-02-19T10:02:30Z"
    duration_seconds: 145
    trigger: ""
    human_response: ""
    error: ""
  - step_id: "agreement-check"
    status: "in_progress"
    decision: "auto"
    started_at: "2026-02-19T10:02:31Z"
    completed_at: ""
    duration_seconds: 0
    trigger: ""
    human_response: ""
    error: ""
"""
COMMANDS = ("feature.workflow", "qa.check", "speckit.specify", "speckit.clarify")


def workspace(project: Project) -> Project:
    """Turn a project with the commands of a feature's workflow into a workspace of kai."""
    project.git("rm", "-rq", ".playbooks")
    for name in COMMANDS:
        project.write(f".claude/commands/{name}.md", WORK.format(name=name))
    project.write(".claude/commands/agreement.check.md", CHECK)
    project.write(".claude/commands/playbook.run.md", RUN)
    project.write(".claude/commands/playbook.resume.md", RESUME)
    project.write(".playbooks/playbooks/auto-feature.yaml", PLAYBOOK)
    project.write(".playbooks/_index.yaml", _index())
    project.write(".playbooks/templates/playbook.tpl.yaml", f"# Copy me.\n{PLAYBOOK}")
    project.write(".knowledge/guides/playbook-authoring.md", "# Playbook authoring\n")
    project.write(f".features/{FEATURE}.yaml", f'feature_id: "{FEATURE}"\nstatus: "active"\n')
    project.write(f"specs/{FEATURE}/plan.md", "# Plan\n")
    project.write(f".agreements/{FEATURE}/agreement.yaml", 'status: "active"\n')
    project.write(f".playbooks/sessions/{SESSION}/session.yaml", MANIFEST)
    project.write(f".playbooks/sessions/{SESSION}/journal.yaml", JOURNAL)
    project.commit("As kai left it")
    return project


def _index() -> str:
    return """\
generated: "2026-02-19T10:00:00Z"
playbooks:
  - name: "auto-feature"
    file: "playbooks/auto-feature.yaml"
    description: "Full feature workflow from plan to PR"
    steps: 3
"""
