"""Files of other systems, run as they are."""

from __future__ import annotations

import json
import os

import pytest
from cli.scripts import conforms
from support.foreign_playbooks import INBOX
from support.scratch_project import Project

PROGRAM = """\
#!/bin/sh
case "$1 $2" in
  "list --json") echo '["a bill"]' ;;
  "categorize --json") sed 's/bill/due bill/' ;;
  *) read -r line; echo "$2 $line" ;;
esac
"""
ROLLOUT = """\
id: start-rollout
description: Plan a rollout
owner: Engineer
reviewers: {required: [Architect]}
inputs:
  - {name: feature-id, type: string, required: true, transform: kebab-case}
outputs: ["rollouts/{{feature-id}}.md"]
steps:
  - id: research
    type: markdown
    config:
      markdown: ./start-rollout.md
  - id: draft
    name: Write the plan
    type: ai-prompt
    config: {prompt: "Plan {{feature-id}}", tools: [Read, Write]}
    outputs: ["rollouts/{{feature-id}}.md"]
    checkpoint: true
  - {id: look, type: bash, config: {command: git status --short}}
"""


@pytest.fixture
def inbox(project: Project) -> Project:
    folder = project.root.with_name(f"{project.root.name}-programs")
    folder.mkdir()
    (folder / "inbox").write_text(PROGRAM)
    (folder / "inbox").chmod(0o755)
    project.env["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    project.write(".playbooks/playbooks/inbox-triage.yaml", INBOX)
    return project


def test_a_tyrum_workflow_runs_to_its_approval_and_past_it(inbox: Project) -> None:
    """tyr 12, tyr 19, tyr 21, tyr 24."""
    assert inbox.playbook("run", "inbox-triage").code == 4
    assert [entry["status"] for entry in inbox.journal()] == ["done", "done", "in_progress"]
    kept = (inbox.session / "playbook.yaml").read_text()
    origin = ".playbooks/playbooks/inbox-triage.yaml"
    assert kept.startswith(f"# Translated from a Tyrum workflow: {origin}\n")
    assert inbox.playbook("answer", "continue").code == 0
    assert inbox.playbook("resume").code == 0
    assert inbox.journal()[-1]["output"] == '--execute ["a due bill"]'
    assert inbox.playbook("audit").code == 0


def test_a_catalyst_playbook_runs_to_its_checkpoint_and_past_it(project: Project) -> None:
    """cat FR-1.2, FR-4.1, FR-4.2, FR-6.1."""
    project.write(".playbooks/playbooks/start-rollout.yaml", ROLLOUT)
    project.write("start-rollout.md", "Look into {{feature-id}}.\n")
    agent = project.script('steps: {draft: {write: {"rollouts/new-inbox.md": "# Plan\\n"}}}')
    assert project.playbook("run", "start-rollout", "New Inbox", "--agent", agent).code == 4
    project.playbook("answer", "continue")  # the step may use Write
    assert project.playbook("resume", "--agent", agent).code == 4
    assert project.journal()[-1]["step_id"] == "draft"
    project.playbook("answer", "continue")
    assert project.playbook("resume", "--agent", agent).code == 0
    assert project.manifest()["args"] == {"feature-id": "new-inbox"}


def test_they_are_listed_and_indexed_as_any_other(inbox: Project) -> None:
    inbox.write(".playbooks/playbooks/start-rollout.yaml", ROLLOUT)
    listed = {each["name"]: each for each in inbox.playbook("list", "--json").json["playbooks"]}
    assert listed["start-rollout"]["description"] == "Plan a rollout"
    assert listed["inbox-triage"]["steps"] == 4
    assert inbox.playbook("index").code == 0
    assert "start-rollout" in inbox.read(".playbooks/_index.yaml")


def test_check_says_what_was_translated_and_finds_nothing_to_fix(inbox: Project) -> None:
    file = ".playbooks/playbooks/inbox-triage.yaml"
    checked = inbox.playbook("check", "--strict", "--format", "json", file)
    assert checked.code == 0
    conforms("check", checked.json)
    (report,) = checked.json["files"]
    assert {each["severity"] for each in report["problems"]} == {"note"}
    first = report["problems"][0]
    assert first["message"] == "read as a Tyrum workflow: translated to version 1.1"


ENTRY = """\
---
description: Write an entry of the changelog
inputs: [{name: topic}]
tools: [Read, Write]
outputs: ["changes/{{topic}}.md"]
---
Write changes/{{topic}}.md.
"""


def test_a_markdown_file_is_a_playbook(project: Project) -> None:
    """own L-1."""
    project.write(".playbooks/playbooks/changelog-entry.md", ENTRY)
    agent = project.script('default: {write: {"changes/inbox.md": "new\\n"}}')
    assert project.playbook("run", "changelog-entry", "inbox", "--agent", agent).code == 4
    project.playbook("answer", "continue")  # the step may use Write
    assert project.playbook("resume", "--agent", agent).code == 0
    (entry,) = project.journal()
    assert entry["status"] == "done"
    assert project.playbook("check", "--strict", "changelog-entry").code == 0
    assert project.playbook("audit").code == 0


def test_a_program_gives_a_tyrum_workflow_as_text(inbox: Project) -> None:
    """tyr 7, tyr 12."""
    request = json.dumps({"action": "run", "pipeline": INBOX})
    answer = inbox.playbook("rpc", input=request).json
    assert answer["status"] == "needs_approval"
    token = answer["requiresApproval"]["resumeToken"]
    resume = json.dumps({"action": "resume", "token": token, "approve": True})
    assert inbox.playbook("rpc", input=resume).json["status"] == "ok"


def test_files_that_are_passed_over_are_named(project: Project) -> None:
    for name in ("notes.lobster", "old.yaml.bak", "Big Name.md"):
        project.write(f".playbooks/playbooks/{name}", "---\nname: x\n---\ntext\n")
    project.write(".playbooks/playbooks/README.md", "# For people\n")
    project.write(".playbooks/playbooks/prompt.md", "Text for a step\n")
    project.write(".playbooks/playbooks/old/x.yaml", "name: x\n")
    listed = project.playbook("list")
    assert listed.code == 0
    assert "Not read: Big Name.md, notes.lobster, old, old.yaml.bak. " in listed.err
    checked = project.playbook("check")
    for name in ("notes.lobster", "old.yaml.bak", "Big Name.md", "old"):
        assert f".playbooks/playbooks:1:1: note: `{name}` is not read" in checked.out
    for name in ("README.md", "prompt.md"):
        assert name not in listed.err + checked.out
